"""Launches of the program under faults: starting, waiting for a moment, signals, and what is left of their processes.

Every process of a launch carries a mark in its environment, which its children inherit whoever becomes their parent. So a
rank is found by what it is, and whatever outlives its launch is found, too.
"""
import os
import resource
import signal
import subprocess
import time

MARK = "FAULT_LAUNCH"
POLL = 0.003                # seconds between looks
HANGS = 90                  # a launch that takes longer has no end

# As tests/all: many ranks on few cores, quickly started.
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "vader,self", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C",
}


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:             # gone meanwhile
        return b""


def state(pid):
    """R, S, T, Z, ...; empty when there is no such process."""
    return read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1].decode()


def marked(mark):
    """{pid: environment} of the living processes whose mark begins so."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        environment = dict(item.partition(b"=")[::2] for item in read(f"/proc/{name}/environ").split(b"\0"))
        if environment.get(MARK.encode(), b"").decode().startswith(mark) and state(name) not in ("Z", "X", ""):
            found[int(name)] = environment
    return found


def send(pid, number):
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def end_all(mark):
    for pid in marked(mark):
        send(pid, signal.SIGKILL)


def limit_files(pid, size):
    """From now on the process cannot make a file larger."""
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return True
    except (ProcessLookupError, PermissionError):
        return False


class Launch:
    """One call of the program, by itself (ranks 0) or under mpirun."""

    def __init__(self, mark, log, program, arguments, ranks, folder, recovery=False, shim=None, library=None):
        self.mark, self.log, self.ranks = mark, log, ranks
        self.folder, self.recovery = folder, recovery
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SHIM_", "OMPI_", "PMIX_"))}
        environment.update(SETTINGS, TMPDIR=os.path.dirname(log), OMPI_MCA_btl_vader_backing_directory=os.path.dirname(log))
        environment[MARK] = mark
        command = [program, *arguments]
        if shim:                # in the ranks alone: mpirun is none of ours
            environment.update(shim)
            environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
            command = ["env", "LD_PRELOAD=" + library, *command]
        if ranks:
            command = ["mpirun", *(["--enable-recovery"] if recovery else []), "-n", str(ranks), *command]
        self.command = command
        core = resource.getrlimit(resource.RLIMIT_CORE)[1]      # a crash leaves its core beside the log
        resource.setrlimit(resource.RLIMIT_CORE, (core, core))
        self.out = open(log, "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
                                        env=environment, cwd=os.path.dirname(log), start_new_session=True)
        self.began = time.monotonic()

    def pid_of(self, rank):
        """The process of a rank; None before and after its life."""
        if not self.ranks:
            return self.process.pid
        for pid, environment in marked(self.mark).items():
            if environment.get(b"OMPI_COMM_WORLD_RANK") == str(rank).encode() and pid != self.process.pid:
                return pid
        return None

    def all_pids(self):
        return list(marked(self.mark))

    def lives(self):
        return self.process.poll() is None

    def until(self, condition, seconds=20.0):
        """Waits until the condition holds, the launch ends or the time is over."""
        end = time.monotonic() + seconds
        while self.lives() and time.monotonic() < end:
            if condition():
                return True
            time.sleep(POLL)
        return False

    def wait(self, seconds=HANGS):
        """The exit code as a shell would have it; None: it hangs."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.out.close()
        return 128 - code if code < 0 else code

    def text(self):
        return read(self.log).decode(errors="replace")

    def left_over(self, seconds=10.0):
        """Processes that outlive the launch by so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not marked(self.mark):
                return []
            time.sleep(0.02)
        return self.all_pids()
