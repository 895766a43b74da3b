#!/usr/bin/env bash
# Twenty rounds of the fault campaign; `make check-faults N=200` plays more of them. SEED chooses others.
. tests/end_to_end/lib.sh

rounds=20 less=()
[ "$slower" -eq 1 ] || { rounds=3; less=(--slower 4); }
check "rounds_of_faults" /usr/bin/python3 -B "$TOP/tests/fault/campaign.py" --build "$BUILD" --rounds $rounds \
    --seed "${SEED:-0}" "${less[@]}"
cat check.log
exit $bad
