#!/usr/bin/env bash
# Exit codes and what is said when the command line, the job file or the folder is not what was meant.
. tests/end_to_end/lib.sh

job use 2 2
exits no_verb 2 "$INVAR"
exits unknown_verb 2 "$INVAR" trian use.yaml
says unknown_verb_suggests 'did you mean "train"'
exits unknown_option 2 "$INVAR" run use.yaml --quite
says unknown_option_suggests 'did you mean "--quiet"'
exits option_of_another_verb 2 "$INVAR" run use.yaml --json
exits bad_time 2 "$INVAR" train use.yaml --time soon
exits missing_job_file 2 "$INVAR" run nowhere.yaml
says missing_job_file_is_named 'nowhere.yaml: there is no such job file'
exits missing_folder 2 "$INVAR" status nowhere
exits job_for_a_folder 2 "$INVAR" status use.yaml
mkdir empty
exits folder_for_a_job 2 "$INVAR" run empty
exits empty_folder 3 "$INVAR" status empty
exits bad_key_in_set 2 "$INVAR" train use.yaml --set train.weight_deccay=1
says bad_key_suggests 'weight_decay'
sed 's/epochs/epoks/' use.yaml >typo.yaml
printf 'name: c\nclaims: [core_dim == 3, canonical_corelation >= 0.9]\n' >claim.yaml
exits typo_in_a_claim 2 "$INVAR" train claim.yaml
says claim_typo_says_where 'claim.yaml:2:25: claim "canonical_corelation >= 0.9": no variable "canonical_corelation"'
says claim_typo_says_what 'did you mean "canonical_correlation"?'
check claim_typo_starts_nothing test ! -e out
exits typo_in_the_job 2 "$INVAR" plan typo.yaml
says typo_has_line_and_column 'typo.yaml:4:'
exits one_voice_under_mpirun 2 many 3 train typo.yaml
check one_voice_only test "$(grep -c 'epoks' out.log)" -eq 1
exits usage_under_mpirun 2 many 3 trian
check usage_once test "$(grep -c 'did you mean' out.log)" -eq 1
exits grid_needs_ranks 2 "$INVAR" run use.yaml --set 'gather.grid=[2, 1]'
says grid_says_how 'mpirun -n 2'
check grid_is_refused_before_training test ! -e out/use/tiles

exits plan 0 "$INVAR" plan use.yaml
says plan_counts_runs '2 runs'
check plan_makes_nothing test ! -e out
exits plan_under_mpirun 0 many 3 plan use.yaml
check plan_once test "$(grep -c '2 runs' out.log)" -eq 1
exits plan_that_cannot_fit 3 "$INVAR" plan use.yaml --set model.d_model=8192 --set 'model.d_mlp=65536' --set model.layers=64
exits format 0 "$INVAR" format
says format_lists_keys 'weight_decay'
exits version 0 "$INVAR" version
says version_names_libraries 'netCDF'
exits help 0 "$INVAR" help
says help_names_exit_codes '75'
# Man page and completion know every verb and option that help knows.
documented() {
    local word
    for word in $("$INVAR" help | grep -v mpirun | grep -oE '^  [a-z]+ |--[a-z-]+'); do
        grep -q -- "$word" "$TOP/doc/invar.bash" || { echo "completion lacks $word"; return 1; }
        sed 's/\\-/-/g' "$TOP/doc/invar.1" | grep -q -- "$word" || { echo "man page lacks $word"; return 1; }
    done
}
check man_page_and_completion documented
completes() {
    (. "$TOP/doc/invar.bash"; COMP_WORDS=("$INVAR" "${@:2}") COMP_CWORD=$(($# - 1)); _invar; printf '%s\n' "${COMPREPLY[@]}") |
        grep -qx -- "$1"
}
check completes_a_verb completes status sta
check completes_a_key completes train.weight_decay= run use.yaml --set train.w
check completes_a_job completes use.yaml run us
exits srun_without_pmi 3 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$INVAR" train use.yaml
says srun_without_pmi_says_how 'srun --mpi=pmix'
exits batch_script_of_a_large_allocation 0 env SLURM_NTASKS=4 SLURM_PROCID=0 "$INVAR" train use.yaml --quiet
exits default_folder 0 "$INVAR" status out/use
says default_folder_is_named 'out/use: 2 of 2 runs done'

# gather of half a store says what is missing and goes on.
exits half 0 "$INVAR" train use.yaml -o half --quiet
exits gather_a_part 0 "$INVAR" gather half --set seeds=4
says gather_says_what_is_missing '2 of 4 runs are missing'
check gather_wrote_runs test -s half/runs.nc
exits missing_runs_are_listed 0 "$INVAR" status half --missing
check two_are_listed test "$(grep -c ' missing  seed ' out.log)" -eq 2
exits report 0 "$INVAR" report half
says report_says_where 'report: half/report.html'
exit $bad
