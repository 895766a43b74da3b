#!/usr/bin/env bash
# mpirun --enable-recovery: ranks that are killed or stopped; the others finish the job in the same launch, to the same bits.
. tests/end_to_end/lib.sh

job work 6 $((50 / slower + 1))
longer=$((120 / slower + 2))
sed -i 's/checkpoint_every: 3600/checkpoint_every: 0.05/' work.yaml
"$INVAR" train work.yaml -o whole --quiet || not_ok unbroken_run

start() {                       # start DIR VERB RANKS OPTION...: pid is mpirun's, ranks are theirs, when it trains
    local dir=$1 verb=$2 n=$3
    shift 3
    mpirun --enable-recovery -n "$n" "$INVAR" "$verb" work.yaml -o "$dir" "$@" >"$dir.log" 2>&1 &
    pid=$!
    wait_until 30 training "$dir" || not_ok "${dir}_starts" "$dir.log"
    read -ra ranks <<<"$(cat "/proc/$pid/task/$pid/children")"
    [ ${#ranks[@]} -eq "$n" ] || not_ok "${dir}_has_its_ranks" "$dir.log"
}
ends() {                        # ends DIR: mpirun ends in time
    wait_until 60 test ! -d "/proc/$pid" || { not_ok "${1}_ends" "$1.log"; kill -9 $pid "${ranks[@]}"; }
    wait $pid
}

start killed train 3
wait_until 20 sh -c 'ls killed/checkpoints/*.ck'
kill -9 "${ranks[1]}"
ends killed
check death_is_noticed grep -q 'rank 1 (process .*) died' killed.log
check death_finish_in_the_same_launch test "$(tiles killed)" -eq 6
check death_exit_code_is_in_the_log grep -q 'ends with exit code 0' killed/log.txt
check death_exit_code_is_in_progress grep -q '"exit_code": 0' killed/progress.json
same death_same_bits whole killed
check death_leaves_nothing sh -c '! ls killed/checkpoints/* killed/training killed/strikes 2>/dev/null | grep .'

start two run 4
kill -9 "${ranks[3]}"
sleep 0.3
kill -9 "${ranks[2]}"
ends two
same two_deaths_same_bits whole two
check two_deaths_rank_0_gathers_alone test -s two/report.html

# Rank 0 holds the launch together: without it the others leave, and the next launch goes on.
start first train 3
kill -9 "${ranks[0]}"
ends first
check rank_0_is_missed grep -q 'rank 0 is gone' first.log
exits after_rank_0 0 many 2 train work.yaml -o first --quiet
same after_rank_0_same_bits whole first
check after_rank_0_nothing_is_left sh -c '! ls first/checkpoints/* first/training first/strikes 2>/dev/null | grep .'

# A stopped rank: its tile goes on elsewhere; it wakes and is told so.
start stopped train 3 --heartbeat 1 --set train.epochs=$longer
kill -STOP "${ranks[2]}"
wait_until 20 grep -q 'gives no sign of life' stopped.log || not_ok stop_is_noticed stopped.log
kill -CONT "${ranks[2]}"
ends stopped
check stopped_rank_is_back grep -q 'rank 2 is back' stopped.log
exits stopped_all_is_done 0 "$INVAR" train work.yaml -o stopped --set train.epochs=$longer
says stopped_every_run_once '6 DONE, 0 missing'
"$INVAR" train work.yaml -o longer --quiet --set train.epochs=$longer
same stopped_same_bits longer stopped
exit $bad
