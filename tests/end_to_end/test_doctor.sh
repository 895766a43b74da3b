#!/usr/bin/env bash
# doctor: all well here, at 1, 2, 3 and 7 ranks; and everything that is broken on purpose is found, with what to do.
. tests/end_to_end/lib.sh
bare=(env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS -u OPENBLAS_CORETYPE)

exits alone 0 "${bare[@]}" "$INVAR" doctor
says alone_all_checks ' 0 WRONG'
checks=$(grep -cE '^(ok|note|WRONG) ' out.log)
check alone_many_checks test "$checks" -ge 30
for n in 2 3 7; do
    exits "on_${n}_ranks" 0 many "$n" doctor
    says "on_${n}_ranks_they_meet" "$n ranks on 1 node, started by mpirun"
    says "on_${n}_ranks_usr1_arrives" 'SIGUSR1 to mpirun reaches every rank'
    check "on_${n}_ranks_all_checks" test "$(grep -cE '^(ok|note|WRONG) ' out.log)" -eq "$checks"
done
says grids_of_7_ranks 'pdgesvd on 16 grids'
says more_ranks_than_cores_is_noted 'Start one rank a core'
"$INVAR" doctor --json >doctor.json
check json /usr/bin/python3 -B -c '
import json
d = json.load(open("doctor.json"))
assert d["ok"] is True and len(d["checks"]) == '"$checks"', d
assert all(set(c) == {"check", "verdict", "text"} and c["verdict"] in ("ok", "note") and c["text"] for c in d["checks"]), d'
exits folder_to_be_made 0 "$INVAR" doctor new/out
check nothing_is_left test -z "$(find . -name '.doctor*' -o -name new)"

told() {                        # told VERDICT CHECK TEXT: the last `exits` printed this line
    if grep -E "^$1 +$2 " out.log | grep -qF -- "$3"; then ok "$2_is_told"; else not_ok "$2_is_told ($1: $3)" out.log; fi
}
wrong() { check "nothing_else_is_wrong_than_${*// /_}" diff <(printf '%s\n' "$@" | sort) <(sed -n 's/^WRONG \([a-z_0-9]*\) .*/\1/p' out.log | sort); }

# The environment. A job of SLURM that is over, a signal that is blocked, a limit on files, no gnuplot, a wrong name.
mkdir none fake
printf '#!/bin/sh\nexit 0\n' >fake/gnuplot && chmod +x fake/gnuplot
exits bad_environment 3 env OPENBLAS_NUM_THREADS=4 INVAR_ISA=sse SLURM_JOB_ID=1 SLURM_NTASKS=1 SLURM_JOB_END_TIME=1000 \
    /usr/bin/python3 -B -c 'import os, resource, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
resource.setrlimit(resource.RLIMIT_FSIZE, (900000000, 900000000))
os.environ["PATH"] = "none"
os.execv(sys.argv[1], sys.argv[1:])' "$INVAR" doctor
told note threads 'OPENBLAS_NUM_THREADS=4'
told WRONG kernels 'INVAR_ISA is "sse"'
told WRONG slurm 'in the past'
told WRONG signals 'SIGUSR1 is blocked'
told WRONG memory 'ulimit -f'
told note gnuplot 'no gnuplot on the PATH'
wrong kernels slurm signals memory
exits srun_without_pmi 3 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$INVAR" doctor
told WRONG mpi_start 'srun --mpi=pmix'
exits other_task_of_srun 0 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 "$INVAR" doctor
check other_task_is_silent test ! -s out.log
# A PMI that MPI does not use: the tasks are all alone, and only the first of them speaks.
exits tasks_alone 3 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 PMI_FD=9 PATH="$PWD/fake:$PATH" "$INVAR" doctor
told WRONG launch 'srun --mpi=pmix'
told WRONG gnuplot 'no SVG'
wrong launch gnuplot
says pmi_2_is_told 'srun speaks PMI-2'
exits other_task_alone 0 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 PMI_FD=9 "$INVAR" doctor
check other_task_alone_leaves_nothing test -z "$(find . -name '.doctor*')"
exits file_for_a_folder 3 env SLURM_JOB_ID=1 SLURM_NTASKS=4 SLURM_JOB_END_TIME=$(($(date +%s) + 999)) "$INVAR" doctor doctor.json
told WRONG folder 'is a file'
told note slurm 'the job has 4 tasks, this is one program alone'
wrong folder
if [ "$(nproc)" -gt 1 ]; then
    core=$(taskset -cp $$ | grep -oE '[0-9]+' | tail -n 1)
    exits ranks_on_one_core 3 taskset -c "$core" mpirun -n 2 "$INVAR" doctor
    told WRONG cores '2 ranks of this node are bound to 1 core'
    wrong cores
