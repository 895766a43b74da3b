# Shared by submit, train.sbatch and gather.sbatch, and sourced by them: the site's settings, the program, its launch.
# The caller has set `here`, the folder of these files.

fail() {                        # fail CODE TEXT
    echo "${0##*/}: $2" >&2
    exit "$1"
}

# The settings of site.conf and its modules; `program`, the program's path. One thread a rank.
read_site() {
    site=${INVAR_SITE:-$here/site.conf}
    [ -r "$site" ] || fail 3 "$site: cannot be read; the settings of this cluster belong there"
    . "$site"
    if [ ${#modules[@]} -gt 0 ]; then
        module load "${modules[@]}" || fail 3 "cannot load the modules ${modules[*]} of $site"
    fi
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    find_program
    case $launcher in
    mpirun) command -v mpirun >/dev/null || fail 3 "there is no mpirun: name its module, or launcher=srun, in $site" ;;
    srun) check_srun ;;
    *) fail 3 "$site: launcher is mpirun or srun, not \"$launcher\"" ;;
    esac
}

find_program() {
    local path
    for path in "$invar" "$(command -v invar)" "$here/../build/invar" "$here/../../../bin/invar"; do
        [ -n "$path" ] || continue
        program=$(command -v "$path") && program=$(realpath "$program") && return
        [ "$path" != "$invar" ] || fail 3 "$invar: there is no such program; $site names it"
    done
    fail 3 "there is no program invar: build it (make), or name it in $site"
}

# srun that does not speak the PMI of the program's MPI starts N programs that know nothing of each other.
check_srun() {
    local known
    known=$(srun --mpi=list 2>&1)
    grep -qwF -- "$mpi" <<<"$known" ||
        fail 3 "srun does not know --mpi=$mpi, only: $(sed 1d <<<"$known" | xargs). Change mpi or launcher in $site"
    [[ $mpi != pmix* ]] && "$program" version | grep -q 'Open MPI' || return 0
    fail 3 "Open MPI needs srun --mpi=pmix, not $mpi: each task would be alone. Set mpi=pmix or launcher=mpirun in $site"
}

# launch VERB...: the program on all tasks of the allocation; returns its exit code. USR1 and TERM are passed on as USR1,
# the checkpoint signal: mpirun and srun answer TERM by killing their ranks. `asked` tells which came. Afterwards both are
# ignored: SLURM ends a script that puts itself back into the queue.
launch() {
    local command=(mpirun "${mpirun_options[@]}") code
    [ "$1" != train ] || command+=("${mpirun_train_options[@]}")
    if [ "$launcher" = srun ]; then
        command=(srun --mpi="$mpi" --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1 "${srun_options[@]}")
        # As mpirun --enable-recovery tells it: the ranks look for deaths themselves where MPI would wait for ever.
        [ "$1" != train ] || command=(env OMPI_MCA_orte_enable_recovery=1 "${command[@]}" "${srun_train_options[@]}")
    fi
    "${command[@]}" "$program" "$@" &
    child=$!
    trap 'asked=USR1; kill -USR1 "$child"' USR1
    trap 'asked=TERM; kill -USR1 "$child"' TERM
    while kill -0 "$child" 2>/dev/null; do      # a trapped signal ends `wait` early
        wait "$child"
    done
    wait "$child"                               # bash remembers how it ended
    code=$?
    trap '' USR1 TERM
    return $code
}

# How SLURM knows this job alone. SLURM_JOB_ID of an array's last task is the number of the whole array, too.
job_name() { echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-${SLURM_JOB_ID:-none}}"; }

# note TEXT...: into this script's output, and into the log of the output folder (`log`), beside the program's own lines.
note() {
    local line
    line="$(date -u +%FT%TZ) slurm job $job: $*"
    echo "$line"
    echo "$line" >>"$log"
}
