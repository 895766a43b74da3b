#!/usr/bin/env bash
# Initialisation phase diagrams: the four planes point by point against PyTorch; refined maps against uniform ones;
# emergence against the gradient flow; the gradient ratio of Theorem 2.
. tests/end_to_end/lib.sh

axes() {                        # axes Y X POINTS: both from 0 to 1
    echo "axes={init.coordinates.$1: {from: 0, to: 1, points: $3}, init.coordinates.$2: {from: 0, to: 1, points: $3}}"
}
reference() { /usr/bin/python3 -B "$TOP/tests/reference/phases_torch.py" --compare "$1"; }

for plane in "alpha alpha_2 alpha_1" "beta beta_23 beta_12" "gamma gamma_3 gamma_2" "mixed beta_12 alpha_2"; do
    read -r name y x <<<"$plane"
    check "plane_$name" many 2 run "$TOP/jobs/init-phases-$name.yaml" -o "$name" --quiet --set refine.levels=0 --set "$(axes "$y" "$x" 11)" \
        --set claims=[]
    check "plane_${name}_is_the_one_of_pytorch" reference "$name/runs.nc"
    check "figure_of_$name" test -s "$name/figures/map_winner.svg"
done

# The program of all patterns and the passes over every sequence that can occur go the same way.
ways() {                        # ways EXPECTATION
    printf '%s\n' 'name: ways' "task: {kind: blocklist, blocks: 2, rare_tokens: 5, expectation: $1}" \
        'model: {kind: manifold, layers: 3, heads: 1, embedding: centred, self_attention: false, precision: float64}' \
        'init: {scheme: coordinates, others: 0.1}' 'train: {optimizer: sgd, lr: 0.5, steps: 300, eval_every: 100}' \
        'probe: {manifold: {coordinates: true, winner: true, gradient: true}}' >"ways-$1.yaml"
    "$INVAR" run "ways-$1.yaml" -o "ways-$1" --quiet
}
check by_patterns ways patterns
check by_all_sequences ways complete
check patterns_are_all_sequences /usr/bin/python3 -B - <<'PY'
import netCDF4, numpy
a, b = (netCDF4.Dataset(f"ways-{e}/runs.nc") for e in ("patterns", "complete"))
for name in ("coordinate", "gradient", "rise", "loss_train", "rise_in_context"):
    difference = numpy.abs(numpy.ma.filled(a[name][:] - b[name][:], numpy.nan)).max()
    print(name, difference)         # measured: 4e-15
    assert difference < 1e-12, name
PY

# ---- refined maps ----

refined() {                     # refined RANKS DIR OPTION...: 33 x 33 from 9 x 9
    many "$1" train "$TOP/jobs/init-phases-gamma.yaml" -o "$2" --quiet --set refine.levels=2 --set "$(axes gamma_3 gamma_2 33)" \
        --set store.tile_runs=20 --set claims=[] "${@:3}"
}
check uniform many 2 run "$TOP/jobs/init-phases-gamma.yaml" -o uniform --quiet --set refine.levels=0 --set "$(axes gamma_3 gamma_2 33)" \
    --set claims=[]
for n in 1 2 3 7; do
    check "refined_on_$n" refined $n refined-$n
    [ $n = 1 ] || same "same_bits_on_$n" refined-1 refined-$n
done
exits refined_again 0 refined 2 refined-1
exits status 0 "$INVAR" status refined-1 --json
check status_counts_what_is_wanted /usr/bin/python3 -c "
import json
s = json.load(open('out.log'))
assert s['missing'] == 0 and s['done'] == s['total'] < 0.75 * 33 * 33, s"
check gather "$INVAR" gather refined-1
check refined_is_uniform /usr/bin/python3 -B - <<'PY'
import netCDF4, numpy
refined, uniform = (netCDF4.Dataset(f"{d}/phase_map.nc") for d in ("refined-1", "uniform"))
trained = len(netCDF4.Dataset("refined-1/runs.nc").dimensions["run"])
assert set(numpy.unique(refined["level"][:])) == {0, 1, 2}
assert (refined["winner"][:] == uniform["winner"][:]).all()
assert (refined["runs"][:] == 1).sum() == trained < 0.75 * 33 * 33, trained
print(trained, "of", 33 * 33)
PY
exits parts_are_refused 2 "$INVAR" train "$TOP/jobs/init-phases-gamma.yaml" -o parts --part 1/2 --set refine.levels=2 \
    --set "$(axes gamma_3 gamma_2 33)" --set claims=[]
