#!/usr/bin/env bash
# Every order of computation, whole trainings from the command line: the planner takes the one that is meant, and the bits are the
# same at 1 and 3 ranks, on every instruction set, stopped and resumed or not; the textbook order trains to the same losses.
. tests/end_to_end/lib.sh

order_job() {                   # order_job NAME "MODEL KEYS" [POSITIONS]
    cat >"$1.yaml" <<YAML
name: $1
task: {kind: markov, states: 5, sequences: 256, test_sequences: 64, length: 17}
model: {$2, max_length: 16}
train: {steps: 30, batch: 64, lr: 1e-2, positions: [${3--1}], eval_every: 10}
seeds: 3
probe: {ace: {layer: 0}}
store: {tile_runs: 1, checkpoint_every: 3600}
YAML
}
isas=(scalar)
grep -qw avx2 /proc/cpuinfo && isas+=(avx2)
grep -qw avx512f /proc/cpuinfo && isas+=(avx512)
[ $slower -eq 1 ] || isas=()    # tests/kern and tests/model go through all of them; end to end they need no sanitizer

try() {                         # try NAME ORDER
    exits "$1_plan" 0 "$INVAR" plan "$1.yaml" -v
    check "$1_takes_$2" grep -q -- "-> $2 " out.log
    exits "$1_train" 0 "$INVAR" train "$1.yaml" -o "$1" -q
    exits "$1_three_ranks" 0 many 3 train "$1.yaml" -o "$1.3" -q
    same "$1_same_bits_at_3_ranks" "$1" "$1.3"
    for isa in "${isas[@]}"; do
        INVAR_ISA=$isa "$INVAR" train "$1.yaml" -o "$1.$isa" -q
        same "$1_same_bits_on_$isa" "$1" "$1.$isa"
    done
    # In double, where roundings do not grow into anything in so few steps.
    "$INVAR" train "$1.yaml" -o "$1.double" -q --set model.precision=float64
    "$INVAR" train "$1.yaml" -o "$1.dense" -q --set model.precision=float64 --set train.plan=dense
    check "$1_dense_agrees" /usr/bin/python3 - "$1.double" "$1.dense" <<'PY'
import glob, sys, netCDF4, numpy as np
def losses(folder):
    return np.array(sorted(tuple(netCDF4.Dataset(n)["loss_test"][:].ravel()) for n in glob.glob(folder + "/tiles/*.nc")))
a, b = map(losses, sys.argv[1:])
assert a.shape == b.shape and len(a) == 3, (a.shape, b.shape)
assert np.abs(a - b).max() < 1e-10 * np.abs(b).max(), (a, b)
PY
}

order_job rows 'layers: 2, d_model: 32, heads: 2, d_mlp: 48, norm: pre, dropout: 0.1' '0, -1'
order_job everywhere 'layers: 2, d_model: 32, heads: 2, d_mlp: 48, norm: pre, dropout: 0.1' ''
order_job reach 'layers: 2, d_model: 32, heads: 2, d_mlp: [0, 48], norm: none'
order_job single 'layers: 1, d_model: 32, heads: 2, d_mlp: 48, norm: none'
order_job only 'kind: attention_only, layers: 2'
try rows keys
try everywhere table
try reach reach
try single single
try only paths
exit $bad
