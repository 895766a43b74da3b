#!/usr/bin/env bash
# What SLURM does to a training, and that it goes on to the bits of an unbroken run: time limit, pre-emption, USR1, scancel;
# and a training that gets nowhere is not started for ever.
. tests/end_to_end/lib.sh
. "$TOP/tests/slurm/cluster.sh"
cluster_start
born=$SECONDS
job short 3 250
TIMEFORMAT=%U
cpu=$({ time "$INVAR" train short.yaml -o short --quiet; } 2>&1)
# Long enough to be at work when SLURM looks at time limits: 9 s of one core, however fast that is.
job long 3 "$(awk -v cpu="$cpu" 'BEGIN { printf "%d", 250 * 9 / cpu }')"
"$INVAR" train long.yaml -o long --quiet || not_ok unbroken_runs

stopped() { grep -q "slurm job $(train_id "$1"): stopped early" "$1/log.txt"; }
restarted() { grep -q "slurm job $(train_id "$1"): restart 1 ($2" "$1/log.txt"; }
checkpoints() { ls "$1"/checkpoints/*.ck; }

# finishes NAME WHOLE: training and gather end, nothing is left over, and the bits are those of the unbroken run WHOLE.
finishes() {
    ends "$(gather_id "$1")" 100 || not_ok "$1_ends" "$1"/slurm/*.log
    same "$1_has_the_same_bits" "$2" "$1" --resumed
    check "$1_has_its_report" test -s "$1/report.html"
    check "$1_leaves_nothing_behind" sh -c "! ls $1/checkpoints/*.ck $1/slurm/memo*"
}

# Interrupted by hand, with two nodes; SLURM asks for a checkpoint, and the job goes back into the queue of itself.
site
submit short.yaml -o usr1 -N 2 -n 1 -t 10 >submit.log 2>&1 || not_ok submits_usr1 submit.log
wait_until 30 training usr1 && sleep 0.5
scancel --signal=USR1 --batch "$(train_id usr1)"
check usr1_stops wait_until 10 stopped usr1
check usr1_leaves_checkpoints checkpoints usr1

# Meanwhile a job that brings nothing new is started twice, and then no more.
printf '#!/bin/sh\n[ "$1" = train ] && exit 75\nexec %s "$@"\n' "$INVAR" >nowhere
chmod +x nowhere
site invar="$PWD/nowhere" idle_launches=2
submit short.yaml -o nowhere.out -t 10 -n 1 >submit.log 2>&1 || not_ok submits_nowhere submit.log

# SLURM sees time limits every half minute after its start only: with a limit of a minute USR1 comes there.
while [ $((SECONDS - born)) -lt 24 ]; do sleep 0.1; done
site
submit long.yaml -o limit -n 1 -t 1 -- -w n1 >submit.log 2>&1 || not_ok submits_limit submit.log

# Pre-emption, on the other node.
finishes usr1 short
check usr1_says_why restarted usr1 'USR1 came, by pre-emption'
submit short.yaml -o preempted -n 1 -t 10 -- -w n2 >submit.log 2>&1 || not_ok submits_preempted submit.log
wait_until 30 training preempted && sleep 0.5
sbatch -p urgent -w n2 --exclusive -o /dev/null --wrap 'sleep 1' >urgent.log 2>&1
check preempted_stops wait_until 15 stopped preempted
check preempted_leaves_a_checkpoint checkpoints preempted

# scancel: SLURM gives the ranks KillWait for their checkpoints; the job does not come back, gather says what is missing.
site launcher=srun
submit short.yaml -o cancelled -n 1 -t 10 -- -w n1 >submit.log 2>&1 || not_ok submits_cancelled submit.log
wait_until 30 training cancelled && sleep 0.5
scancel "$(train_id cancelled)"
ends "$(gather_id cancelled)" || not_ok cancelled_ends cancelled/slurm/*.log
check cancelled_says_so grep -q 'stopped early (TERM came.*the job was cancelled' cancelled/log.txt
check cancelled_leaves_a_checkpoint checkpoints cancelled
check cancelled_is_not_gathered grep -q 'not gathered: [1-3] of 3 runs are missing' cancelled/log.txt
check cancelled_has_no_results sh -c '! ls cancelled/runs.nc cancelled/report.html'
exits cancelled_again 0 submit short.yaml -o cancelled -n 1 -t 10

finishes preempted short
check preempted_says_why restarted preempted 'USR1 came, by pre-emption'
finishes cancelled short
finishes limit long
check limit_says_why restarted limit 'USR1 came, [0-9]* s before the time limit'
ends "$(gather_id nowhere.out)" || not_ok nowhere_ends nowhere.out/slurm/*.log
check nowhere_was_started_twice test "$(grep -c 'until the time limit' nowhere.out/log.txt)" -eq 2
check nowhere_says_so grep -q '2 launches in a row have brought nothing new' nowhere.out/log.txt
exit $bad
