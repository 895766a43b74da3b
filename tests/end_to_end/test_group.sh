#!/usr/bin/env bash
# Maps of manifold models, trained side by side: the same bits on any number of ranks, on any instruction set, in tiles of any
# size, and after stops and kills in the middle of a tile.
. tests/end_to_end/lib.sh

# map NAME STEPS: 8 x 6 points of three structures, of different lengths
map() {
    cat >"$1.yaml" <<YAML
name: $1
task: {kind: blocklist, pattern: recall, layout: contiguous, expectation: patterns, rare_tokens: 10}
model:
  kind: manifold
  layers: 3
  heads: 1
  embedding: one_hot
  self_attention: false
  coordinates: alpha_1 alpha_2 beta_12 beta_13 beta_23 gamma_2 gamma_3
  precision: float64
init: {scheme: coordinates, others: 0.05, noise: 0.001}
train: {optimizer: sgd, lr: 1, loss: squared, steps: $2, target_loss: 0.01}
axes:
  task.blocks: [3, 4, 5]
  init.coordinates.gamma_2: {from: 0, to: 1, points: 4}
  init.coordinates.gamma_3: {from: 0, to: 1, points: 4}
seeds: 3
probe: {at: end, manifold: {coordinates: true, gradient: true, winner: true, emerged_below: 0.2, level: 0.5}}
store: {tile_runs: 20, checkpoint_every: 3600}
YAML
}

map map 700
exits whole 0 "$INVAR" train map.yaml -o whole --quiet
for ranks in 2 3 7; do
    exits "ranks_$ranks" 0 many $ranks train map.yaml -o "ranks$ranks" --quiet
    same "ranks_${ranks}_have_the_same_bits" whole "ranks$ranks"
done
for isa in scalar avx2; do
    exits "isa_$isa" 0 env INVAR_ISA=$isa "$INVAR" train map.yaml -o "$isa" --quiet --set seeds=1
    if [ "$isa" = scalar ] || grep -q avx2 /proc/cpuinfo; then same "${isa}_has_the_same_bits" "$isa" whole --within; fi
done
exits one_by_one 0 many 2 train map.yaml -o one --quiet --set store.tile_runs=1
same tiles_of_one_have_the_same_bits whole one
exits all_at_once 0 "$INVAR" train map.yaml -o all --quiet --set store.tile_runs=1000
same one_tile_has_the_same_bits whole all
exits verify 0 many 3 verify whole --sample 40 --seed 1
says verify_counts 'whole: 40 of 40 runs have the bits of their records'

# Stopped and killed while lanes are at work; finished runs of the tile may stay, the others begin anew.
map long $((30000 / slower))
sed -i 's/target_loss: 0.01/target_loss: 1e-12/; s/steps: \([0-9]*\),/steps: \1, eval_every: 10000,/' long.yaml
exits long_whole 0 many 2 train long.yaml -o long_whole --quiet
interrupted() {                 # interrupted NAME SIGNAL
    mpirun -n 2 "$INVAR" train long.yaml -o "$1" >"$1.log" 2>&1 &
    local pid=$!
    wait_until 30 training "$1" || not_ok "$1_starts" "$1.log"
    sleep 0.3
    kill -"$2" $pid
    wait $pid
    check "$1_was_not_done" test "$(tiles "$1")" -lt "$(tiles long_whole)"
    wait_until 30 lock_is_free "$1"
    exits "$1_goes_on" 0 many 2 train long.yaml -o "$1" --quiet
    same "$1_has_the_same_bits" long_whole "$1"
    check "$1_leaves_no_checkpoint" sh -c "! ls $1/checkpoints/*.ck"
}
interrupted usr1 USR1
interrupted killed KILL

exits bench 0 "$INVAR" bench map.yaml --json
check bench_is_complete /usr/bin/python3 - <<'PY'
import json
r = json.loads(open("out.log").read())
assert r["points"] == 144 and r["operations"] > 100 and r["steps"] > 0 and r["build_ms"] > 0, r
assert abs(r["points_per_second"] * r["point_ms"] - 1000) < 1, r
assert abs(r["step_us"] * r["steps"] - 1000 * r["point_ms"] * r["points"]) < 1e-2 * r["step_us"] * r["steps"], r
PY
exits bench_no_dump 2 "$INVAR" bench map.yaml --dump x.nc
exit $bad
