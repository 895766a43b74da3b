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
    find "$root" -type f -perm 755 | sed 's#.*/##' | sort | diff - <(printf '%s\n' gather.sbatch invar submit train.sbatch) &&
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

# The settings of a site outlive the next installation.
echo '# ours' >>"$share/invar/slurm/site.conf"
make -C "$TOP" BUILD="$BUILD" -o "$BUILD/invar" install DESTDIR="$root" PREFIX=/usr >/dev/null 2>&1
check site_settings_stay grep -q '# ours' "$share/invar/slurm/site.conf"

# The batch scripts as they are, without SLURM (tests/slurm has one): they find the program that was installed with them.
batch() { env -u INVAR_SITE PATH="/usr/bin:/bin" "$share/invar/slurm/$1" "${@:2}"; }
exits train_batch_without_a_job 2 batch train.sbatch
exits gather_batch_without_a_folder 2 batch gather.sbatch
job tiny 2 2
exits train_batch_runs_a_job 0 batch train.sbatch "$PWD/tiny.yaml" "$PWD/tiny" 1 --quiet
exits gather_batch_gathers_it 0 batch gather.sbatch "$PWD/tiny"
check batch_wrote_the_report test -s tiny/report.html
mkdir no-slurm && ln -s /usr/bin/* no-slurm/ && rm -f no-slurm/sbatch
exits submit_without_slurm 3 env PATH="$PWD/no-slurm" "$share/invar/slurm/submit" tiny.yaml
says submit_without_slurm_says_so 'there is no sbatch here'
exit $bad
