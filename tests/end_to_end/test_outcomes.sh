#!/usr/bin/env bash
# Divergence is a result: a sweep that ends in NaN everywhere exits with 0 and makes a map of DIVERGED. Claims judge.
. tests/end_to_end/lib.sh

job wild 2 2 'axes: {train.lr: [1e6, 1e5]}'
sed -i 's/, lr: 1e-3//' wild.yaml
exits all_diverge 0 many 2 run wild.yaml -o wild --quiet
check map_of_diverged /usr/bin/python3 -B - wild <<'PY'
import sys, numpy, xarray
runs = xarray.open_dataset(sys.argv[1] + "/runs.nc")
flags = runs.outcome.attrs["flag_meanings"].split()
values = numpy.atleast_1d(runs.outcome.attrs["flag_values"])
diverged = values[flags.index("DIVERGED")]
assert runs.sizes["run"] == 4 and (runs.outcome == diverged).all(), runs.outcome.values
phase = xarray.open_dataset(sys.argv[1] + "/phase_map.nc")
assert (phase.outcome == diverged).all() and phase.outcome.size == 2, phase.outcome
PY
exits status_of_diverged 0 "$INVAR" status wild --json
says diverged_are_done '"done": 4, "diverged": 4, "failed": 0'

job claim 2 2 'claims: [share(outcome == DONE) == 1]'
exits claim_holds 0 "$INVAR" run claim.yaml -o claim --quiet
says claim_is_shown 'share(outcome == DONE) == 1'
sed 's/== 1\]/== 0.5]/' claim.yaml >claim2.yaml
exits claim_fails 1 "$INVAR" run claim2.yaml -o claim --quiet
says claim_failure_is_said '1 claim does not hold'
says report_is_there_anyway 'report: claim/report.html'
exit $bad
