#!/usr/bin/env bash
# Faults that the campaign found, one by one; each failed before it was mended.
. tests/end_to_end/lib.sh

# with_shim CALL COMMAND...: the k-th file call of a rank goes wrong (shim.c); the command is ended by mpirun's `env`.
shim=$BUILD/tests/fault/shim.so
[ -z "${ASAN_OPTIONS:-}" ] || export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
broken() {                      # broken DIR CALL RANKS OPTION...
    local dir=$1 call=$2 n=$3
    shift 3
    # shellcheck disable=SC2086
    mpirun ${recovery:-} -n "$n" env SHIM_FOLDER="$TMPDIR/$dir" SHIM_CALL="$call" LD_PRELOAD="$shim" \
        "$INVAR" train found.yaml -o "$TMPDIR/$dir" --quiet "$@" >"$dir.log" 2>&1
}
left() { find "$1" -path '*/checkpoints/*' -o -path '*/strikes/*' -o -path '*/training/*' -o -name '.tmp*' | grep .; }
nothing_is_left() { ! left "$1"; }

job found 4 $((80 / slower + 1))
"$INVAR" train found.yaml -o whole --quiet || not_ok unbroken_run

# A checkpoint that could not be removed when its tile was finished stayed for ever.
sed 's/checkpoint_every: 3600/checkpoint_every: 0.02/' found.yaml >often.yaml
"$INVAR" train often.yaml -o kept --quiet --time 0.5
for ck in kept/checkpoints/*.ck; do [ -e "$ck" ] && cp "$ck" saved.ck && name=$ck; done
exits kept_goes_on 0 "$INVAR" train often.yaml -o kept --quiet
[ -z "${name:-}" ] || cp saved.ck "$name"
exits kept_is_complete 0 "$INVAR" train often.yaml -o kept --quiet
check orphaned_checkpoint_goes nothing_is_left kept

# Checkpoints of tiles that an earlier launch had cut differently stayed, too.
"$INVAR" train often.yaml -o cut --quiet --time 0.5 --set store.tile_runs=3
exits cut_goes_on 0 "$INVAR" train often.yaml -o cut --quiet --set store.tile_runs=1
check checkpoint_of_another_cut_goes nothing_is_left cut
same cut_same_bits whole cut

# A rank that died just after it had published its tile left a strike against the tile.
broken struck "-1 unlink 1 1 kill" 2
exits struck_goes_on 0 "$INVAR" train found.yaml -o struck --quiet
check strike_of_a_finished_tile_goes nothing_is_left struck
same struck_same_bits whole struck
recovery=--enable-recovery broken recovered "1 unlink 1 1 kill" 2
check strike_goes_in_the_same_launch nothing_is_left recovered
same recovered_same_bits whole recovered

# Where the folder's listing lags behind, ranks but the first did not find what the launch had just published.
many 2 train found.yaml -o listing --quiet
mpirun -n 2 env SHIM_FOLDER="$TMPDIR/listing" SHIM_LATE=600 LD_PRELOAD="$shim" "$INVAR" gather listing >listing.log 2>&1
check gather_finds_what_is_not_listed test $? -eq 0
check gather_has_every_run /usr/bin/python3 -B -c 'import netCDF4
assert netCDF4.Dataset("listing/runs.nc").dimensions["run"].size == 4, "runs"'

# Where checkpoints could not be written the log filled with the same line.
env SHIM_FOLDER="$TMPDIR/flood/checkpoints" SHIM_CALL="-1 open 1 1000000 EDQUOT" LD_PRELOAD="$shim" \
    "$INVAR" train often.yaml -o "$TMPDIR/flood" >flood.log 2>&1
check without_checkpoints_the_training_goes_on test $? -eq 0
check without_checkpoints_is_said_once_a_tile test "$(grep -c 'checkpoint could not be written' flood/log.txt)" -eq 4

# Under --enable-recovery a rank that died in a call of all ranks, before the training or after it, left the others waiting.
for k in 6 10 12; do
    rm -rf together
    recovery=--enable-recovery
    ( broken together "1 bcast $k 1 kill" 2 ) &
    wait_until 40 test ! -d /proc/$! || { not_ok "death_in_call_${k}_ends_all" together.log; kill -9 $!; }
    exits "after_death_in_call_$k" 0 many 2 train found.yaml -o together --quiet
done
recovery=
check after_death_nothing_is_left nothing_is_left together
same after_death_same_bits whole together

# A rank that was waiting for work when it was stopped for longer than its heartbeat allows was never answered again.
job idle 1 $((1600 / slower))
mpirun --enable-recovery -n 3 "$INVAR" train idle.yaml -o idle --heartbeat 1 >idle.log 2>&1 &
pid=$!
wait_until 30 training idle || not_ok idle_starts idle.log
read -ra ranks <<<"$(cat "/proc/$pid/task/$pid/children")"
kill -STOP "${ranks[1]}" "${ranks[2]}"
wait_until 20 sh -c '[ $(grep -c "gives no sign of life" idle.log) -eq 2 ]' || not_ok idle_ranks_are_missed idle.log
kill -CONT "${ranks[1]}" "${ranks[2]}"
wait_until 60 test ! -d /proc/$pid || { not_ok idle_launch_ends idle.log; kill -9 $pid "${ranks[@]}"; }
wait $pid
exits idle_all_is_done 0 "$INVAR" train idle.yaml -o idle
says idle_was_done_in_the_launch '1 DONE, 0 missing'

# Under --enable-recovery a rank that died while MPI started left the others waiting for ever.
cat >dies.sh <<'SH'
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || { sleep 0.08; kill -9 $$; } &
exec "$@"
SH
timeout 40 mpirun --enable-recovery -n 2 bash dies.sh "$INVAR" train found.yaml -o start --quiet >start.log 2>&1
check death_at_the_start_ends_all test $? -ne 124
exits after_death_at_the_start 0 many 2 train found.yaml -o start --quiet
same after_death_at_the_start_same_bits whole start
exit $bad
