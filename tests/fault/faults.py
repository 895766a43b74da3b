"""The faults of the campaign. Each is a function of a round: it starts a launch, strikes at a moment, and says how the
launch may end. What must hold afterwards is the same for all and stands in rounds.py."""
import os
import re
import shutil
import signal
import subprocess
import time

import processes
import proof

EARLY = "stopped early; run the same command again to go on"
ERROR = "error: "
FILE_CALLS = ["open", "read", "write", "fsync", "close", "rename", "unlink", "any"]


# ---- dead processes ----

def kill_rank(r):
    launch = r.start(verb=verb(r))
    rank = r.rank()
    if r.moment(launch) and r.signal_rank(launch, rank, signal.SIGKILL):
        r.strike(f"rank {rank}")
    r.end(launch)


def kill_first_rank(r):
    launch = r.start(verb=verb(r))
    if r.moment(launch) and r.signal_rank(launch, 0, signal.SIGKILL):
        r.strike("rank 0")
    r.end(launch)


def kill_mpirun(r):
    """Half of the time a new launch comes before the old ranks have noticed: it works or is told who is in the way."""
    launch = r.start(verb=verb(r))
    if r.moment(launch) and processes.send(launch.process.pid, signal.SIGKILL):
        r.strike("mpirun")
        if r.rng.random() < 0.5:
            hurried = r.start()
            r.end(hurried, {0, 3}, {3: "in use by process"})
            launch.before = {}
    r.end(launch)


def kill_node(r):
    launch = r.start(verb=verb(r))
    if r.moment(launch):
        pids = launch.all_pids()
        for pid in pids:
            processes.send(pid, signal.SIGKILL)
        r.strike(f"all {len(pids)} processes")
    r.end(launch)


def kill_at_call(r):
    kind, first = r.rng.choice(FILE_CALLS), r.rng.randint(1, 25)
    with_shim(r, f"{target(r)} {kind} {first} 1 kill")


# ---- mpirun --enable-recovery: the others go on ----

def finishes(r, launch, struck):
    """When a rank but the first was lost in training, the launch does all that is to be done. mpirun's exit code hides the
    death; ours is in the log."""
    r.end(launch)
    if struck:
        r.nothing_is_missing()
        log = processes.read(os.path.join(r.out, "log.txt")).decode()
        # A rank that dies when all its work is done and said is missed by nobody.
        noticed = re.search(r"rank \d+ .*(died|gives no sign of life)", log)
        if noticed and "ends with exit code 0" not in log and "died in a stage that needs all ranks" not in log:
            r.wrong("a launch that lost a rank does not say its exit code in log.txt")


def recovery(r, *options, **more):
    r.ranks, r.alone = max(r.ranks, 2), False
    return r.start("--heartbeat", "2", *options, recovery=True, **more)


def recovery_kill(r):
    launch = recovery(r)
    r.moment(launch)
    trains, struck = r.trains(launch), False
    for rank in r.rng.sample(range(1, r.ranks), min(r.rng.choice([1, 1, 2]), r.ranks - 1)):
        if launch.lives() and r.signal_rank(launch, rank, signal.SIGKILL):
            r.strike(f"rank {rank} dies, {'training' if trains else 'starting'}")
            struck = True
    finishes(r, launch, struck and trains)


def recovery_kill_at_call(r):
    rank = r.rng.randint(1, max(r.ranks, 2) - 1)
    before = processes.read(r.shim_log)
    launch = recovery(r, shim={"SHIM_CALL": f"{rank} {r.rng.choice([*FILE_CALLS, 'bcast'])} {r.rng.randint(1, 20)} 1 kill"})
    launch.until(lambda: processes.read(r.shim_log) != before)
    trains = r.trains(launch)
    struck = processes.read(r.shim_log) != before
    if struck:
        r.strike(processes.read(r.shim_log)[len(before):].decode())
    finishes(r, launch, struck and trains)


def recovery_stop(r):
    """Longer than the heartbeat allows or not; the rank wakes up or dies in its sleep."""
    launch = recovery(r)
    rank = r.rng.randint(1, r.ranks - 1)
    r.moment(launch)
    trains = r.trains(launch)
    struck = launch.lives() and r.signal_rank(launch, rank, signal.SIGSTOP)
    if struck:
        r.strike(f"rank {rank} stops, {'training' if trains else 'starting'}")
        time.sleep(r.rng.choice([0.1, 1.0, 3.5]))
        r.signal_rank(launch, rank, r.rng.choice([signal.SIGCONT, signal.SIGCONT, signal.SIGKILL]))
    finishes(r, launch, False)
    if struck and trains:
        r.nothing_is_missing()


