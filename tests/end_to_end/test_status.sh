#!/usr/bin/env bash
# status --watch on a terminal and in a pipe, and status over the parts of a job that train side by side.
. tests/end_to_end/lib.sh

# json_lines FILE EXPRESSION over s, the list of objects in FILE; their keys are those of the man page
json_lines() {
    /usr/bin/python3 -B -c 'import json, sys
s = [json.loads(line) for line in open(sys.argv[1])]
keys = "total done diverged failed running missing quarantined runs_per_second seconds_left".split()
assert s and all(list(x)[:9] == keys for x in s), s
assert all(x["done"] + x["failed"] + x["running"] + x["missing"] + x["quarantined"] == x["total"] for x in s), s
assert eval(sys.argv[2]), s' "$@"
}

job w 6 $((150 / slower))     # some seconds for each part
exits nobody_at_work 0 sh -c "$INVAR train w.yaml -o idle --time 0.001 --quiet; $INVAR status idle --watch"
check nobody_at_work_is_one_line test "$(grep -c 'of 6 runs done' out.log)" -eq 1

# Two parts side by side: one pipe of lines, one of JSON, one terminal; all end with the launch.
"$INVAR" train w.yaml -o w --part 1/2 --quiet &
parts=($!)
"$INVAR" train w.yaml -o w --part 2/2 --quiet &
parts+=($!)
wait_until 20 test -e w/progress.1-of-2.json -a -e w/progress.2-of-2.json
"$INVAR" status w --json >first.json
"$INVAR" status w --watch >watch.log &
watches=($!)
"$INVAR" status w --watch --json >watch.json &
watches+=($!)
/usr/bin/python3 -B -c 'import pty, sys
pty.spawn(sys.argv[1:])' "$INVAR" status w --watch >terminal.log </dev/null &
watches+=($!)
wait "${parts[@]}"
wait "${watches[@]}"
check watch_ends_when_all_is_done grep -q '6 of 6 runs done' <(tail -n 1 watch.log)
check watch_prints_changes_alone test -z "$(sed 's/;.*//' watch.log | uniq -d)"
check watch_in_json json_lines watch.json 's[-1]["done"] == 6 and s[-1]["missing"] == 0 and [x["done"] for x in s] == sorted(x["done"] for x in s)'
check both_parts_are_counted json_lines first.json 's[0]["total"] == 6'
check terminal_is_drawn_over grep -q $'\033\\[1A\033\\[J' terminal.log
check terminal_ends_with_all_done grep -q '6 of 6 runs done' <(tail -n 1 terminal.log)
"$INVAR" status w --json >last.json
check rate_of_both_parts json_lines last.json 's[0]["done"] == 6 and s[0]["seconds_left"] == 0 and s[0]["runs_per_second"] > 0'

# One part left to do: what is missing is not hidden by the other part's end.
"$INVAR" train w.yaml -o half --part 2/2 --quiet
"$INVAR" status half --json --missing >half.json
check missing_part json_lines half.json 's[0]["done"] == 3 and s[0]["missing"] == 3 and len(s[0]["runs"]) == 3'
check time_left_without_a_launch json_lines half.json 's[0]["seconds_left"] > 0'
exit $bad