says parts_say_why "cannot be trained in parts"

# A kill in the middle of a level: what is done stays, and the map is the same in the end.
"$INVAR" train "$TOP/jobs/init-phases-gamma.yaml" -o killed --quiet --set refine.levels=2 --set "$(axes gamma_3 gamma_2 33)" \
    --set store.tile_runs=20 --set claims=[] >killed.log 2>&1 &
pid=$!
wait_until 30 grep -q "level 1" killed/log.txt
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
check resumed refined 2 killed
same a_killed_map_is_the_same refined-1 killed

# A rank is lost in the first level: the level is finished without it, and the launch says that the map is not.
larger() {                      # larger OPTION...: 161 x 161 from 41 x 41
    "$INVAR" train "$TOP/jobs/init-phases-gamma.yaml" --set refine.levels=2 --set "$(axes gamma_3 gamma_2 161)" \
        --set store.tile_runs=50 --set claims=[] "$@"
}
check larger larger -o larger --quiet
mpirun --enable-recovery -n 2 "$INVAR" train "$TOP/jobs/init-phases-gamma.yaml" --set refine.levels=2 \
    --set "$(axes gamma_3 gamma_2 161)" --set store.tile_runs=50 --set claims=[] -o lost --quiet >lost.log 2>&1 &
pid=$!
wait_until 30 grep -q "level 0 of" lost/log.txt
read -ra ranks <<<"$(cat /proc/$pid/task/$pid/children)"
kill -9 "${ranks[1]}" 2>/dev/null
wait $pid 2>/dev/null
check lost_rank_leaves_75 grep -q "ends with exit code 75" lost/log.txt
check lost_rank_says_why grep -q "ranks were lost before the refined map was complete" lost/log.txt
check goes_on_after_the_loss larger -o lost --quiet
same a_lost_rank_changes_no_bit larger lost

# ---- emergence ----

check emergence many 2 run "$TOP/jobs/emergence.yaml" -o emergence --quiet --set axes.task.blocks=[8,16,32,64] --set train.steps=160000
check times_are_those_of_the_flow /usr/bin/python3 -B - <<'PY'
import netCDF4, numpy
from scipy.integrate import solve_ivp
# N pairs from zero, arXiv 2511.01033
def flow(t, x, n):
    alpha, beta, gamma = x
    a = numpy.exp(alpha) / (numpy.exp(alpha) + 2 * n - 2)
    A = numpy.exp(beta * a) / (numpy.exp(beta * a) + 2 * n - 1)
    g = gamma - gamma ** 2 * (A - (1 - A) / (2 * n - 1))
    return [g * beta * A * (1 - A) * a * (1 - a), g * a * A * (1 - A), A - gamma * (A ** 2 + (1 - A) ** 2 / (2 * n - 1))]
runs = netCDF4.Dataset("emergence/runs.nc")
worst = 0
for n, measured in zip(runs["task_blocks"][:], runs["coordinate_step"][:]):
    events = [lambda t, x, n, i=i: x[i] - 0.5 for i in range(3)]
    s = solve_ivp(flow, [0, 10 * n * n + 100], [0, 0, 0], method="LSODA", rtol=1e-10, atol=1e-12, events=events, args=(n,))
    times = numpy.array([e[0] for e in s.t_events])
    worst = max(worst, abs(measured * 0.1 / times - 1).max())
    print(n, measured * 0.1, times)
print("largest relative difference", worst)
assert worst < 0.01, worst
PY

# ---- Theorem 2, at all 121 points ----
check theorem_2 many 2 run "$TOP/jobs/icl-iwl-gradient.yaml" -o ratio --quiet
exit $bad
