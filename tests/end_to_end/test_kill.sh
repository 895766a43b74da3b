#!/usr/bin/env bash
# kill -9 of mpirun and of single ranks at random moments, again and again; what comes out has the bits of an unbroken run.
. tests/end_to_end/lib.sh

seed=${SEED:-$RANDOM}
echo "SEED=$seed"
RANDOM=$seed
job kill 4 $((120 / slower))
sed -i 's/checkpoint_every: 3600/checkpoint_every: 0.05/' kill.yaml
"$INVAR" train kill.yaml -o whole --quiet || not_ok unbroken_run

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

# killed NAME RANK: kills mpirun (RANK -1) or one of its ranks after up to 1.2 s
killed() {
    local pid victim ranks
    mpirun -n 2 "$INVAR" train kill.yaml -o out --quiet >"$1.log" 2>&1 &
    pid=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    read -ra ranks <<<"$(children $pid)"
    victim=$pid
    [ "$2" -ge 0 ] && victim=${ranks[$2]:-$pid}
    kill -9 "$victim" 2>/dev/null
    wait $pid 2>/dev/null
    # Ranks that lost their mpirun end by themselves; what is left of ours is ended, so that the folder is free.
    for victim in "${ranks[@]}"; do
        wait_until 3 test ! -d "/proc/$victim" || kill -9 "$victim" 2>/dev/null
    done
}

for round in 1 2; do
    killed "mpirun$round" -1
    killed "first$round" 0
    killed "other$round" 1
done
exits goes_on_after_kills 0 many 3 train kill.yaml -o out --quiet
same same_bits_after_kills whole out
check no_checkpoint_is_left sh -c '! ls out/checkpoints/*'
check no_temporary_is_left sh -c '! find out -name "*.tmp*" -o -name ".*.nc" | grep .'
exit $bad
