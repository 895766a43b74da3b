#!/usr/bin/env python3
"""Compares the finished runs of two output folders bit for bit: same_bits.py A B [--within] [--resumed].

Every variable of every run must have the same bytes, whatever tile the run lies in; only what tells of the launch
(wall_time, restarts) or of the file (run, job, tile_id) may differ. --within: the runs of A must be among those of B;
else they must be the same runs. --resumed: a run of B must have gone on from a checkpoint. Prints what differs; exit 1.
"""
import glob
import os
import sys

import netCDF4
import numpy as np

FREE = {"wall_time", "restarts", "run", "job", "tile_id"}


class Run:
    def __init__(self, f, row):
        self.restarts = int(f["restarts"][row])
        self.values, self.fill = {}, {}
        for name, variable in f.variables.items():
            if name not in FREE:
                self.values[name] = np.asarray(variable[row] if variable.dimensions[:1] == ("run",) else variable[:])
                self.fill[name] = getattr(variable, "_FillValue", np.zeros((), variable.dtype))


def read_folder(folder):
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "tiles", "*.nc"))):
        with netCDF4.Dataset(path) as f:
            f.set_auto_maskandscale(False)
            f.set_auto_chartostring(False)
            for row, letters in enumerate(f["run_id"][:]):
                run = b"".join(letters).decode()
                assert run not in runs, f"{path}: run {run} is in two tiles"
                runs[run] = Run(f, row)
    assert runs, f"{folder}: no finished runs"
    return runs


def padded(array, shape, fill):
    """A tile has room for its largest run; smaller ones are filled up."""
    whole = np.full(shape, fill, array.dtype)
    whole[tuple(slice(0, n) for n in array.shape)] = array
    return whole


def differences(a, b):
    for name in sorted(set(a.values) ^ set(b.values)):
        yield f"{name} is only in one of them"
    for name in sorted(set(a.values) & set(b.values)):
        x, y = a.values[name], b.values[name]
        if x.ndim != y.ndim or x.dtype != y.dtype:
            yield f"{name}: {x.dtype}{x.shape} and {y.dtype}{y.shape}"
            continue
        shape = np.maximum(x.shape, y.shape)
        if padded(x, shape, a.fill[name]).tobytes() != padded(y, shape, b.fill[name]).tobytes():
            yield f"{name}: the bits differ"


def main():
    a, b = (read_folder(folder) for folder in sys.argv[1:3])
    alone = set(a) - set(b) if "--within" in sys.argv else set(a) ^ set(b)
    faults = [f"run {run} is only in one of them" for run in sorted(alone)]
    for run in sorted(set(a) & set(b)):
        faults += [f"run {run}: {d}" for d in differences(a[run], b[run])]
    if "--resumed" in sys.argv and not any(run.restarts for run in b.values()):
        faults.append("no run of the second folder went on from a checkpoint")
    print("\n".join(faults[:20]) or f"{len(a)} runs of {len(next(iter(a.values())).values)} variables: same bits")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
