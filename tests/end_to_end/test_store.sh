#!/usr/bin/env bash
# What may change in an output folder and what may not; damaged files; no room on the disk.
. tests/end_to_end/lib.sh

job grow 2 4
exits first_launch 0 "$INVAR" train grow.yaml -o grow --quiet
cp -r grow two
exits changed_job_is_refused 2 "$INVAR" train grow.yaml -o grow --set train.lr=0.01
says changed_key_is_named 'train.lr'
exits plan_refuses_it_too 2 "$INVAR" plan grow.yaml -o grow --set train.lr=0.01
exits plan_looks_into_the_folder 0 "$INVAR" plan grow.yaml -o grow --set seeds=4
says plan_counts_what_is_there 'store           2 of 4 runs are in grow, 2 to train'
exits fewer_seeds_are_refused 2 "$INVAR" train grow.yaml -o grow --set seeds=1
check refused_job_changed_nothing diff -r --exclude=log.txt --exclude=lock grow two
exits added_seeds_are_trained 0 many 2 train grow.yaml -o grow --set seeds=4 --quiet
same added_seeds_leave_the_others two grow --within
exits four_at_once 0 "$INVAR" train grow.yaml -o four --set seeds=4 --quiet
same added_seeds_are_as_from_the_start four grow
sed 's/, lr: 1e-3//' grow.yaml >axis.yaml
echo 'axes: {train.lr: [1e-3]}' >>axis.yaml
exits axis_may_grow 0 "$INVAR" train axis.yaml -o axis --quiet
sed -i 's/\[1e-3\]/[1e-3, 1e-2]/' axis.yaml
exits axis_grows 0 "$INVAR" train axis.yaml -o axis --quiet
same axis_leaves_the_others two axis --within

# A tile cut anywhere is found out, set aside and trained again.
tile=$(find four/tiles -name '*.nc' | sort | head -n 1)
size=$(stat -c %s "$tile")
for keep in 0 1 100 $((size / 2)) $((size - 1)); do
    cp -r four cut
    truncate -s "$keep" "cut/${tile#four/}"
    exits "tile_cut_to_$keep" 0 "$INVAR" train grow.yaml -o cut --set seeds=4
    says "tile_cut_to_${keep}_is_said" 'damaged'
    same "tile_cut_to_${keep}_is_trained_again" four cut
    rm -rf cut
done

# A checkpoint cut short: said, and trained from the start.
job broken 1 120
timeout -s USR1 1 "$INVAR" train broken.yaml -o broken --quiet
"$INVAR" train broken.yaml -o unbroken --quiet
for checkpoint in broken/checkpoints/*.ck; do truncate -s 1000 "$checkpoint"; done
exits broken_checkpoint 0 "$INVAR" train broken.yaml -o broken
same broken_checkpoint_is_not_used unbroken broken

# No room for a tile (a limit on the size of files): the launch says so, ends with 3, keeps all else, and goes on later.
# The limit is the ranks' own; MPI over TCP makes no large files itself.
exits disk_full 3 mpirun -n 2 --mca btl tcp,self bash -c "ulimit -f 20; exec $INVAR train grow.yaml -o full --set seeds=4 \
    --set store.checkpoint_every=0"
says disk_full_says_why 'could not be finished'
says disk_full_trains_without_checkpoints 'a checkpoint could not be written; the training goes on without'
check disk_full_leaves_no_half_tile test "$(tiles full)" -eq 0
exits disk_has_room_again 0 many 2 train grow.yaml -o full --set seeds=4 --quiet
same disk_full_lost_nothing four full

# Folders that are removed while a launch works are made again; without the whole folder it stops and says so.
job gone 2 100000
launch() {
    "$INVAR" train gone.yaml -o gone >gone.log 2>&1 &
    pid=$!
    wait_until 30 sh -c 'ls gone/training/*' || not_ok gone_starts gone.log
}
launch
rm -r gone/tiles gone/checkpoints gone/training
kill -USR1 $pid
wait $pid
check removed_folders_exits_75 test $? -eq 75
check removed_folder_is_made_again sh -c 'ls gone/checkpoints/*.ck'
check removed_folder_is_said grep -q 'checkpoints: is gone; it is made again' gone.log
launch
rm -r gone
wait $pid
check without_its_folder_exits_3 test $? -eq 3
check without_its_folder_says_so grep -q 'the folder was removed' gone.log
check without_its_folder_writes_nothing test ! -e gone
exit $bad