fi
if "$INVAR" version | grep -q DYNAMIC_ARCH && grep -qw avx2 /proc/cpuinfo; then
    exits slow_blas 0 env OPENBLAS_CORETYPE=Prescott "$INVAR" doctor
    told note blas 'OPENBLAS_CORETYPE='
fi

# A rank that does not answer: said in time, whatever it is that hangs.
cat >stopped.sh <<SH
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && kill -STOP \$\$
exec $INVAR doctor --patience 2 --json
SH
exits stopped_rank 3 mpirun -n 2 bash stopped.sh
sed '/^}/q; /^\]/q' out.log >stopped.json
check stopped_rank_is_told /usr/bin/python3 -B -c '
import json
d = json.load(open("stopped.json"))
assert d["ok"] is False and d["checks"][-1]["verdict"] == "WRONG" and "no answer for 2 s" in d["checks"][-1]["text"], d'

# Broken on purpose by a library that is loaded first; under sanitizers theirs would have to be.
[ -z "${ASAN_OPTIONS:-}" ] || exit $bad
"${MPICC:-mpicc}" -shared -fPIC -O1 -o broken.so "$TOP/tests/end_to_end/broken.c" -ldl || not_ok broken_library
broken() { env BROKEN="$1" LD_PRELOAD="$PWD/broken.so" "$INVAR" doctor --patience 4; }
broken_on_2() { mpirun -n 2 -x BROKEN="$1" -x LD_PRELOAD="$PWD/broken.so" "$INVAR" doctor --patience 4; }
exits broken_library_breaks_nothing_else 0 broken none
exits broken_libraries 3 broken 'locks listing space hdf5 threads bits signals'
told WRONG locks 'two launches could work there at once'
told WRONG listing 'is not listed'
told WRONG space 'MB are free'
told note hdf5 'HDF5_USE_FILE_LOCKING=FALSE'
told WRONG threads 'BLAS uses 4 threads'
told WRONG repeatable 'repetitions'
told WRONG signals 'does not reach the program'
wrong locks listing space threads repeatable signals
exits broken_files 3 broken 'rename no_locks inodes svd'
told WRONG rename 'renaming is not atomic'
told WRONG kill_safety 'broken after their writer was killed'
told note locks 'files cannot be locked there'
told WRONG space 'only 10 files can still be made'
told WRONG scalapack "|A - U s V'| ="
wrong rename kill_safety space scalapack repeatable
exits read_only_folder 3 broken folder
told WRONG folder 'nothing can be written there: Read-only file system'
wrong folder
exits no_fsync 3 broken fsync
told WRONG publish 'Input/output error'
wrong shared netcdf publish rename kill_safety listing
exits wrong_messages 3 broken_on_2 'message large libraries shared'
told WRONG mpi_pairs 'messages from other ranks were wrong'
told WRONG mpi_large 'words of a large message'
told WRONG program 'another set of libraries'
told WRONG shared 'all nodes share'
wrong mpi_pairs mpi_large program shared
exits wrong_sum 3 broken_on_2 sum
told WRONG mpi_sum 'cannot be trusted'
exits lost_message 3 broken_on_2 hang
told WRONG mpi_pairs 'no answer for 4 s'
exit $bad
