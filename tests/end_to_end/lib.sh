# Shared by the end-to-end tests; sourced from the repository's top. BUILD holds invar, TMPDIR is the test's own folder.
set -u
BUILD=$(cd "${BUILD:-build}" && pwd)
TOP=$PWD
INVAR=$BUILD/invar
BITS="/usr/bin/python3 -B $TOP/tests/end_to_end/same_bits.py"
if [ -z "${TMPDIR:-}" ] || [ "$TMPDIR" = /tmp ]; then
    TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/invar-test.XXXXXX")
    trap 'rm -rf "$TMPDIR"' EXIT
fi
export TMPDIR
# Many ranks on few cores, quickly started; shared-memory files stay in the test's folder, also after a kill -9.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=vader,self \
    OMPI_MCA_btl_vader_backing_directory=$TMPDIR OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# The leak checker of a sanitized build now and then dies of threads that MPI ends meanwhile; leaks are looked for in the
# C tests, without MPI's start and end around each.
slower=1                        # by how much a sanitized build trains more slowly: long trainings get fewer epochs
[ -z "${ASAN_OPTIONS:-}" ] || { export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; slower=20; }
cd "$TMPDIR" || exit 1
bad=0

ok() { echo "ok $1"; }
not_ok() {                      # not_ok NAME [LOG...]: the logs say why
    echo "not ok $1"
    bad=1
    shift
    for log in "$@"; do echo "--- $log"; tail -n 30 "$log"; done
}
check() {                       # check NAME COMMAND...: the command must succeed
    local name=$1
    shift
    if "$@" >check.log 2>&1; then ok "$name"; else not_ok "$name" check.log; fi
}
exits() {                       # exits NAME CODE COMMAND...: the command must end with this code; its output is in out.log
    local name=$1 code=$2 got
    shift 2
    "$@" >out.log 2>&1 </dev/null
    got=$?
    if [ $got -eq "$code" ]; then ok "$name"; else not_ok "$name (exit code $got, expected $code)" out.log; fi
}
says() {                        # says NAME TEXT: the last `exits` printed it
    if grep -qF -- "$2" out.log; then ok "$1"; else not_ok "$1 (no \"$2\")" out.log; fi
}
same() { check "$1" $BITS "${@:2}"; }
many() { local n=$1; shift; mpirun -n "$n" "$INVAR" "$@"; }
tiles() { find "$1/tiles" -name '*.nc' 2>/dev/null | wc -l; }

wait_until() {                  # wait_until SECONDS COMMAND...: until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}
training() { grep -q ' of .* runs' "$1/log.txt"; }       # the launch in this folder has begun to train
lock_is_free() { /usr/bin/python3 -B - "$1/lock" <<'PY'
import fcntl, struct, sys
# As the program asks: struct flock of an open file description lock; l_type comes back as F_UNLCK (2) when it is free.
with open(sys.argv[1], "r+b") as f:
    answer = fcntl.fcntl(f, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
sys.exit(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)
PY
}

# job NAME RUNS EPOCHS [KEY=VALUE...]: a small job file NAME.yaml; one epoch is 8 steps.
job() {
    local name=$1 seeds=$2 epochs=$3
    shift 3
    cat >"$name.yaml" <<YAML
name: $name
task: {kind: markov, sequences: 256, test_sequences: 64, length: 16}
model: {d_model: 32, heads: 2, d_mlp: 64, dropout: 0.1}
train: {epochs: $epochs, batch: 32, lr: 1e-3}
seeds: $seeds
probe: {ace: {layer: 1}}
store: {tile_runs: 1, checkpoint_every: 3600}
gather: {cca: {permutations: 5}}
YAML
    printf '%s\n' "$@" >>"$name.yaml"
}
