"""One round of the campaign: a small job, some faults, plain launches that finish it, and the proof.

What a launch must keep whatever happens to it is checked at its end (Round.end); the proof at the end of the round compares
the folder with an unbroken launch's."""
import json
import os
import random
import shutil
import subprocess
import time

import processes
import proof

# Jobs of about a second on one core. Tiles of one run and of many, probes on the way, runs that diverge, tiny runs.
JOBS = {
    "one": {"runs": 5, "tiles": 5, "text": """
name: one
train: {epochs: 800, batch: 16, lr: 1e-3}
seeds: 5
store: {tile_runs: 1, checkpoint_every: 0.05}
"""},
    "many": {"runs": 9, "tiles": 3, "text": """
name: many
train: {epochs: 500, batch: 16}
axes: {train.lr: [1e-4, 1e-3, 1e5]}
seeds: 3
probe: {at: [100, end]}
store: {tile_runs: 4, checkpoint_every: 0.02}
"""},
    "tiny": {"runs": 20, "tiles": 4, "text": """
name: tiny
train: {epochs: 60, batch: 16, eval_every: 60}
axes: {train.lr: [1e-3, 1e-2]}
seeds: 10
store: {tile_runs: 6, checkpoint_every: 0}
"""},
}
COMMON = """task: {kind: markov, sequences: 64, test_sequences: 32, length: 8}
model: {d_model: 16, heads: 2, d_mlp: 32, dropout: 0.1}
gather: {cca: {permutations: 3}}
"""
PROBE = "probe: {ace: {layer: 1}}\n"

CRASHES = ("Segmentation fault", "signal 11", "signal 6", "signal 8", "Assertion", "Sanitizer", "runtime error",
           "double free", "free(): ", "malloc(): ", "corrupted")


def write_job(name, folder, slower):
    """The job file; a sanitized build trains fewer steps."""
    text = JOBS[name]["text"] + COMMON
    if "probe:" in text:
        text = text.replace("probe: {", "probe: {ace: {layer: 1}, ")
    else:
        text += PROBE
    path = os.path.join(folder, name + ".yaml")
    for epochs in (800, 500, 60):
        text = text.replace(f"epochs: {epochs},", f"epochs: {max(epochs // slower, 30)},")
    with open(path, "w") as f:
        f.write(text.lstrip())
    return path


