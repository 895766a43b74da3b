#!/usr/bin/env bash
# `make install` into an empty folder: what lies there is what was meant, and works from there.
. tests/end_to_end/lib.sh
unset MAKEFLAGS MFLAGS MAKELEVEL

root=$TMPDIR/x
share=$root/usr/share
# -o: installs the program that is being tested, as it is
exits install 0 make -C "$TOP" BUILD="$BUILD" -o "$BUILD/invar" install DESTDIR="$root" PREFIX=/usr
{
    printf 'usr/%s\n' bin/invar share/man/man1/invar.1 share/bash-completion/completions/invar
    (cd "$TOP" && printf 'usr/share/invar/%s\n' jobs/* slurm/*)
} | sort >expected.txt
(cd "$root" && find . -type f | sed 's#^\./##' | sort) >installed.txt
check installs_these_files_alone diff expected.txt installed.txt
modes() {
    find "$root" -type f -perm 755 | sed 's#.*/##' | sort | diff - <(cd "$TOP/slurm" && printf '%s\n' invar * | sort) &&
        [ -z "$(find "$root" -type f ! -perm 755 ! -perm 644)" ]
}
check programs_alone_are_executable modes
check program_is_the_built_one cmp "$BUILD/invar" "$root/usr/bin/invar"

# Without a word of the environment that the tests have.
clean() { env -i PATH="$root/usr/bin:/usr/bin:/bin" HOME="$TMPDIR" ${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} "$@"; }
for job in "$share"/invar/jobs/*.yaml; do
    exits "plan_$(basename "$job" .yaml)" 0 clean invar plan "$job"
    says "plan_$(basename "$job" .yaml)_has_runs" ' runs ('
done

# Man page: only macros of the man package, and no complaint of a formatter.
macros() { ! grep '^\.' "$1" | grep -vE '^\.(TH|SH|TP|B|I|BR|RB|BI|IB|IR|RI|PP|br|nf|fi|\\")( |$)'; }
renders() { "${@:2}" "$share/man/man1/invar.1" >page.txt 2>complaints.txt && [ ! -s complaints.txt ] && grep -q "$1" page.txt; }
check man_macros macros "$share/man/man1/invar.1"
check man_begins_with_a_title grep -q '^\.TH INVAR 1 ' "$share/man/man1/invar.1"
command -v groff >/dev/null && check man_renders renders 'EXIT STATUS' groff -man -Tascii -P-cbou -ww
command -v mandoc >/dev/null && check man_lint mandoc -T lint -W error "$share/man/man1/invar.1"

complete_word() {               # complete_word WORDS...: what completes the last of them
    clean bash --noprofile --norc -u -c '. "$0" && complete -p invar >/dev/null || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _invar 2>/dev/null
        printf "%s\n" "${COMPREPLY[@]}" | sort | paste -sd" "' "$share/bash-completion/completions/invar" "$@"
}
completes() { local got; got=$(complete_word "${@:2}") && echo "$got" && [ "$got" = "$1" ]; }
check completes_r completes 'report run' invar r
check completes_st completes 'status' invar st
check completes_an_option completes '--time' invar run --ti
check completes_nothing completes '' invar x

# The batch script, without SLURM, and with a launcher and a SLURM that only write down what they are asked.
batch=$share/invar/slurm/run.sbatch
exits batch_without_a_job 2 "$batch"
job tiny 2 2
exits batch_runs_a_job 0 env INVAR="$root/usr/bin/invar" "$batch" tiny.yaml -o tiny --quiet
check batch_ran_it test -s tiny/report.html
mkdir fake
cat >fake/mpirun <<'SH'
#!/usr/bin/env bash
trap 'exit 75' USR1
echo "$*" >mpirun.txt
for _ in {1..600}; do sleep 0.05; done
SH
printf '#!/bin/sh\necho "$*" >scontrol.txt\n' >fake/scontrol
chmod +x fake/*
PATH=$PWD/fake:$PATH SLURM_JOB_ID=7 INVAR=invar "$batch" tiny.yaml -o tiny >batch.log 2>&1 &
script=$!
wait_until 10 test -s mpirun.txt
kill -USR1 $script
wait $script
code=$?
check batch_passes_the_job_on grep -q 'invar run tiny.yaml -o tiny$' mpirun.txt
check batch_ends_with_75 test $code -eq 75
check batch_goes_back_into_the_queue grep -qx 'requeue 7' scontrol.txt
exit $bad
