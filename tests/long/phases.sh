#!/usr/bin/env bash
# The initialisation phase diagrams at full size: refined maps of 161 x 161 equal the uniform ones, the four planes at 641 x 641,
# the plane with whole models beside that of the manifold, confinement, attraction.
. tests/end_to_end/lib.sh
ranks=$(nproc)

axes() { echo "axes={init.coordinates.$1: {from: 0, to: 1, points: $3}, init.coordinates.$2: {from: 0, to: 1, points: $3}}"; }

for plane in "alpha alpha_2 alpha_1" "beta beta_23 beta_12" "gamma gamma_3 gamma_2" "mixed beta_12 alpha_2"; do
    read -r name y x <<<"$plane"
    job=$TOP/jobs/init-phases-$name.yaml
    check "uniform_$name" many "$ranks" run "$job" -o "uniform-$name" --quiet --set refine.levels=0 \
        --set "$(axes "$y" "$x" 161)"
    check "refined_$name" many "$ranks" run "$job" -o "refined-$name" --quiet --set refine.levels=2 \
        --set "$(axes "$y" "$x" 161)"
    check "full_size_$name" many "$ranks" run "$job" -o "$name" --quiet
    /usr/bin/python3 -B - "$name" <<'PY' || bad=1
import sys, netCDF4, numpy
name = sys.argv[1]
uniform, refined, full = (netCDF4.Dataset(f"{d}{name}/phase_map.nc") for d in ("uniform-", "refined-", ""))
differ = int((uniform["winner"][:] != refined["winner"][:]).sum())
for d, m in (("refined-", refined), ("", full)):
    trained, points = len(netCDF4.Dataset(f"{d}{name}/runs.nc").dimensions["run"]), m["winner"].size
    words = m["winner"].flag_meanings.split()
    print(f"{name}: {trained} of {points} points trained ({trained / points:.1%});",
          ", ".join(f"{w} {float((m['winner'][:] == k).mean()):.2%}" for k, w in enumerate(words)),
          f"; the predictor fails at {float(numpy.ma.mean(m['predicted_fails'][:])):.1%} of {numpy.ma.count(m['predicted_fails'][:])}")
print(f"{'not ok' if differ else 'ok'} refined_{name}_is_uniform ({differ} points differ)")
sys.exit(differ > 0)
PY
done
check whole_models many "$ranks" run "$TOP/jobs/init-phases-full.yaml" -o whole --quiet
check whole_models_have_a_map /usr/bin/python3 -B - <<'PY'
import netCDF4, numpy
whole, own = (netCDF4.Dataset(f"{d}/phase_map.nc")["winner"][:] for d in ("whole", "gamma"))
agree = float((whole == own[::80, ::80]).mean())
print(f"whole models have the winner of the manifold at {agree:.1%} of {whole.size} points")
assert set(numpy.unique(whole)) >= {0, 1, 2} and agree > 1 / 3
PY
cat check.log
for job in confinement confinement-sampled attraction emergence icl-iwl icl-iwl-gradient burstiness init-data; do
    check "$job" many "$ranks" run "$TOP/jobs/$job.yaml" -o "$job" --quiet
done
exit $bad
