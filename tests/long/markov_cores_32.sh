#!/usr/bin/env bash
# jobs/markov-cores.yaml with 32 seeds: its claims, and all its files under the eyes of other programs. Then the same seeds
# with a core of the bare logits, whose fourth direction, the shift common to all logits, lies about the threshold of energy;
# what comes out is printed and not judged.
#
#   INVAR_LONG_SEEDS=32   seeds
#   INVAR_LONG_EPOCHS=40  epochs; with few of them the task is not learned and claims do not hold
. tests/end_to_end/lib.sh
job=$TOP/jobs/markov-cores.yaml
settings=(--set "seeds=${INVAR_LONG_SEEDS:-32}" --set "train.epochs=${INVAR_LONG_EPOCHS:-40}")
cores=$(nproc)

mpirun -q -n "$cores" "$INVAR" run "$job" -o cores --quiet "${settings[@]}" >run.log 2>&1
code=$?
cat run.log
if [ $code -eq 0 ]; then ok all_claims_hold; else not_ok "all_claims_hold (exit code $code)"; fi
/usr/bin/python3 -B "$TOP/tests/cf_check.py" cores/runs.nc cores/cross_run.nc || bad=1
/usr/bin/python3 -B "$TOP/tests/cf_check.py" --nan cores/tiles/*.nc || bad=1
/usr/bin/python3 -B "$TOP/tests/reference/check_cores.py" cores || bad=1

exits bare_logits_train 0 mpirun -n "$cores" "$INVAR" train "$job" -o bare --quiet "${settings[@]}" \
    --set probe.ace.outputs=logits
exits bare_logits_gather 0 "$INVAR" gather bare --quiet --set gather.cca.pairs=false
/usr/bin/python3 -B - bare/runs.nc <<'PY'
import sys, numpy, xarray
runs = xarray.open_dataset(sys.argv[1])
share = (runs.core_weight / runs.core_weight.sum("component")).values
rank = runs.core_rank.values
print("\ncore of the bare logits:")
for r in numpy.unique(rank):
    print(f"  rank {r:.0f} by energy in {(rank == r).sum()} of {len(rank)} seeds ({(rank == r).mean():.0%})")
fourth = numpy.sort(share[:, 3])
print(f"  share of the fourth core weight: {fourth[0]:.5f} to {fourth[-1]:.5f}, median {numpy.median(fourth):.5f}")
print("  of each seed: " + " ".join(f"{x:.5f}" for x in share[:, 3]))
PY
exit $bad
