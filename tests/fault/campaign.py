#!/usr/bin/env python3
"""The fault campaign: campaign.py [--rounds N] [--seed S] [--build DIR] [--keep DIR] [--only KIND ...].

Each round draws from its seed a small job, a number of ranks and some faults, and injects them into launches of the
program. Plain launches then finish the job, and the folder must hold what an unbroken launch leaves: every run once, the
same bits, no stray file, no process left over; exit codes and messages as documented. Prints a table of the faults by
kind. A round that finds something wrong keeps its folder and says how to repeat it. Round k of seed S is round 1 of seed
S + k - 1; consecutive seeds go through all kinds of faults. Exit code 1 when something was wrong.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import processes
import proof
from faults import FAULTS
from rounds import JOBS, Round, write_job

SHOWN = 6                   # findings of a round that are printed; all are in its story.txt


def can_mount(folder):
    """Whether a small disk of our own can be made."""
    place = os.path.join(folder, "mount")
    os.makedirs(place)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place],
                                           capture_output=True, check=False).returncode:
        return False
    return subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0


def make_jobs(setting, slower):
    """The jobs, each with an unbroken launch of it."""
    jobs = []
    for name, facts in JOBS.items():
        path, out = write_job(name, setting.folder, slower), os.path.join(setting.folder, "whole." + name)
        log = os.path.join(setting.folder, name + ".log")
        with open(log, "wb") as f:
            code = subprocess.run([setting.invar, "run", path, "-o", out], stdout=f, stderr=f, check=False,
                                  env={**os.environ, **processes.SETTINGS}).returncode
        if code:
            sys.exit(f"the unbroken launch of {name} ended with {code}: {processes.read(log).decode()}")
        jobs.append(SimpleNamespace(name=name, path=path, runs=facts["runs"], tiles=facts["tiles"],
                                    reference=proof.Reference(out)))
    return jobs


def draw(seed, jobs, kinds):
    """The job and the faults of a round. The first fault goes through all kinds, the others are random."""
    rng = random.Random(-1 - seed)
    more = rng.choices(kinds, k=rng.choice([0, 0, 1, 1, 2]))
    return rng.choice(jobs), [kinds[seed % len(kinds)], *more]


def play(setting, seed, jobs):
    job, faults = draw(seed, jobs, setting.kinds)
    folder = os.path.join(setting.folder, f"round.{seed}")
    os.makedirs(folder)
    r = Round(seed, job, setting, folder)
    right = r.play(faults)
    if right:
        shutil.rmtree(folder)
    return r


def show_wrong(r, setting):
    print(f"# seed {r.seed} ({r.job.name}, {'alone' if r.alone else f'{r.ranks} ranks'}; {', '.join(r.tried)}):")
    for text in r.found[:SHOWN]:
        print(f"#     {text}")
    if len(r.found) > SHOWN:
        print(f"#     and {len(r.found) - SHOWN} more")
    print(f"#     folder: {r.folder}, story.txt first")
    print(f"#     again: make check-faults N=1 SEED={r.seed}{setting.again}", flush=True)


def table(played):
    print(f"{'fault':20} {'tried':>6} {'struck':>6} {'wrong':>6}")
    total = [0, 0, 0]
    for name in [f.__name__ for f in FAULTS]:
        row = [sum(r.tried.count(name) for r in played), sum(r.struck.get(name, 0) for r in played),
               sum(name in r.tried for r in played if r.found)]
        total = [a + b for a, b in zip(total, row)]
        if row[0]:
            print(f"{name:20} {row[0]:6} {row[1]:6} {row[2]:6}")
    wrong = sum(bool(r.found) for r in played)
    print(f"{len(played)} rounds, {sum(r.launches for r in played)} launches, {total[1]} faults struck, "
          f"{sum(r.resumed for r in played)} runs went on from a checkpoint, {wrong} rounds found something wrong")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--seed", type=int, help="of the first round; default: random, printed")
    p.add_argument("--build", default="build")
    p.add_argument("--keep", help="folder of the campaign; default: a temporary one")
    p.add_argument("--only", nargs="+", metavar="KIND", help="faults of these kinds alone")
    p.add_argument("--slower", type=int, default=1, help="fewer steps, for a sanitized build")
    p.add_argument("--verbose", action="store_true", help="a line for each round")
    o = p.parse_args()
    seed = o.seed if o.seed is not None else random.SystemRandom().randrange(1000000)
    build = os.path.abspath(o.build)
    folder = os.path.abspath(o.keep) if o.keep else tempfile.mkdtemp(prefix="invar-faults.")
    os.makedirs(folder, exist_ok=True)
    # Copies: the build may go on meanwhile.
    invar, library = (shutil.copy(os.path.join(build, name), folder) for name in ("invar", "tests/fault/shim.so"))
    setting = SimpleNamespace(folder=folder, invar=invar, library=library, token=f"{os.getpid()}", began=time.monotonic(),
                              can_mount=can_mount(folder), again=f" KINDS='{' '.join(o.only)}'" if o.only else "",
                              kinds=[f for f in FAULTS if not o.only or f.__name__ in o.only])
    print(f"SEED={seed}", flush=True)
    jobs = make_jobs(setting, o.slower)
    played = []
    for k in range(o.rounds):
        began = time.monotonic()
        r = play(setting, seed + k, jobs)
        played.append(r)
        if r.found:
            show_wrong(r, setting)
        if o.verbose:
            print(f"# seed {r.seed}: {time.monotonic() - began:.1f} s, {', '.join(r.tried)}", flush=True)
    wrong = table(played)
    if not wrong and not o.keep:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
