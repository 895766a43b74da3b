#!/usr/bin/env bash
# SIGUSR1, SIGTERM and the time limit: exit 75, checkpoint, and the same command goes on to the bits of an unbroken run.
. tests/end_to_end/lib.sh

job stop 3 $((400 / slower))       # some seconds a run: mpirun passes SIGTERM on only after a second
"$INVAR" train stop.yaml -o whole --quiet || not_ok unbroken_run

# stopped NAME SIGNAL RANKS EXTRA...: starts, signals while training, resumes.
stopped() {
    local name=$1 signal=$2 ranks=$3 pid code
    shift 3
    if [ "$ranks" -eq 0 ]; then "$INVAR" train stop.yaml -o "$name" "$@" >"$name.log" 2>&1 &
    else mpirun -n "$ranks" "$INVAR" train stop.yaml -o "$name" "$@" >"$name.log" 2>&1 & fi
    pid=$!
    wait_until 30 training "$name" || not_ok "${name}_starts" "$name.log"
    sleep 0.4
    kill -"$signal" $pid
    wait $pid
    code=$?
    # mpirun that is itself ended by SIGTERM has an exit code of its own
    if [ "$signal" = USR1 ] || [ "$ranks" -eq 0 ]; then
        check "${name}_exits_75" test $code -eq 75
        check "${name}_says_so" grep -q 'stopped early; run the same command again to go on' "$name.log"
    fi
    check "${name}_left_a_checkpoint" sh -c "ls $name/checkpoints/*.ck"
    exits "${name}_goes_on" 0 many 2 train stop.yaml -o "$name" "$@" --quiet
    same "${name}_has_the_same_bits" whole "$name" --resumed
    check "${name}_leaves_no_checkpoint" sh -c "! ls $name/checkpoints/*.ck"
}

stopped usr1 USR1 2
stopped term TERM 2
stopped int_alone INT 0
stopped usr1_in_a_large_tile USR1 1 --set store.tile_runs=3

# Work that cannot come far before the limit is not begun; what ends before it is done.
exits time_limit 75 many 2 train stop.yaml -o limit --time 2 --set train.epochs=1000000
says time_limit_says_so 'stopped early; run the same command again to go on'
exits time_limit_is_enough 0 many 2 train stop.yaml -o enough --time 10:00 --set train.epochs=1
exits slurm_time_limit 75 env SLURM_JOB_END_TIME=$(($(date +%s) + 1)) "$INVAR" train stop.yaml -o slurm \
    --set train.epochs=1000000 --quiet
exits no_gather_when_stopped 75 many 2 run stop.yaml -o no_gather --time 0.001
check no_report_when_stopped test ! -e no_gather/report.html
exit $bad
