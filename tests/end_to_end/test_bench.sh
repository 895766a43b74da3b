#!/usr/bin/env bash
# `invar bench` and `invar plan -v`: what they print is complete and adds up. No time is judged.
. tests/end_to_end/lib.sh

job use 1 1 'axes: {model.layers: [1, 2]}'
"$INVAR" bench --time 0.05 --json >lines.json 2>err.log || not_ok bench_runs err.log
check lines_are_complete /usr/bin/python3 - lines.json <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
keys = {"model", "step_ms", "flops_dense", "flops_planned", "gflops", "peak_share", "rss_mb", "isa"}
models = {line["model"] for line in lines}
assert models == {"M1", "M2", "M3", "M4"}, models
for line in lines:
    assert keys <= line.keys(), keys - line.keys()
    assert line["step_ms"] > 0 and line["rss_mb"] > 1 and 0 < line["peak_share"], line
    assert abs(line["gflops"] - line["flops_planned"] / line["step_ms"] / 1e6) < 1e-3 * line["gflops"], line
    assert line["flops_planned"] <= line["flops_dense"]
    if line["plan"] == "dense":
        assert line["flops_planned"] == line["flops_dense"], line
for model in models:
    assert [line["plan"] for line in lines if line["model"] == model] == ["structured", "dense"], model
PY
exits bench_job 0 "$INVAR" bench use.yaml --time 0.02 --set model.dropout=0.2
says job_is_named 'use '
exits bench_set 0 "$INVAR" bench M3 --time 0.02 --json
exits bench_peak 0 "$INVAR" bench peak --json
says peak_has_memory '"memory"'
exits bench_gemm 0 "$INVAR" bench gemm --json
says gemm_has_openblas 'gflops_openblas'
exits bench_pinned_isa 0 env INVAR_ISA=scalar "$INVAR" bench M3 --time 0.02 --json
says isa_is_named '"isa": "scalar"'
exits bench_bad_isa 3 env INVAR_ISA=sse "$INVAR" bench M3 --time 0.02
exits bench_nothing_such 2 "$INVAR" bench M9
says bench_says_what_there_is 'M9'
exits dump_of_what 2 "$INVAR" bench peak --dump x.nc
exits dump_nowhere 3 "$INVAR" bench M3 --dump nowhere/x.nc
exits dump 0 "$INVAR" bench M3 --dump steps.nc
check dump_has_losses /usr/bin/python3 - <<'PY'
import netCDF4
f = netCDF4.Dataset("steps.nc")
assert f["token"].shape == (4, 64, 64) and f["loss"].shape == (20,)
assert abs(float(f["loss"][0]) - 1.386) < 0.1, f["loss"][0]          # log 4, before anything is learned
PY

exits plan_verbose 0 "$INVAR" plan use.yaml -v
says plan_counts_dense 'dense'
check plan_per_size test "$(grep -c '^A training step' out.log)" -eq 2
exits plan_dense 0 "$INVAR" plan use.yaml -v --set train.plan=dense
says dense_is_taken '-> dense'
exits plan_unknown 2 "$INVAR" plan use.yaml --set train.plan=fast
exits cache_too_small 2 "$INVAR" plan use.yaml --set train.cache_kib=1
# The order of computation is part of a run: both train to the same numbers but other bits, under other ids.
"$INVAR" train use.yaml -o a -q --set train.positions=-1 && "$INVAR" train use.yaml -o b -q --set train.positions=-1 --set train.plan=dense
check orders_agree /usr/bin/python3 - <<'PY'
import glob, netCDF4, numpy as np
def losses(folder):
    return sorted(float(netCDF4.Dataset(name)["loss_test"][:].ravel()[-1]) for name in glob.glob(folder + "/tiles/*.nc"))
a, b = losses("a"), losses("b")
assert len(a) == len(b) == 2 and np.allclose(a, b, rtol=1e-4), (a, b)
PY
exit $bad
