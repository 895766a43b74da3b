#!/usr/bin/env bash
# attention_only models from the command line: plan, training on one and three ranks, gather with map and pairs, report.
. tests/end_to_end/lib.sh

cat >stream.yaml <<YAML
name: stream
task: {kind: markov, sequences: 256, test_sequences: 64, length: 13}
model: {kind: attention_only, heads: 1, max_length: 12}
init: {scheme: normal, std: 0.01}
train: {epochs: 12, batch: 32, lr: 1e-2, positions: [-1]}
axes: {model.layers: [1, 2], model.self_attention: [true, false]}
seeds: 2
store: {tile_runs: 1}
probe: {ace: {layer: 1}}
gather: {cca: {permutations: 5}}
claims:
  - share(outcome == DONE) == 1
  - min(accuracy_test) >= 0.6
YAML
exits plan 0 "$INVAR" plan stream.yaml
says plan_counts_the_matrices "384 to 1,536 parameters"
exits run_all 0 many 2 run stream.yaml -o stream --quiet
exits run_alone 0 "$INVAR" train stream.yaml -o alone --quiet
same same_bits_on_one_and_two_ranks stream alone
check results /usr/bin/python3 -B - stream <<'PY'
import sys, numpy, xarray
runs = xarray.open_dataset(sys.argv[1] + "/runs.nc")
phase = xarray.open_dataset(sys.argv[1] + "/phase_map.nc")
assert runs.sizes["run"] == 8 and phase.outcome.size == 4, (runs.sizes, phase.outcome)
assert (runs.accuracy_test > 0.6).all(), runs.accuracy_test.values     # the chain stays with 0.75
assert (runs.core_dim >= 1).all(), runs.core_dim.values
PY
check report test -s stream/report.html
check job_yaml_reads_back "$INVAR" plan stream/job.yaml
exits foreign_key 2 "$INVAR" plan stream.yaml --set model.norm=pre
says foreign_key_is_said 'model.norm is not read where model.kind is attention_only: leave it out'
exits too_wide 2 "$INVAR" plan stream.yaml --set model.heads=100 --set model.max_length=64
says too_wide_is_said 'residual stream'
exit $bad
