# A throw-away Slurm for the tests in this folder, sourced by them after tests/end_to_end/lib.sh: its own munged, slurmctld
# and two slurmd that stand for the nodes n1 and n2, all on this machine, in $TMPDIR/slurm, as root or not. Several can run
# side by side. The partition `urgent` pre-empts `main`.
PATH=$PATH:/usr/sbin:/sbin
cluster=$TMPDIR/slurm
export SLURM_CONF=$cluster/slurm.conf
unset "${!SLURM_JOB@}" "${!SBATCH_@}" INVAR_SLURM 2>/dev/null
# Two "nodes" on one machine do not share memory as far as MPI knows.
export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

free_ports() { /usr/bin/python3 - "$1" <<'PY'
import random, socket, sys
found, held = [], []
while len(found) < int(sys.argv[1]):
    s = socket.socket()
    try:        # below the range from which the kernel gives ports to connections
        s.bind(("127.0.0.1", random.randrange(20000, 32000)))
    except OSError:
        continue
    held.append(s)
    found.append(s.getsockname()[1])
print(*found)
PY
}

write_configuration() {         # write_configuration PORT PORT PORT
    local host user
    host=$(hostname -s) user=$(id -un)
    cat >"$SLURM_CONF" <<CONF
ClusterName=invar
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$cluster/munge.sock,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
SlurmctldDebug=debug2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=600
TmpFS=$cluster/tmp-%n
MailProg=/bin/true
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=4 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=4 RealMemory=1000
PartitionName=main Nodes=n1,n2 Default=YES State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=n1,n2 State=UP PriorityTier=2
CONF
}

start_daemons() {
    munged --force --socket="$cluster/munge.sock" --key-file="$cluster/munge.key" --pid-file="$cluster/munged.pid" \
        --log-file="$cluster/munged.log" --seed-file="$cluster/munge.seed" &&
        slurmctld -c -i && slurmd -N n1 && slurmd -N n2 && wait_until 10 both_nodes_idle
}
both_nodes_idle() { [ "$(sinfo -h -p main -o '%D %t')" = "2 idle" ]; }

# Every process of this cluster, jobs included, has its configuration in the environment.
cluster_processes() { grep -lszxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ | tr -dc '0-9\n'; }

cluster_stop() {                # the daemons by their pid files, then what their jobs have left
    local file pids
    for file in "$cluster"/slurm*.pid "$cluster"/munged.pid; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null
    done
    for _ in {1..20}; do
        pids=$(cluster_processes)
        [ -n "$pids" ] || return
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
}

cluster_fails() {               # cluster_fails WHY: a test without Slurm is a failed one
    echo "$1"
    tail -n 8 "$cluster"/*.log "$cluster/start.txt" 2>/dev/null
    echo "not ok slurm_starts"
    exit 1
}

cluster_start() {
    local name try
    for name in munged slurmctld slurmd sbatch srun; do
        command -v $name >/dev/null || cluster_fails "there is no $name: make deps installs it"
    done
    own=$(trap -p EXIT)         # lib.sh removes a TMPDIR that it has made
    trap 'cluster_stop; rm -rf "$cluster" ${own:+"$TMPDIR"}' EXIT
    trap 'exit 1' TERM INT HUP
    # A test that is killed cannot tidy up; this one sees its end, in a session of its own.
    env -u SLURM_CONF conf="$SLURM_CONF" setsid bash -c "$(declare -f cluster_processes cluster_stop)"'
        while kill -0 $1; do sleep 0.5; done
        SLURM_CONF=$conf cluster=$2
        cluster_stop
        rm -rf "${@:2}"' watch $$ "$cluster" ${own:+"$TMPDIR"} >/dev/null 2>&1 </dev/null &
    mkdir -p "$cluster"/state "$cluster"/{spool,tmp}-n{1,2}
    head -c 64 /dev/urandom >"$cluster/munge.key"
    chmod 600 "$cluster/munge.key"
    for try in 1 2 3; do        # another program may have been quicker at a port
        write_configuration $(free_ports 3)
        start_daemons >"$cluster/start.txt" 2>&1 && return
        cluster_stop
    done
    cluster_fails "Slurm does not start here"
}

# ---- what the tests ask ----

has_ended() { [ -z "$(squeue -h -j "$1" -o %i 2>/dev/null)" ]; }
ends() { wait_until "${2:-60}" has_ended "$1"; }
field() { scontrol show job "$1" | sed -n "s/.*\b$2=\([^ ]*\).*/\1/p" | head -n 1; }
ids() { tail -n 1 "$1/slurm/jobs" | cut -d' ' -f2-; }          # "TRAINING GATHER" of the last submission
train_id() { ids "$1" | cut -d' ' -f1; }
gather_id() { ids "$1" | cut -d' ' -f2; }

# site [SETTING...]: from now on a site.conf with these settings in place of the project's; jobs that were sent before
# keep theirs.
sites=0
site() {
    export INVAR_SITE=$PWD/site-$((++sites)).conf
    { cat "$TOP/slurm/site.conf"; printf '%s\n' "invar='$INVAR'" "$@"; } >"$INVAR_SITE"
}
submit() { "$TOP/slurm/submit" "$@"; }
