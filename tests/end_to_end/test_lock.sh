#!/usr/bin/env bash
# One launch at a time in a folder: a second one is refused and told who works there; status works meanwhile.
. tests/end_to_end/lib.sh

status_has() {                  # status_has DIR EXPRESSION over the keys of status --json
    "$INVAR" status "$1" --json | /usr/bin/python3 -c 'import json, sys
s = json.load(sys.stdin)
print(s)
keys = "total done diverged failed running missing quarantined runs_per_second seconds_left".split()
assert list(s) == keys, s
assert s["done"] + s["failed"] + s["running"] + s["missing"] + s["quarantined"] == s["total"]
assert eval(sys.argv[1], {}, s), s' "$2"
}

job long 5 100000
mpirun -n 2 "$INVAR" train long.yaml -o long >long.log 2>&1 &
pid=$!
wait_until 30 training long || not_ok long_launch_starts long.log
wait_until 10 status_has long 'running == 2'
check status_while_it_runs status_has long 'total == 5 and done == 0 and running == 2 and missing == 3'
exits second_launcher_is_refused 3 many 2 train long.yaml -o long
says second_launcher_is_told_who 'in use by process'
says second_launcher_is_told_what 'train long.yaml'
exits gather_is_refused_meanwhile 3 "$INVAR" gather long
kill -USR1 $pid
wait $pid
check long_launch_ends test $? -eq 75
check status_after_it_stopped status_has long 'total == 5 and done == 0 and running == 0 and missing == 5'

# Eight at once: one works, the others say why not, and the result is that of one alone.
job many 4 $((60 / slower))
"$INVAR" train many.yaml -o alone --quiet || not_ok alone
pids=()
for i in 1 2 3 4 5 6 7 8; do
    "$INVAR" train many.yaml -o eight >"eight$i.log" 2>&1 &
    pids+=($!)
done
worked=0 refused=0
for i in 0 1 2 3 4 5 6 7; do
    wait "${pids[$i]}"
    case $? in
    0) worked=$((worked + 1)) ;;
    3) refused=$((refused + 1)) ; grep -q 'in use by process' "eight$((i + 1)).log" || not_ok refused_says_why "eight$((i + 1)).log" ;;
    esac
done
check eight_launchers_none_breaks test $((worked + refused)) -eq 8
check eight_launchers_one_works test "$(grep -l '^invar: 0 of 4 runs' eight*.log | wc -l)" -eq 1
same eight_launchers_right_result alone eight

# A launch that is stopped (as on a node that is cut off) loses the folder to one that has watched its lease stand still, and
# writes nothing more when it wakes.
job taken 2 $((400 / slower))
sed -i 's/checkpoint_every: 3600/checkpoint_every: 0.05/' taken.yaml
"$INVAR" train taken.yaml -o taken >old.log 2>&1 &
old=$!
wait_until 30 sh -c 'ls taken/checkpoints/*.ck'
kill -STOP $old
exits taken_over_when_it_stands_still 0 "$INVAR" train taken.yaml -o taken --heartbeat 2
says taken_over_says_that_it_watches 'watching up to 2 s'
(cd taken && find . -type f ! -name log.txt -exec sha256sum {} + | sort >../before.sums)
kill -CONT $old
wait $old
check old_launch_exits_3 test $? -eq 3
check old_launch_says_why grep -q 'has taken the folder over' old.log
(cd taken && find . -type f ! -name log.txt -exec sha256sum {} + | sort >../after.sums)
check old_launch_wrote_nothing_more cmp before.sums after.sums
"$INVAR" train taken.yaml -o unbroken --quiet
same taken_over_same_bits unbroken taken --resumed

check status_when_all_is_done status_has eight 'total == done == 4 and missing == 0 and seconds_left == 0 and runs_per_second > 0'
exit $bad
