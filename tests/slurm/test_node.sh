#!/usr/bin/env bash
# Ranks that are killed; and a node that is cut off: SLURM starts the training anew on another one, and the old instance is
# still there. The new one waits until the old one's lease has lapsed and goes on from its checkpoints; the old one wakes up
# and touches nothing.
. tests/end_to_end/lib.sh
. "$TOP/tests/slurm/cluster.sh"
cluster_start
job short 3 250
"$INVAR" train short.yaml -o short --quiet || not_ok unbroken_run
site 'train_options=(--wait 1:00 --heartbeat 2)'

on_node() {                     # on_node NAME: its jobs' processes
    for pid in $(cluster_processes); do
        grep -qszx "SLURMD_NODENAME=$1" "/proc/$pid/environ" && echo "$pid"
    done
}
ranks() {                       # ranks NODE DIR: those that train there for this folder
    for pid in $(on_node "$1"); do
        [ "$(readlink "/proc/$pid/exe")" = "$INVAR" ] && grep -qszx "$PWD/$2" "/proc/$pid/cmdline" && echo "$pid"
    done
}

# Rank 1 is killed: the other ends the work in the same launch. Rank 0 is killed: the job goes back into the queue.
submit short.yaml -o killed -N 2 -n 1 -t 10 >submit.log 2>&1 || not_ok submits_killed submit.log
site launcher=srun
submit short.yaml -o again -N 2 -n 1 -t 10 >submit.log 2>&1 || not_ok submits_again submit.log
kill_rank() { wait_until 30 training "$1" && sleep 0.3 && kill -KILL $(ranks "$2" "$1"); }
check kills_rank_1 kill_rank killed n2
check kills_rank_0 kill_rank again n1
for dir in killed again; do
    ends "$(gather_id $dir)" || not_ok ${dir}_ends $dir/slurm/*.log
    same ${dir}_has_the_same_bits short $dir
    check ${dir}_has_its_report test -s $dir/report.html
done
check killed_ends_well grep -q 'ended with exit code 0' killed/log.txt
check killed_ends_in_the_same_launch sh -c '! grep restart killed/log.txt'
check again_says_why grep -q "restart 1 (srun died, exit code" again/log.txt

# A node is cut off.
new_one_trains() {
    grep -q 'restart 1 (the last launch could not' failed/log.txt && [ "$(grep -c ' of 3 runs' failed/log.txt)" -ge 2 ]
}
site 'train_options=(--wait 1:00 --heartbeat 2)'
submit short.yaml -o failed -n 1 -t 10 --set store.checkpoint_every=0.2 >submit.log 2>&1 || not_ok submits submit.log
wait_until 30 sh -c 'ls failed/checkpoints/*.ck'
node=$(squeue -h -j "$(train_id failed)" -o %N)
old="$(on_node "$node")"
check old_one_is_there test -n "$old"
kill -STOP $old "$(cat "$cluster/slurmd-$node.pid")"
scontrol update nodename="$node" state=down reason=test
check is_started_anew wait_until 40 new_one_trains
check is_on_the_other_node test "$(squeue -h -j "$(train_id failed)" -o %N)" != "$node"
# First the training alone; its launcher has word from SLURM that it is to end.
kill -CONT $(ranks "$node" failed)
check old_one_sees_that_it_is_late wait_until 20 grep -q 'the folder was taken over by' failed/log.txt
kill -CONT $old
check old_one_ends wait_until 20 grep -qE 'ended with exit code 3|SLURM has put the job back' failed/log.txt
kill -CONT "$(cat "$cluster/slurmd-$node.pid")"
ends "$(gather_id failed)" || not_ok ends failed/slurm/*.log
same has_the_same_bits short failed --resumed
check has_its_report test -s failed/report.html
check leaves_nothing_behind sh -c '! ls failed/checkpoints/*.ck failed/slurm/memo* failed/tiles/*.tmp* failed/lock.*'
[ $bad -eq 0 ] || cat failed/slurm/*.log
exit $bad
