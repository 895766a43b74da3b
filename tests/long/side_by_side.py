#!/usr/bin/env python3
"""Sets what markov_torch.py found beside a finished folder of the same job: side_by_side.py FIGURES.json DIR.

Prints both tables, then "ok NAME" or "not ok NAME" for what must agree: the core's dimension, the accuracies within 0.01 and
the complex pair of eigenvalues within 1 %. The streams differ, so it is means over seeds that are compared.
"""
import json
import sys

import numpy as np
import xarray

failed = False


def check(name, good, *values):
    global failed
    failed |= not good
    print(f"{'ok' if good else 'not ok'} {name} ({' against '.join(map(str, values))})")


def table(title, rows):
    print(f"\n{title}\n{'seed':>5s} {'core':>5s} {'accuracy':>9s} {'core only':>10s} {'removed':>8s} {'R2 ratio':>9s}  "
          "eigenvalues")
    for r in rows:
        print(f"{r['seed']:5d} {r['core_dim']:5d} {r['accuracy']:9.4f} {r['accuracy_core_only']:10.4f} "
              f"{r['accuracy_core_removed']:8.4f} {r['operator_r2_oracle_ratio']:9.4f}  "
              + ", ".join(f"{z.real:.4f}{z.imag:+.4f}i" for z in r["eigenvalue"]))


def of_torch(path):
    with open(path, encoding="utf-8") as f:
        figures = json.load(f)
    for r in figures["runs"]:
        r["eigenvalue"] = [complex(*z) for z in r["operator_eigenvalue"]]
    low = [min(p["canonical_correlation"]) for p in figures["pairs"]]
    return figures["runs"], low, [p["projector_overlap"] for p in figures["pairs"]]


def of_invar(folder):
    with xarray.open_dataset(folder + "/runs.nc") as f, xarray.open_dataset(folder + "/cross_run.nc") as g:
        runs, pairs = f.load(), g.load()
    rows = []
    for i in range(runs.sizes["run"]):
        one = runs.isel(run=i)
        parts = one.operator_eigenvalue.values
        row = {name: float(one[name]) for name in ("accuracy_core_only", "accuracy_core_removed", "operator_r2_oracle_ratio")}
        row.update(seed=int(one.seed), core_dim=int(one.core_dim), accuracy=float(one.accuracy_full),
                   eigenvalue=[complex(*z) for z in parts[np.isfinite(parts[:, 0])]])
        rows.append(row)
    a, b = np.triu_indices(len(rows), 1)
    return rows, pairs.canonical_correlation.values[a, b].min(1).tolist(), pairs.projector_overlap.values[a, b].tolist()


def pair(rows):
    """The mean over seeds of the leading eigenvalue above the real axis."""
    return np.mean([max((z for z in r["eigenvalue"] if z.imag >= 0), key=abs) for r in rows])


def main():
    theirs, their_low, their_overlap = of_torch(sys.argv[1])
    ours, low, overlap = of_invar(sys.argv[2])
    table("PyTorch", theirs)
    table("invar", ours)
    for title, x, y in (("smallest canonical correlations", their_low, low), ("projector overlaps", their_overlap, overlap)):
        print(f"{title}: PyTorch {', '.join(f'{v:.4f}' for v in x)}; invar {', '.join(f'{v:.4f}' for v in y)}")
    print()
    check("as_many_seeds", len(theirs) == len(ours) > 1, len(theirs), len(ours))
    dims = [sorted({r["core_dim"] for r in rows}) for rows in (theirs, ours)]
    check("core_dimensions", dims[0] == dims[1], *dims)
    for name in ("accuracy", "accuracy_core_only"):
        x, y = (np.mean([r[name] for r in rows]) for rows in (theirs, ours))
        check(name, abs(x - y) <= 0.01, f"{x:.4f}", f"{y:.4f}")
    x, y = pair(theirs), pair(ours)
    check("complex_pair", abs(x - y) <= 0.01 * abs(x), f"{x:.4f}", f"{y:.4f}")
    sys.exit(failed)


main()
