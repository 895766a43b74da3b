#!/usr/bin/env bash
# Every exit code of every verb, where it can occur: 0, 1, 2, 3, 75. The codes are those that `invar help VERB` lists.
. tests/end_to_end/lib.sh

tried=" "
code() {                        # code VERB CODE NAME COMMAND...
    local verb=$1 code=$2 name=$3
    shift 3
    tried+="$verb:$code "
    exits "${verb}_${code}_$name" "$code" "$@"
}
job x 2 2
job long 2 100000
sed 's/epochs/epoks/' x.yaml >typo.yaml
printf 'claims: [core_dim == 77]\n' | cat x.yaml - >claim.yaml
echo file >in_the_way

code plan 0 fits "$INVAR" plan x.yaml
code plan 2 bad_job "$INVAR" plan typo.yaml
code plan 3 cannot_fit "$INVAR" plan x.yaml --set model.d_model=8192 --set 'model.d_mlp=65536' --set model.layers=64

code train 0 done "$INVAR" train x.yaml -o x --quiet
code train 2 bad_job "$INVAR" train typo.yaml
code train 2 bad_option "$INVAR" train x.yaml --json
code train 3 file_for_a_folder "$INVAR" train x.yaml -o in_the_way
code train 3 wrong_instruction_set env INVAR_ISA=sse "$INVAR" train x.yaml -o isa --quiet
code train 75 time_limit "$INVAR" train long.yaml -o long --time 1 --quiet
code train 0 in_parts_1 many 2 train x.yaml -o parts --part 1/2 --quiet
code train 0 in_parts_2 many 2 train x.yaml -o parts --part 2/2 --quiet

code gather 0 done many 2 gather x
code gather 2 no_folder many 2 gather nowhere
code gather 2 too_few_ranks "$INVAR" gather x --set 'gather.grid=[2, 2]'
code gather 3 no_output_folder "$INVAR" gather .

code report 0 done "$INVAR" report x
code report 2 no_folder "$INVAR" report nowhere
code report 3 nothing_gathered "$INVAR" report parts

code run 0 done many 2 run x.yaml -o run --quiet
code run 1 claim_does_not_hold "$INVAR" run claim.yaml -o claim --quiet
code report 1 claim_does_not_hold "$INVAR" report claim
code run 2 bad_key many 2 run x.yaml --set train.lerning=1
code run 3 file_for_a_folder many 2 run x.yaml -o in_the_way
code run 75 time_limit many 2 run long.yaml -o long2 --time 1 --quiet

code status 0 done "$INVAR" status x
code status 2 job_for_a_folder "$INVAR" status x.yaml
code status 3 no_output_folder "$INVAR" status .

code verify 0 equal "$INVAR" verify x
code verify 2 no_such_run "$INVAR" verify x nosuch
code verify 3 wrong_instruction_set env INVAR_ISA=sse "$INVAR" verify x
cp -r x cut
truncate -s 500 "$(find cut/tiles -name '*.nc' | sort | head -n 1)"
code verify 1 damaged_tile "$INVAR" verify cut

code doctor 0 well "$INVAR" doctor x
code doctor 2 bad_patience "$INVAR" doctor --patience soon
code doctor 3 file_for_a_folder "$INVAR" doctor in_the_way

code format 0 alone "$INVAR" format
code format 2 argument "$INVAR" format x
code version 0 alone "$INVAR" version
code version 2 option "$INVAR" version --json
code help 0 overview "$INVAR" help
code help 0 verb "$INVAR" help train
code help 2 no_such_verb "$INVAR" help trian
code help 0 option "$INVAR" train --help

# FAILED runs: probes that cannot do their work.
if [ -z "${ASAN_OPTIONS:-}" ]; then
    "${MPICC:-mpicc}" -shared -fPIC -O1 -o broken.so "$TOP/tests/end_to_end/broken.c" -ldl || not_ok broken_library
    broken() { env BROKEN=lapack LD_PRELOAD="$PWD/broken.so" "$@"; }
    code train 1 failed_runs broken "$INVAR" train x.yaml -o failed --quiet
    code train 1 failed_runs_stay "$INVAR" train x.yaml -o failed --quiet
    code run 1 failed_runs broken "$INVAR" run x.yaml -o failed_run --quiet
    code status 0 failed_runs "$INVAR" status failed --failed
    says failed_runs_are_listed 'INFO = 3'
    code verify 0 failed_as_before broken "$INVAR" verify failed
    check failed_runs_are_verified test "$(grep -c '^equal .* FAILED$' out.log)" -eq 2
    code verify 1 done_now "$INVAR" verify failed
    says done_now_is_told 'outcome: stored "FAILED", now "DONE"'
    code train 0 failed_runs_again "$INVAR" train x.yaml -o failed --retry-failed --quiet
    same failed_runs_are_right_now x failed
else
    tried+="train:1 "
fi

# The lists of the help, the man page and the README know these codes, and no others.
listed=" "
for verb in plan train gather report run status verify doctor format version help; do
    for c in $("$INVAR" help $verb | sed -n '/^Exit codes/,/^$/s/^  \([0-9]*\) .*/\1/p'); do listed+="$verb:$c "; done
done
check all_listed_codes_were_tried diff <(tr ' ' '\n' <<<"$listed" | sort -u) <(tr ' ' '\n' <<<"$tried" | sort -u)
exit $bad
