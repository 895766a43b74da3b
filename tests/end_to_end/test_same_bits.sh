#!/usr/bin/env bash
# The same bits at 1, 2, 3 and 7 ranks, for any tiling, with more ranks than runs.
. tests/end_to_end/lib.sh

job bits 6 4
exits one_rank 0 "$INVAR" run bits.yaml -o one
for n in 2 3 7; do
    exits "ranks_$n" 0 many $n run bits.yaml -o "ranks$n" --quiet
    same "same_bits_at_$n" one "ranks$n"
    check "same_runs_at_$n" /usr/bin/python3 -B - one "ranks$n" <<'PY'
import sys, netCDF4
a, b = (netCDF4.Dataset(d + "/runs.nc") for d in sys.argv[1:])
for f in (a, b):
    f.set_auto_maskandscale(False)
assert set(a.variables) == set(b.variables)
for n in set(a.variables) - {"wall_time", "restarts"}:
    assert a[n][:].tobytes() == b[n][:].tobytes(), n
PY
done
exits tiles_of_four 0 many 2 train bits.yaml -o four --set store.tile_runs=4 --quiet
check two_tiles test "$(tiles four)" -eq 2
same same_bits_in_tiles_of_four one four
exits nothing_to_do 0 many 2 train bits.yaml -o four --set store.tile_runs=4
check nothing_was_trained_again test "$(tiles four)" -eq 2
exit $bad
