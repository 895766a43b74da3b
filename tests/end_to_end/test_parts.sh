#!/usr/bin/env bash
# train --part K/N: launches side by side in one folder, each with its own tiles; together the bits of one launch.
. tests/end_to_end/lib.sh

job parts 10 $((24 / slower + 1))
"$INVAR" train parts.yaml -o whole --quiet || not_ok whole_launch

exits part_trains_its_own 0 "$INVAR" train parts.yaml -o out --part 2/3
says part_says_what_others_lack '3 DONE, 0 missing here, 7 in other parts'
check part_has_three_tiles test "$(tiles out)" -eq 3
check part_has_its_own_log sh -c 'test -s out/log.2-of-3.txt && test ! -e out/log.txt'
exits part_again_is_nothing 0 "$INVAR" train parts.yaml -o out --part 2/3 --quiet
exits gather_says_what_is_missing 0 "$INVAR" gather out
says gather_names_the_number '7 of 10 runs are missing'

# While part 1 works: not the same part, not the whole, not another division, no gather; but part 3.
mpirun -n 2 "$INVAR" train parts.yaml -o out --part 1/3 --set train.epochs=100000 -o busy >busy.log 2>&1 &
pid=$!
wait_until 30 grep -q ' of .* runs' busy/log.1-of-3.txt || not_ok part_1_starts busy.log
for what in "train parts.yaml --part 1/3" "train parts.yaml" "train parts.yaml --part 1/2"; do
    exits "refused_${what// /_}" 3 "$INVAR" $what -o busy --set train.epochs=100000
    says "refused_${what// /_}_says_by_whom" 'in use by process'
done
exits gather_is_refused_beside_a_part 3 "$INVAR" gather busy
exits part_3_works_beside 75 "$INVAR" train parts.yaml -o busy --part 3/3 --set train.epochs=100000 --time 2
check status_counts_running_parts wait_until 10 sh -c "'$INVAR' status busy | grep -q ' 2 running'"
kill -USR1 $pid
wait $pid
check part_stops_with_75 test $? -eq 75
check no_lease_of_a_part_is_left sh -c '! ls busy/lock.*'

# All at once on a fresh folder.
for k in 1 2 3; do "$INVAR" train parts.yaml -o fresh --part $k/3 --quiet >"part$k.log" 2>&1 & pids[k]=$!; done
for k in 1 2 3; do wait "${pids[k]}" || not_ok "part_$k" "part$k.log"; done
same parts_together_are_the_whole whole fresh
exits nothing_is_left_to_train 0 "$INVAR" train parts.yaml -o fresh
says the_whole_sees_all '10 DONE, 0 missing'

# --wait: the second launch begins when the first has ended.
"$INVAR" train parts.yaml -o turn --quiet >first.log 2>&1 &
pid=$!
wait_until 30 test -s turn/lock
exits waits_for_its_turn 0 "$INVAR" train parts.yaml -o turn --wait 5:00
wait $pid
exits part_needs_two_numbers 2 "$INVAR" train parts.yaml --part 4/3
exits run_takes_no_part 2 "$INVAR" run parts.yaml --part 1/3
exit $bad