class Round:
    def __init__(self, seed, job, setting, folder):
        self.seed, self.job, self.setting, self.folder = seed, job, setting, folder
        self.rng = random.Random(seed)
        self.out = os.path.join(folder, "out")
        self.shim_log = os.path.join(folder, "shim.log")
        self.found = []                 # what is wrong
        self.launches = 0
        self.resumed = 0                # runs that went on from a checkpoint
        self.tried = []
        self.struck = {}                # faults that took effect, by kind
        self.kind = None
        self.damaged = 0                # files whose bytes were changed: so many may lie in damaged/
        self.touched = set()            # tiles that were damaged or taken away
        self.planted = set()            # strays that are none of the program's business
        self.mount = False
        self.ranks = self.rng.randint(1, 7)
        self.alone = self.rng.random() < 0.15
        self.story = open(os.path.join(folder, "story.txt"), "w")

    # ---- telling ----

    def tell(self, text):
        print(f"{time.monotonic() - self.setting.began:9.3f} {text}", file=self.story, flush=True)

    def wrong(self, text):
        self.found.append(text)
        self.tell("WRONG: " + text)

    def strike(self, text):
        """A fault took effect."""
        self.struck[self.kind] = self.struck.get(self.kind, 0) + 1
        self.tell(f"{self.kind}: {text}")

    # ---- launches ----

    def start(self, *options, verb="train", ranks=None, shim=None, recovery=False):
        self.launches += 1
        mark = f"{self.setting.token}.{self.seed}.{self.launches}"
        log = os.path.join(self.folder, f"launch{self.launches}.log")
        ranks = ranks if ranks is not None else 0 if self.alone else self.ranks
        target = self.job.path if verb in ("train", "run") else self.out
        arguments = [verb, target, *(["-o", self.out] if verb in ("train", "run") else []), *options]
        shim = {"SHIM_FOLDER": self.out, "SHIM_LOG": self.shim_log, **shim} if shim else None
        launch = processes.Launch(mark, log, self.setting.invar, arguments, ranks, self.out, recovery=recovery, shim=shim,
                                  library=self.setting.library)
        launch.before = proof.tiles(self.out)
        shown = " ".join(f"{k}='{v}'" for k, v in (shim or {}).items() if k not in ("SHIM_FOLDER", "SHIM_LOG"))
        self.tell(f"launch {self.launches}: {shown} {' '.join(launch.command)}")
        return launch

    def moment(self, launch, early=False):
        """Waits for a random moment of the training. Whether the launch lives then."""
        kind = self.rng.choice(["start", "seconds", *([] if early else ["seconds", "tiles", "checkpoints"])])
        if kind == "start":             # before and while it starts
            seconds = self.rng.uniform(0.0, 0.5)
            launch.until(lambda: time.monotonic() - launch.began >= seconds)
            self.tell(f"moment: {seconds:.3f} s after the start")
            return launch.lives()
        launch.until(lambda: self.trains(launch))
        if kind == "seconds":
            end = time.monotonic() + self.rng.uniform(0.0, 0.1 if early else 1.0)
            launch.until(lambda: time.monotonic() >= end)
        else:
            self.until_files(launch, kind, self.rng.randint(1, self.job.tiles - 1 if kind == "tiles" else 6))
        self.tell(f"moment: {kind}, {len(proof.tiles(self.out))} tiles")
        return launch.lives()

    def trains(self, launch):
        return f" of {self.job.runs} runs" in launch.text()

    def until_files(self, launch, folder, count):
        seen = set()

        def enough():
            try:
                for entry in os.scandir(os.path.join(self.out, folder)):
                    if not entry.name.startswith("."):
                        seen.add((entry.name, entry.stat().st_mtime_ns))
            except OSError:
                pass
            return len(seen) >= count
        launch.until(enough)

    def end(self, launch, codes=None, says=None):
        """Waits for the end and looks at it. codes: which may be, None for any; says: {code: text that is in the log}."""
        code = launch.wait()
        text = launch.text()
        self.tell(f"ended with {code} after {time.monotonic() - launch.began:.2f} s")
        if code is None:
            self.wrong(f"launch {self.launches} hangs")
            self.take_stacks(launch)
            processes.end_all(launch.mark)
            launch.process.wait()
            return None
        left = launch.left_over()
        if left:
            self.wrong(f"processes outlive their launch: {left}")
            self.take_stacks(launch)
            processes.end_all(launch.mark)
        if codes is not None and code not in codes:
            self.wrong(f"launch ended with {code}, expected {sorted(codes)}: {last_line(text)}")
        for word in CRASHES:
            if word in text:
                self.wrong(f"the launch crashed: {word}")
        if code in (says or {}) and says[code] not in text:
            self.wrong(f'exit code {code} without saying "{says[code]}": {last_line(text)}')
        if code == 3 and "error: " not in text:
            self.wrong(f"exit code 3 without an error message: {last_line(text)}")
        self.look_at_tiles(launch)
        if code == 0 and "--part" not in launch.command and not launch.recovery:     # mpirun hides all codes then
            self.nothing_is_missing()
        hidden = any(os.path.exists(path) for path in self.touched)     # a spoilt file that a stale listing does not show
        if code == 0 and "run" in launch.command and not hidden:
            for fault in self.job.reference.faults(self.out):
                self.wrong("after an exit code of 0: " + fault)
        return code

    def look_at_tiles(self, launch):
        """What was published before the launch is there as it was."""
        now = proof.tiles(self.out)
        for path, what in launch.before.items():
            if path not in self.touched and now.get(path) != what:
                self.wrong(f"the finished tile {os.path.basename(path)} was " + ("replaced" if path in now else "lost"))

    def status(self):
        done = subprocess.run([self.setting.invar, "status", self.out, "--json"], capture_output=True, text=True,
                              check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            self.wrong(f"status ended with {done.returncode}: {done.stderr.strip()}")
            return {}

    def is_complete(self):
        return os.path.exists(os.path.join(self.out, "job.yaml")) and self.status().get("missing") == 0

    def quarantined(self):
        return self.status().get("quarantined", 0)

    def nothing_is_missing(self):
        status = self.status()
        if status and status["missing"]:
            self.wrong(f"exit code 0, but {status['missing']} of {status['total']} runs are missing")

    def take_stacks(self, launch):
        """Where a process that hangs does so, for whoever looks at the folder."""
        if not shutil.which("gdb"):
            return
        for pid in launch.all_pids():
            with open(os.path.join(self.folder, f"stack.{pid}.txt"), "w") as f:
                subprocess.run(["gdb", "-batch", "-p", str(pid), "-ex", "thread apply all bt"], stdout=f, stderr=f,
                               timeout=30, check=False)

    # ---- the round ----

    def play(self, faults):
        """Injects the faults, finishes the job, proves. Returns whether all is right."""
        self.tell(f"seed {self.seed}: job {self.job.name}, {'alone' if self.alone else f'{self.ranks} ranks'}, "
                  + ", ".join(f.__name__ for f in faults))
        try:
            for fault in faults:
                if self.tried and self.is_complete():       # nothing is left to strike at
                    break
                self.kind = fault.__name__
                self.tried.append(self.kind)
                fault(self)
            self.finish()
            self.prove()
        finally:
            processes.end_all(f"{self.setting.token}.{self.seed}.")
            if self.mount:
                subprocess.run(["umount", "-l", self.out], check=False)
            self.story.close()
        return not self.found

    def finish(self):
        """Plain launches, as the user would make them: one is enough, but for tiles that died with their ranks too often."""
        verb = "run" if self.rng.random() < 0.15 else "train"
        code = self.end(self.start(verb=verb, ranks=self.rng.randint(1, 4)), {0, 1})
        if code == 1 and self.quarantined():
            self.end(self.start("--retry-quarantined", verb=verb, ranks=self.rng.randint(1, 4)), {0})
        elif code == 1:
            self.wrong("exit code 1, but nothing is quarantined")
        if verb == "train":
            self.end(self.start(verb="gather", ranks=self.rng.randint(1, 3)), {0})

    def prove(self):
        for fault in self.job.reference.faults(self.out):
            self.wrong(fault)
        if not self.found:
            self.resumed = proof.resumed(self.out)
        for stray in proof.strays(self.out, self.planted):
            self.wrong(f"stray file {stray}")
        aside = os.path.join(self.out, "damaged")
        there = len(os.listdir(aside)) if os.path.isdir(aside) else 0
        if there > self.damaged:
            self.wrong(f"{there} files were set aside as damaged, {self.damaged} were damaged: {os.listdir(aside)}")

    def signal_rank(self, launch, rank, number):
        pid = launch.pid_of(rank)
        return bool(pid) and processes.send(pid, number)

    def rank(self):
        return self.rng.randrange(self.ranks if not self.alone else 1)


def last_line(text):
    lines = [line for line in text.splitlines() if "invar: " in line] or text.splitlines() or [""]
    return lines[-1][:300]