def recovery_first(r):
    """Without the first rank the others leave."""
    launch = recovery(r)
    if r.moment(launch) and r.signal_rank(launch, 0, signal.SIGKILL):
        r.strike("rank 0 dies")
    r.end(launch)


# ---- sleeping processes ----

def stop_and_go(r):
    launch = r.start()
    rank = r.rank()
    if r.moment(launch) and r.signal_rank(launch, rank, signal.SIGSTOP):
        r.strike(f"rank {rank} stops")
        time.sleep(r.rng.uniform(0.05, 1.0))
        r.signal_rank(launch, rank, signal.SIGCONT)
    r.end(launch, {0})


def stop_and_kill(r):
    launch = r.start()
    rank = r.rank()
    if r.moment(launch) and r.signal_rank(launch, rank, signal.SIGSTOP):
        r.strike(f"rank {rank} stops")
        time.sleep(r.rng.uniform(0.05, 0.5))
        r.signal_rank(launch, rank, signal.SIGKILL)
    r.end(launch)


def slow_node(r):
    shim = {"SHIM_SLOW": f"{r.rank()} {r.rng.choice([20, 50, 100])}"}
    launch = r.start(shim=shim)
    r.strike(shim["SHIM_SLOW"])
    r.end(launch, {0})


# ---- signals and limits ----

def stop_signal(r, number):
    """Through mpirun TERM and INT end the launch with mpirun's own code. A signal before main has begun ends a process."""
    launch = r.start()
    r.moment(launch)
    ready = r.trains(launch)
    target_pid = launch.process.pid
    if launch.lives() and processes.send(target_pid, number):
        r.strike("training" if ready else "starting")
    documented = ready and (not launch.ranks or number == signal.SIGUSR1)
    r.end(launch, {0, 75} if documented else None, {75: EARLY})


def usr1(r):
    stop_signal(r, signal.SIGUSR1)


def term(r):
    stop_signal(r, signal.SIGTERM)


def interrupt(r):
    stop_signal(r, signal.SIGINT)


def time_limit(r):
    seconds = r.rng.uniform(0.01, 2.0)
    launch = r.start("--time", f"{seconds:.2f}", verb=verb(r))
    if r.end(launch, {0, 75}, {75: EARLY}) == 75:
        r.strike(f"{seconds:.2f} s")


# ---- files ----

def disk_full_at_call(r):
    kind, first, count = r.rng.choice(["open", "write", "fsync", "close", "rename", "any"]), r.rng.randint(1, 20), many(r)
    with_shim(r, f"{target(r)} {kind} {first} {count} {r.rng.choice(['ENOSPC', 'EDQUOT'])}", {0, 3}, {3: ERROR})


def io_error(r):
    kind, first = r.rng.choice(FILE_CALLS), r.rng.randint(1, 20)
    with_shim(r, f"{target(r)} {kind} {first} {many(r)} {r.rng.choice(['EIO', 'ESTALE', 'EACCES'])}", {0, 3}, {3: ERROR})


def read_only(r):
    with_shim(r, f"-1 {r.rng.choice(['open', 'rename', 'unlink'])} {r.rng.randint(1, 12)} 1000000 EROFS", {0, 3}, {3: ERROR})


def short_writes(r):
    with_shim(r, f"{target(r)} write {r.rng.randint(1, 10)} {many(r)} half", {0})


def fill(path, spare):
    """Takes all room but `spare` bytes, while the launch goes on writing."""
    size, step = 0, 65536
    with open(path, "wb") as f:
        try:
            while True:
                os.posix_fallocate(f.fileno(), size, step)
                size += step
        except OSError:
            os.ftruncate(f.fileno(), max(size - spare, 0))


def full_disk(r):
    """A small disk of our own that fills up; where that cannot be made, a limit on the size of files."""
    if not r.setting.can_mount or r.mount or os.path.exists(r.out):
        return file_limit(r)
    os.makedirs(r.out)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", r.out], check=True)
    r.mount = True
    launch = r.start()
    filler = os.path.join(r.out, "filler")
    if r.moment(launch):
        fill(filler, r.rng.choice([0, 4096, 32768, 131072]))
        r.strike("no room is left")
        launch.until(lambda: False, 1.0)
        if r.rng.random() < 0.5:        # somebody makes room: the launch goes on by itself
            os.unlink(filler)
            r.tell("there is room again")
    r.end(launch, *with_patience(r, launch, {0, 3}, {3: ERROR}))
    if os.path.exists(filler):
        os.unlink(filler)


def file_limit(r):
    """From a moment on no file may grow: after MPI has made its own, and never so little that the log is cut."""
    launch = r.start()
    r.moment(launch)
    if launch.until(lambda: r.trains(launch)):
        size = r.rng.choice([0, 1000, 20000]) if launch.ranks else 20000
        for pid in launch.all_pids():
            if pid != launch.process.pid or not launch.ranks:
                processes.limit_files(pid, size)
        r.strike(f"no file may grow beyond {size} bytes")
    r.end(launch, *with_patience(r, launch, {0, 3}, {3: ERROR}))


