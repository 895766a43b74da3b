#!/usr/bin/env bash
# A small but real job from the command line to the report, and everything that it leaves, seen by other programs: the CF
# check, xarray, ncdump, numpy. Two seeds are trained first and two are added, so that train and run are both measured.
. tests/end_to_end/lib.sh
LOOK="/usr/bin/python3 -B $TOP/tests/end_to_end/check_results.py"

# peak FILE COMMAND...: the largest resident set of its processes, in bytes, into FILE.
peak() {
    /usr/bin/python3 - "$@" <<'PY'
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL).returncode
with open(sys.argv[1], "w") as f:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=f)
sys.exit(code)
PY
}
cf() {      # cf NAME ARGUMENTS...: tests/cf_check.py, whose own lines are passed on
    local name=$1
    shift
    /usr/bin/python3 -B "$TOP/tests/cf_check.py" "$@" >cf.log 2>cf.err || { bad=1; cat cf.err; }
    grep -E '^(not )?ok ' cf.log || not_ok "$name" cf.log cf.err
}

# The paper's model and data (arXiv 2602.22600), at ten times its learning rate so that a few epochs do. The last claim is
# there to fail.
real_job() {
    cat >real.yaml <<'YAML'
name: real
task: {kind: markov, states: 4, stay: 0.75, sequences: 3000, test_sequences: 3000, length: 32}
model: {d_model: 64, heads: 4, d_mlp: 256, norm: post, dropout: 0.1}
train: {lr: 1e-3, batch: 64, epochs: 2, eval_sequences: 500}
seeds: 4
probe: {ace: {layer: 1, outputs: centered_logits}}
gather: {cca: {permutations: 20}}
claims:
  - that: core_dim == 3
  - that: 0.745 <= accuracy_core_only <= 0.755
  - that: 0.2 <= accuracy_core_removed <= 0.3
  - that: min(canonical_correlation) >= 0.9
  - that: operator_eigenvalue_error[0] <= 0.02
  - that: max(projector_overlap) >= 0.9
    says: cores lie in the same subspace (they do not)
YAML
    exits plan 0 "$INVAR" plan real.yaml
    cp out.log plan.log
    exits train 0 peak train.peak mpirun -n 2 "$INVAR" train real.yaml -o real --set seeds=2 --quiet
    exits run_with_a_claim_that_fails 1 many 2 run real.yaml -o real --quiet
    says one_claim_fails '1 claim does not hold'
    check trained_only_the_rest test "$(tiles real)" -eq 4

    cf cf_results real/runs.nc real/cross_run.nc
    cf cf_tiles --nan real/tiles/*.nc
    check xarray_and_ncdump_open_all $LOOK open real
    check contents_are_as_promised $LOOK contents real
    if /usr/bin/python3 -B "$TOP/tests/reference/check_cores.py" real >cores.log 2>&1; then
        grep '^ok ' cores.log
    else
        not_ok numpy_agrees cores.log
    fi
    check report_page $LOOK page real
    check report_claims $LOOK claims real real.yaml

    cp real/cross_run.nc real/runs.nc .
    for n in 1 2 3 7; do
        exits "gather_at_$n" 0 peak "gather$n.peak" mpirun -n $n "$INVAR" gather real --quiet
        check "same_cross_run_at_$n" $LOOK same cross_run.nc real/cross_run.nc
        check "same_runs_at_$n" $LOOK same runs.nc real/runs.nc
    done
    check plan_is_right $LOOK plan plan.log real "$(cat train.peak)" "$(sort -n gather*.peak | tail -n 1)"
    cat check.log
}

# A grid, half of which diverges.
grid_job() {
    job grid 3 3 'axes: {train.lr: [1e-3, 1e6], init.scale.mlp: {from: 0.5, to: 2, points: 2, scale: log}}'
    sed -i 's/, lr: 1e-3//; s/tile_runs: 1/tile_runs: 6/' grid.yaml
    exits grid_plan 0 "$INVAR" plan grid.yaml
    cp out.log plan.log
    exits grid_train 0 peak train.peak mpirun -n 2 "$INVAR" train grid.yaml -o grid --quiet
    exits grid 0 peak gather.peak mpirun -n 2 "$INVAR" gather grid --quiet
    exits grid_report 0 "$INVAR" report grid --quiet
    cf cf_map grid/phase_map.nc grid/runs.nc grid/cross_run.nc
    cf cf_map_tiles --nan grid/tiles/*.nc
    check map_is_what_the_runs_say $LOOK map grid train_lr init_scale_mlp
    check map_report_page $LOOK page grid
    [ -z "$sanitized" ] || return
    check grid_plan_is_right $LOOK plan plan.log grid "$(cat train.peak)" "$(cat gather.peak)"
    cat check.log
}

# Sanitizers make training and memory tenfold: the grid is enough for them, without its size.
sanitized=${ASAN_OPTIONS:-}
[ -n "$sanitized" ] || real_job
grid_job
exit $bad
