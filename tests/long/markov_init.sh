#!/usr/bin/env bash
# jobs/markov-init.yaml: the initialisation map is made, passes the CF check, and is no uniform plain. Prints it.
#
#   INVAR_LONG_SEEDS   seeds per point, instead of the job's
#   INVAR_LONG_AXIS    values of both axes instead of the job's, without blanks: [0.1,1,30]
#   INVAR_LONG_EPOCHS  epochs, instead of the job's
. tests/end_to_end/lib.sh
job=$TOP/jobs/markov-init.yaml
settings=()
[ -z "${INVAR_LONG_SEEDS:-}" ] || settings+=(--set "seeds=$INVAR_LONG_SEEDS")
[ -z "${INVAR_LONG_EPOCHS:-}" ] || settings+=(--set "train.epochs=$INVAR_LONG_EPOCHS")
if [ -n "${INVAR_LONG_AXIS:-}" ]; then
    for key in $(sed -n 's/^  \(init\.[a-z._]*\): .*/\1/p' "$job"); do settings+=(--set "axes.$key=$INVAR_LONG_AXIS"); done
fi

mpirun -q -n "$(nproc)" "$INVAR" run "$job" -o map --quiet "${settings[@]}" >run.log 2>&1
code=$?
cat run.log
if [ $code -eq 0 ]; then ok run; else not_ok "run (exit code $code)"; fi
/usr/bin/python3 -B "$TOP/tests/cf_check.py" map/phase_map.nc map/runs.nc || bad=1
/usr/bin/python3 -B - map/phase_map.nc <<'PY' || bad=1
import sys, numpy, xarray
phase = xarray.open_dataset(sys.argv[1])
rows, columns = phase.outcome.dims
meaning = dict(zip(numpy.atleast_1d(phase.outcome.attrs["flag_values"]).tolist(),
                   phase.outcome.attrs["flag_meanings"].split()))
names = numpy.vectorize(meaning.get)(phase.outcome.values)
maps = [("outcome by majority", names), ("share of that outcome", phase.outcome_share.values),
        ("accuracy on the test set, mean over seeds", phase.accuracy_test_mean.values),
        ("core dimension, mean over seeds", phase.core_dim_mean.values)]
for title, values in maps:
    print(f"\n{title}; {rows} downwards, {columns} to the right")
    print(" " * 9 + "".join(f"{x:11.3g}" for x in phase[columns].values))
    for y, line in zip(phase[rows].values, values):
        print(f"{y:9.3g}" + "".join(f"{v:>11s}" if isinstance(v, str) else f"{v:11.3f}" for v in line.tolist()))
dims = phase.core_dim_mean.values
kinds = len(numpy.unique(names)), len(numpy.unique(numpy.round(dims[numpy.isfinite(dims)])))
good = max(kinds) >= 2
print(f"\n{'ok' if good else 'not ok'} map_has_regions ({kinds[0]} outcomes, {kinds[1]} core dimensions)")
sys.exit(not good)
PY
exit $bad