def folder_removed(r):
    """The whole folder goes while a launch works; it comes back or not."""
    launch = r.start()
    gone = os.path.join(r.folder, "gone")
    if r.moment(launch) and os.path.isdir(r.out) and not r.mount:
        os.rename(r.out, gone)
        r.strike("the folder is gone")
        launch.before = {}
    codes, says = with_patience(r, launch, {0, 3}, {3: ERROR})
    launch.until(lambda: False, processes.HANGS)
    if os.path.isdir(gone):             # a launch that ended well had published all before
        if not os.path.exists(r.out) and (launch.process.returncode == 0 or r.rng.random() < 0.5):
            os.rename(gone, r.out)
        else:
            shutil.rmtree(gone)
    r.end(launch, codes, says)


def subfolder_removed(r):
    launch = r.start()
    name = r.rng.choice(["tiles", "checkpoints"])
    path = os.path.join(r.out, name)
    if r.moment(launch) and os.path.isdir(path):
        r.touched.update(proof.tiles(r.out))
        os.rename(path, os.path.join(r.folder, f"gone.{r.launches}"))
        r.strike(name)
    r.end(launch, *with_patience(r, launch, {0, 3}, {3: ERROR}))


def tile_damaged(r):
    damage(r, "tiles", ".nc")


def checkpoint_damaged(r):
    damage(r, "checkpoints", ".ck")


def result_damaged(r):
    """Gather writes its files anew whatever lies there."""
    r.end(r.start(verb="train", ranks=2), {0})
    r.end(r.start(verb="gather", ranks=1), {0})
    for name in proof.RESULTS:
        path = os.path.join(r.out, name)
        if os.path.exists(path):
            spoil(r, path)
            r.strike(name)


def gather_broken(r):
    """Gather or report fails or dies at a file call."""
    r.end(r.start(verb="train", ranks=2), {0})
    stage = r.rng.choice(["gather", "gather", "report"])
    if stage == "report":
        r.end(r.start(verb="gather", ranks=1), {0})
    if r.rng.random() < 0.5:
        call, codes = f"0 {r.rng.choice(FILE_CALLS)} {r.rng.randint(1, 12)} 1 kill", None
    else:
        kind, error = r.rng.choice(["open", "write", "fsync", "close", "rename"]), r.rng.choice(["ENOSPC", "EDQUOT", "EIO"])
        call, codes = f"0 {kind} {r.rng.randint(1, 12)} {many(r)} {error}", {0, 3}
    with_shim(r, call, codes, {3: ERROR}, stage=stage, ranks=0 if stage == "report" else r.rng.randint(0, 2))


def stray_files(r):
    """Of dead launches: they go. Of the user: they stay."""
    for folder in ("", "tiles", "checkpoints"):
        os.makedirs(os.path.join(r.out, folder), exist_ok=True)
    old = [".tmp-elsewhere.17.0badcafe.0-runs.nc", "tiles/.tmp-elsewhere.17.0badcafe.1-ab.nc",
           "checkpoints/.tmp-elsewhere.17.0badcafe.2-ab.ck"]
    own = ["notes.txt", "tiles/README", "tiles/.nfs0001"]
    for name in old + own:
        with open(os.path.join(r.out, name), "wb") as f:
            f.write(r.rng.randbytes(r.rng.choice([0, 10, 5000])))
    strange = os.path.join(r.out, "tiles", "0123456789abcdef.nc")
    with open(strange, "wb") as f:
        f.write(r.rng.randbytes(100))
    r.touched.add(strange)
    r.damaged += 1
    r.planted.update(own)
    r.strike("files of others")


# ---- two launches, clocks ----

def second_launch(r):
    first = r.start()
    if r.moment(first, early=True):
        second = r.start(verb=verb(r))
        code = r.end(second, {0, 3}, {3: "in use by process"})
        if code == 3:
            r.strike("was refused")
        first.before = {}
    r.end(first, {0, 3}, {3: "in use by process"})


def parts(r):
    """An array job: its parts work side by side, one of them dies with all its ranks, and the whole waits for none."""
    count = r.rng.randint(2, 3)
    launches = [r.start("--part", f"{k}/{count}", ranks=r.rng.choice([0, 2])) for k in range(1, count + 1)]
    doomed = r.rng.choice(launches)
    if r.moment(doomed):
        for pid in doomed.all_pids():
            processes.send(pid, signal.SIGKILL)
        r.strike(f"one of {count} parts dies")
    for launch in launches:
        launch.before = {}
        r.end(launch, None if launch is doomed else {0})


