#!/usr/bin/env bash
# Every file that runs_write and phase_map_write make, and the tiles they are made of, pass the independent CF check.
set -u
python=/usr/bin/python3
"$BUILD/tests/analysis/test_runs" >"$TMPDIR/made.txt" 2>&1 || { cat "$TMPDIR/made.txt"; echo "not ok cf_files_are_made"; exit 1; }
files=("$TMPDIR"/*/runs.nc "$TMPDIR"/*/phase_map.nc)
[ ${#files[@]} -ge 8 ] || { echo "not ok cf_files_are_made: ${files[*]}"; exit 1; }
failed=0
"$python" tests/cf_check.py "${files[@]}" || failed=1
# a tile holds a run's own bits, NaN too
"$python" tests/cf_check.py --nan "$TMPDIR"/plain/tiles/*.nc || failed=1
exit $failed
