#!/usr/bin/python3
"""`make bench`: invar beside PyTorch, in turns, on one thread of one and the same core. No verdict: medians and their ratios.

    ROUNDS=3    rounds; each runs every side once
    SECONDS=3   how long a round measures a side
    EPOCHS=4    of the 40 epochs of the whole training; seconds per seed are proportional to them, so ratios stay
    CORE=1      the core; 0 where there is no such one
    WHAT=...    only these: M1 M2 M3 M4 training

M1 to M4 are training steps of `invar bench` and peer.py; before they are timed, both sides do the same steps from the same
weights and their losses are compared. "training" is a seed of jobs/markov-cores.yaml and of markov_torch.py. PyTorch runs in
the environment that is fastest for it: AVX-512 kernels, and an allocator that gives no memory back between steps; the whole
training once more in its plain one.
"""
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
INVAR = os.path.join(ROOT, os.environ.get("BUILD", "build"), "invar")
PYTHON = "/usr/bin/python3"
ROUNDS, EPOCHS, SECONDS = (int(os.environ.get(*x)) for x in (("ROUNDS", 3), ("EPOCHS", 4), ("SECONDS", 3)))
MODELS = {"M1": True, "M2": True, "M3": False, "M4": True}         # has a sliced variant: the loss is at the last position


def pin():
    for core in (os.environ.get("CORE", "1"), "0"):
        if subprocess.run(["taskset", "-c", core, "true"], capture_output=True).returncode == 0:
            return ["taskset", "-c", core]
    return []


PIN = pin()


def environment(best):
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY")}
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    if best:
        flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
        if "avx512f" in flags:
            env.update(ATEN_CPU_CAPABILITY="avx512", OPENBLAS_CORETYPE="SkylakeX")
        env.update(MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="4294967296", MALLOC_TOP_PAD_="268435456")
    return env


def run(*command, env=None, pinned=True):
    command = (PIN if pinned else []) + list(command)
    done = subprocess.run(command, env=env or os.environ, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def peer(*arguments):
    return run(PYTHON, "tests/reference/peer.py", *arguments, env=environment(True))


# ---- steps of the models --------------------------------------------------------------------------------------------

def step_times(model, sliced):
    """Milliseconds of every side, by side, in turns; and the last lines of invar."""
    times, lines = {}, {}
    for _ in range(ROUNDS):
        times.setdefault("PyTorch", []).append(json.loads(peer(model, "--seconds", str(SECONDS)))["step_ms"])
        if sliced:
            times.setdefault("PyTorch, sliced", []).append(json.loads(peer(model, "--sliced", "--seconds", str(SECONDS)))["step_ms"])
        for line in run(INVAR, "bench", model, "--json", "--time", str(SECONDS)).splitlines():
            line = json.loads(line)
            times.setdefault("invar, " + line["plan"], []).append(line["step_ms"])
            lines[line["plan"]] = line
    return times, lines


def bench_models(models, work):
    print(f"{'training step, ms':22s}" + "".join(f"{m:>12s}" for m in models))
    table, order = {}, ["PyTorch", "PyTorch, sliced", "invar, dense", "invar, structured"]
    for model in models:
        dump = os.path.join(work, model + ".nc")
        run(INVAR, "bench", model, "--dump", dump, pinned=False)
        print("  " + peer(model, "--check", dump).strip())
        table[model] = step_times(model, MODELS[model])
    median = {m: {side: statistics.median(v) for side, v in table[m][0].items()} for m in models}

    def row(name, value):
        print(f"{name:22s}" + "".join(f"{value(m):>12s}" for m in models))

    for side in order:
        row(side, lambda m: f"{median[m][side]:.3f}" if side in median[m] else "-")
    for side in order[:2]:
        row("times faster than" if side == "PyTorch" else "  ... sliced",
            lambda m: f"{median[m][side] / median[m]['invar, structured']:.2f}" if side in median[m] else "-")
    row("  dense order", lambda m: f"{median[m]['PyTorch'] / median[m]['invar, dense']:.2f}")
    for plan in ("dense", "structured"):
        row(f"GFLOP a step, {plan}", lambda m: f"{table[m][1][plan]['flops_planned'] / 1e9:.3f}")
        row("  share of FMA peak", lambda m: f"{100 * table[m][1][plan]['peak_share']:.1f}%")
    row("resident, MB", lambda m: f"{table[m][1]['structured']['rss_mb']:.0f}")
    print()


# ---- a whole training -----------------------------------------------------------------------------------------------

def train_torch(best):
    """Seconds of a seed: evaluated before and after training, and after every epoch. PyTorch says the time of its loop over batches
    and of everything; the difference is EPOCHS + 1 evaluations, of which the first schedule has two."""
    out = run(PYTHON, "tests/reference/markov_torch.py", "--time", "--seeds", "1", "--epochs", str(EPOCHS), env=environment(best))
    words = next(line for line in out.splitlines() if "of training" in line)
    training, everything = (float(x) for x in re.findall(r"(\d+\.\d+) s", words)[:2])
    return training + 2 * (everything - training) / (EPOCHS + 1), everything


def train_invar(work):
    steps, seconds = (3000 + 63) // 64 * EPOCHS, []
    for every in (steps, 0):
        out = tempfile.mkdtemp(dir=work)
        run(INVAR, "train", "jobs/markov-cores.yaml", "-o", out, "--quiet", *(f"--set={s}" for s in (
            "seeds=1", f"train.epochs={EPOCHS}", "train.eval_sequences=0", f"train.eval_every={every}", "probe.ace.layer=0")))
        import netCDF4
        with netCDF4.Dataset(glob.glob(out + "/tiles/*.nc")[0]) as f:
            seconds.append(float(f["wall_time"][0]))
    return tuple(seconds)


def bench_training(work):
    times = {}
    for _ in range(ROUNDS):
        times.setdefault("PyTorch", []).append(train_torch(True))
        times.setdefault("invar", []).append(train_invar(work))
    times["PyTorch, plain environment"] = [train_torch(False)]
    median = {side: [statistics.median(column) for column in zip(*values)] for side, values in times.items()}
    print(f"{'seconds a seed of ' + str(EPOCHS) + ' epochs':32s} {'training':>12s} {'every epoch':>12s}")
    for side, values in median.items():
        print(f"{side:32s} " + " ".join(f"{v:12.3f}" for v in values))
    for side in ("PyTorch", "PyTorch, plain environment"):
        print(f"{'times faster than ' + side:32s} " + " ".join(f"{a / b:12.2f}" for a, b in zip(median[side], median["invar"])))


def main():
    what = os.environ.get("WHAT", " ".join(MODELS) + " training").split()
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()) if os.path.exists("/proc/cpuinfo") else None
    version = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    print(f"{cpu.group(1) if cpu else 'processor unknown'}; {run(INVAR, 'version').splitlines()[0]}; PyTorch {version}; "
          f"{' '.join(PIN)}, load {os.getloadavg()[0]:.2f}; medians of {ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as work:
        models = [m for m in MODELS if m in what]
        if models:
            bench_models(models, work)
        if "training" in what:
            bench_training(work)


main()