def part_twice(r):
    """A part excludes itself and the whole, not the others."""
    first = r.start("--part", "1/2")
    if r.moment(first, early=True):
        other = r.start(*r.rng.choice([["--part", "1/2"], []]), ranks=0)
        if r.end(other, {0, 3}, {3: "in use by process"}) == 3:
            r.strike("was refused")
    first.before = {}
    r.end(first, {0, 3}, {3: "in use by process"})


def cut_off_node(r):
    """The old launch stands still for longer than its lease; a new one takes over. The old one wakes up and leaves."""
    old = r.start("--heartbeat", "1")
    if not r.moment(old):
        r.end(old, {0})
        return
    trains = r.trains(old)
    asleep = old.all_pids()
    for pid in asleep:
        processes.send(pid, signal.SIGSTOP)
    new = r.start("--heartbeat", "1", "--wait", "20")
    code = r.end(new, {0})
    r.strike(f"the new launch ended with {code}")
    old.before = {} if code else proof.tiles(r.out)
    for pid in asleep:
        processes.send(pid, signal.SIGCONT)
    r.end(old, {0, 3} if trains else None, {3: "has taken the folder over"})     # MPI does not always wake up in its start


def stale_listing(r):
    """What is published does not appear in the folder's listing for a while; results lack nothing for that."""
    with_shim(r, None, {0}, more={"SHIM_LATE": "600"}, stage="run")


def clock_jump(r):
    jump = r.rng.choice([-1, 1]) * r.rng.choice([3600, 86400, 366 * 86400])
    with_shim(r, None, {0}, more={"SHIM_CLOCK": f"{r.rng.uniform(0, 1.0):.2f} {jump}"})


# ---- shared ----

def verb(r):
    return "run" if r.rng.random() < 0.15 else "train"


def many(r):
    return r.rng.choice([1, 1, 2, 5, 1000000])


def target(r):
    """A rank, or all."""
    return r.rng.choice([-1, r.rank()])


def with_shim(r, call, codes=None, says=None, more=None, stage=None, ranks=None):
    before = processes.read(r.shim_log)
    launch = r.start(verb=stage or verb(r), ranks=ranks, shim={**({"SHIM_CALL": call} if call else {}), **(more or {})})
    r.end(launch, *with_patience(r, launch, codes, says))
    done = processes.read(r.shim_log)[len(before):].decode().splitlines()
    if done:
        r.strike(f"{call or more}: {done[0]}")


def with_patience(r, launch, codes, says, seconds=2.5):
    """A full disk may get room again, so the program tries for a while; the user may be less patient. What `end` takes."""
    launch.until(lambda: False, seconds)
    if codes is None or 3 not in codes or not r.trains(launch) or not launch.lives():
        return codes, says
    r.tell("USR1: no more trying")
    processes.send(launch.process.pid, signal.SIGUSR1)
    return codes | {75}, {**says, 75: EARLY}


def damage(r, folder, suffix):
    """A launch that is stopped leaves something; a byte of it changes, or it is cut."""
    launch = r.start()
    r.until_files(launch, folder, r.rng.randint(1, 3))
    if launch.lives():
        processes.send(launch.process.pid, signal.SIGUSR1)
    r.end(launch)
    where = os.path.join(r.out, folder)
    names = sorted(n for n in os.listdir(where) if n.endswith(suffix)) if os.path.isdir(where) else []
    for name in r.rng.sample(names, min(len(names), r.rng.randint(1, 2))):
        spoil(r, os.path.join(where, name))
        r.damaged += 1
        r.touched.add(os.path.join(where, name))
        r.strike(os.path.join(folder, name))


def spoil(r, path):
    size = os.path.getsize(path)
    if r.rng.random() < 0.4 or size == 0:
        os.truncate(path, r.rng.choice([0, size // 2, max(size - 1, 0), r.rng.randrange(size + 1)]))
        return
    with open(path, "r+b") as f:
        place = r.rng.randrange(size)
        f.seek(place)
        byte = f.read(1)[0]
        f.seek(place)
        f.write(bytes([byte ^ (1 << r.rng.randrange(8))]))


# Consecutive seeds go through these; the twenty of `make check` come first.
FAULTS = [kill_rank, usr1, kill_at_call, tile_damaged, disk_full_at_call, recovery_kill, checkpoint_damaged, io_error,
          recovery_stop, kill_first_rank, second_launch, full_disk, cut_off_node, stray_files, parts, short_writes,
          gather_broken, folder_removed, recovery_kill_at_call, stale_listing,
          kill_mpirun, kill_node, stop_and_go, stop_and_kill, recovery_first, term, interrupt, time_limit, slow_node,
          clock_jump, read_only, file_limit, subfolder_removed, result_damaged, part_twice]
