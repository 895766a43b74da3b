#!/usr/bin/env bash
# slurm/submit: a job file from submission to report, whole and as a job array, by mpirun and by srun; and what it refuses.
. tests/end_to_end/lib.sh
. "$TOP/tests/slurm/cluster.sh"
cluster_start
job plain 4 100 'claims: [share(outcome == DONE) == 1]'
"$INVAR" train plain.yaml -o unbroken --quiet || not_ok unbroken_run
site

# What cannot work is said before anything is submitted.
queue_is_empty() { [ -z "$(squeue -h)" ] && [ ! -e "$1" ]; }
job typo 1 1 'train.wieght_decay: 1'
"$INVAR" plan typo.yaml >plan.log 2>&1
exits bad_job 2 submit typo.yaml
check bad_job_is_said_as_plan_does diff plan.log out.log
exits too_few_ranks_for_the_grid 3 submit plain.yaml -n 2 --set 'gather.grid=[8, 8]'
says grid_is_said 'gather.grid [8, 8] needs 64 ranks'
exits unknown_option 2 submit plain.yaml -q urgent
exits two_jobs 2 submit plain.yaml typo.yaml
exits no_number 2 submit plain.yaml -N many
exits folder_of_another_job 2 submit plain.yaml -o unbroken --set train.lr=0.1
says folder_names_the_difference 'train.lr: 0.001 -> 0.1'
site launcher=srun mpi=pmi2
exits srun_without_pmix 3 submit plain.yaml
says srun_without_pmix_says_the_fix 'Set mpi=pmix or launcher=mpirun'
site launcher=srun mpi=pmix_v99
exits unknown_pmi 3 submit plain.yaml
says unknown_pmi_lists_the_known 'pmix'
check nothing_was_submitted queue_is_empty out
exits srun_by_hand_without_pmix 3 srun -n 2 --mpi=none "$INVAR" train plain.yaml
says srun_by_hand_says_the_fix 'Start with `srun --mpi=pmix`'

# By mpirun on both nodes, and while that is at work: no second one.
site
exits whole 0 submit plain.yaml -N 2 -n 1 -t 10
says says_how_to_stop "scancel $(ids out/plain)"
exits not_twice 3 submit plain.yaml
says not_twice_says_which 'an earlier submission is still at work'
# As an array by srun, at the same time.
site launcher=srun
exits array 0 submit plain.yaml --array 3%2 -n 1 -t 10 -o parts
exits too_many_parts 0 submit plain.yaml --array 9 -t 10 -o few -- --hold
says too_many_parts_are_less '4 are sent'
check array_of_few test "$(squeue -h -r -j "$(train_id few)" | wc -l)" -eq 4
scancel $(ids few)
for dir in out/plain parts; do
    ends "$(gather_id $dir)" || not_ok "${dir##*/}_ends" $dir/slurm/*.log
    same "${dir##*/}_has_the_same_bits" unbroken $dir
    check "${dir##*/}_has_its_report" test -s $dir/report.html
    check "${dir##*/}_ends_well" test "$(field "$(gather_id $dir)" ExitCode)" = 0:0
done
check both_nodes_worked grep -q '2 tasks on n\[1-2\]' out/plain/log.txt
check parts_have_their_logs grep -q '1 tasks on n' parts/log.1-of-3.txt parts/log.2-of-3.txt parts/log.3-of-3.txt
check claims_are_in_the_log grep -q '1 of 1 claim holds' out/plain/slurm/gather-*.log

# Once more: nothing to do; but a new claim or new runs are.
site
exits done_already 0 submit plain.yaml
says done_is_said 'all is done: out/plain/report.html. Nothing was submitted'
sed -i 's/^seeds: .*/seeds: 5/; s/== 1\]/== 1, share(outcome == DONE) > 2]/' plain.yaml
exits more_seeds 0 submit plain.yaml -n 1 -t 10
ends "$(gather_id out/plain)" || not_ok more_seeds_end out/plain/slurm/*.log
same more_seeds_keep_the_bits unbroken out/plain --within
check more_seeds_are_trained test "$(tiles out/plain)" -eq 5
check failed_claim_ends_with_1 test "$(field "$(gather_id out/plain)" ExitCode)" = 1:0

# By hand, without submit, from a folder with a blank in its name; and gather alone, on a folder that lacks runs.
mkdir -p 'by hand' && cp "$TOP"/slurm/* 'by hand' && cp "$INVAR_SITE" 'by hand/site.conf'
unset INVAR_SITE
train=$(sbatch --parsable -n 1 -o hand.log 'by hand/train.sbatch' "$PWD/plain.yaml" "$PWD/hand" 1 --set seeds=1)
gather=$(sbatch --parsable -n 1 -d afterany:"$train" -o gather.log 'by hand/gather.sbatch' "$PWD/hand")
ends "$gather" || not_ok by_hand_ends hand.log gather.log
check by_hand_trains grep -q 'ended with exit code 0' hand.log
check by_hand_gathers test -s hand/report.html
rm "$(find hand/tiles -name '*.nc')"
exits gather_wants_all_runs 75 env SLURM_JOB_ID=0 'by hand/gather.sbatch' hand
says gather_says_what_is_missing 'not gathered: 1 of 1 runs are missing'
exit $bad
