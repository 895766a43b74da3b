#!/usr/bin/env bash
# A tile that was in training when its rank died, three times and without a checkpoint between, is left out and said.
. tests/end_to_end/lib.sh

job bad 3 $((100 / slower + 4))
holder() { head -c 16 "$1/lock" 2>/dev/null; }
# in_training DIR OLD: another launch than OLD holds the lock, and trains a run.
in_training() { [ "$(holder "$1")" != "$2" ] && grep -q '^run [0-9a-f]' "$1"/training/*."$(holder "$1")".*; }

dies() {                        # dies DIR SIGNAL: a launch in DIR that dies of the signal while it trains
    local before pid
    before=$(holder "$1")
    "$INVAR" train bad.yaml -o "$1" --quiet >dies.log 2>&1 &
    pid=$!
    wait_until 30 in_training "$1" "$before" || not_ok "${2}_while_training" dies.log
    kill -"$2" $pid
    wait $pid 2>/dev/null
}
dies out KILL
dies out SEGV
check two_strikes test "$(ls out/strikes | wc -l)" -eq 1
check the_mark_has_the_signal sh -c 'grep -q "^signal 11" out/training/*'
dies out KILL
exits third_strike_leaves_it_out 1 "$INVAR" train bad.yaml -o out
says quarantine_is_said '1 tile lost its rank again and again'
says quarantine_is_the_exit_code 'quarantined tiles remain (1), 1 run is missing'
check the_others_are_trained test "$(tiles out)" -eq 2
check strikes_say_who_and_when sh -c 'grep -q "^rank 0, process " out/strikes/*.1 && grep -q "^signal 11" out/strikes/*.2 &&
    grep -q "the launch ended without a word" out/strikes/*.3'
exits report_of_a_quarantined_job 0 "$INVAR" gather out
exits report_lists_it 0 "$INVAR" report out
says report_says_what_is_missing '1 of 3 runs are missing'
check report_names_the_tile sh -c 'grep -q "$(basename "$(ls out/strikes/*.1)" .1)" out/report.html'
exits quarantine_lasts 1 "$INVAR" train bad.yaml -o out --quiet
exits retry_quarantined 0 "$INVAR" train bad.yaml -o out --retry-quarantined
says retry_trains_it '3 DONE, 0 missing'
check no_strikes_are_left test ! -e out/strikes

# A checkpoint takes strikes back: a launch that is killed often, and gets on, is not blamed.
sed 's/checkpoint_every: 3600/checkpoint_every: 0/' bad.yaml >innocent.yaml
for i in 1 2 3 4; do
    before=$(holder often)
    "$INVAR" train innocent.yaml -o often --quiet >often.log 2>&1 &
    pid=$!
    wait_until 30 in_training often "$before"
    touch mark
    wait_until 30 sh -c 'find often/checkpoints -name "*.ck" -newer mark | grep .' || not_ok gets_on often.log
    kill -9 $pid
    wait $pid 2>/dev/null
done
exits often_killed_is_not_quarantined 0 "$INVAR" train innocent.yaml -o often --quiet
"$INVAR" train bad.yaml -o whole --quiet
same often_killed_same_bits whole often

exit $bad
