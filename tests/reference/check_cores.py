#!/usr/bin/python3
"""Recomputes in numpy, from the tiles of a finished store, what runs.nc and cross_run.nc say of it.

    check_cores.py DIR

From the core coordinates, core bases and weights of DIR/tiles/*.nc (format: top of src/store/tile.c) come canonical
correlations, projector overlaps, weight cosines and the consensus, and each run's operator with eigenvalues and R2.
Prints a line "ok NAME" or "not ok NAME" for each; exit 1 when one differs by more than 1e-10, or when there is nothing
to compare.
"""
import glob
import os
import sys

import netCDF4
import numpy as np
import yaml
from scipy.linalg import qr

TOLERANCE = 1e-10
DONE = "DONE"
COORDINATES_BIT = 6                  # of probe_arrays: the place of core_coordinates in the table of arrays
failed = False


class Worst:
    """The largest difference of a quantity over all runs or pairs, and how many values were compared."""

    def __init__(self, name):
        self.name, self.count, self.largest, self.where = name, 0, 0.0, ""

    def compare(self, where, got, expected):
        got, expected = np.asarray(got, float), np.asarray(expected, float)
        difference = np.max(np.abs(got - expected), initial=0.0) if got.shape == expected.shape else np.inf
        self.count += expected.size
        if not difference <= self.largest:
            self.largest, self.where = difference, f"{where}: {got.tolist()}, expected {expected.tolist()}"

    def report(self):
        global failed
        good = self.count > 0 and self.largest <= TOLERANCE
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {self.name} ({self.count} values, largest difference {self.largest:.2g})")
        if not good:
            print(f"  {self.where or 'nothing to compare'}")


def numbers(f, name, index=...):
    """Values with NaN where they are missing."""
    values = np.ma.asarray(f[name][index])
    return np.ma.filled(values.astype(float), np.nan)


def words(f, name):
    """The texts of a char variable: one, or one a row."""
    f[name].set_auto_chartostring(False)
    rows = np.atleast_2d(np.ma.filled(f[name][:], b"\0"))
    return [row.tobytes().rstrip(b"\0").decode() for row in rows]


def flags(f, name):
    """Values of a CF flag variable as words."""
    meaning = dict(zip(np.atleast_1d(f[name].flag_values).tolist(), f[name].flag_meanings.split()))
    return [meaning.get(v) for v in np.ma.filled(f[name][:], -1).tolist()]


# ---- what the tiles hold --------------------------------------------------------------------------------------------

def weights(f, i):
    name = "weights_float64" if f["element_size"][i] == 8 else "weights"
    tensors = int(f["tensors"][i])
    shape = [tuple(row) for row in zip(f["tensor_rows"][i, :tensors].tolist(), f["tensor_cols"][i, :tensors].tolist())]
    return shape, np.ma.getdata(f[name][i, :sum(rows * cols for rows, cols in shape)]).astype(float)


def read_run(f, i):
    """The last probe of a DONE run that kept core coordinates; None for others."""
    probes = int(f["probes"][i])
    if flags(f, "outcome")[i] != DONE or probes == 0:
        return None
    p = probes - 1
    rank, samples = int(f["probe_rank"][i, p]), int(f["probe_samples"][i, p])
    if not int(f["probe_arrays"][i, p]) >> COORDINATES_BIT & 1:
        return None
    run = {"z": np.ma.getdata(f["core_coordinates"][i, p, :samples, :rank]),
           "q": np.ma.getdata(f["core_basis"][i, p, :int(f["probe_width"][i, p]), :rank]),
           "weight": np.ma.getdata(f["core_weight"][i, p, :int(f["probe_width"][i, p])]),
           "operator": int(f["probe_operator_rank"][i, p]) > 0}
    run["shape"], run["w"] = weights(f, i)
    finite = all(np.isfinite(run[k]).all() for k in "zqw")
    return run if finite and np.ptp(run["z"], axis=0).max(initial=0.0) > 0 else None


def read_tiles(directory):
    runs, positions, tolerance = {}, None, None
    for path in sorted(glob.glob(os.path.join(directory, "tiles", "*.nc"))):
        with netCDF4.Dataset(path) as f:
            job = yaml.safe_load(words(f, "job")[0])
            positions = int(job["task"]["length"]) - 1
            tolerance = float(job["gather"]["cca"]["rank_tolerance"])
            for i, name in enumerate(words(f, "run_id")):
                run = read_run(f, i)
                if run:
                    runs[name] = run
    return runs, positions, tolerance


# ---- the same quantities again --------------------------------------------------------------------------------------

def sample_basis(z, tolerance):
    """Orthonormal basis of the centred columns, without directions below `tolerance` of the largest."""
    q, r, _ = qr(z - z.mean(0), mode="economic", pivoting=True)
    u, s, _ = np.linalg.svd(r)
    return q @ u[:, s > tolerance * s[0]]


def operator(z, positions):
    z = z.reshape(-1, positions, z.shape[1])
    x, y = (part.reshape(-1, z.shape[2]) for part in (z[:, :-1], z[:, 1:]))
    x, y = x - x.mean(0), y - y.mean(0)
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    r2 = np.mean(1 - ((y - x @ solution) ** 2).sum(0) / (y ** 2).sum(0))
    return np.linalg.eigvals(solution), r2


def in_order_of(values, reference):
    """values, each where its nearest partner of `reference` stands."""
    left, ordered = list(values), []
    for r in reference:
        ordered.append(left.pop(int(np.argmin(np.abs(np.array(left) - r)))))
    return np.array(ordered)


def check_runs(directory, runs, positions):
    bases, weight = Worst("core_bases_are_orthonormal"), Worst("core_weights_are_those_of_the_tiles")
    eigenvalues, r2 = Worst("operator_eigenvalue"), Worst("operator_r2")
    order = Worst("operator_eigenvalues_are_in_order")
    with netCDF4.Dataset(os.path.join(directory, "runs.nc")) as f:
        for i, name in enumerate(words(f, "run_id")):
            run = runs.get(name)
            if not run:
                continue
            bases.compare(name, run["q"].T @ run["q"], np.eye(run["q"].shape[1]))
            weight.compare(name, numbers(f, "core_weight", i)[:len(run["weight"])], run["weight"])
            if not run["operator"]:
                continue
            parts = numbers(f, "operator_eigenvalue", i)
            stored = parts[~np.isnan(parts[:, 0])] @ [1, 1j]
            expected, expected_r2 = operator(run["z"], positions)
            r2.compare(name, numbers(f, "operator_r2")[i], expected_r2)
            if len(stored) != len(expected):
                eigenvalues.compare(name, len(stored), len(expected))
                continue
            expected = in_order_of(expected, stored)
            eigenvalues.compare(name, np.append(stored.real, stored.imag), np.append(expected.real, expected.imag))
            order.compare(name, np.maximum(np.diff(np.abs(stored)), 0), np.zeros(len(stored) - 1))
    for quantity in (bases, weight, eigenvalues, r2) + ((order,) if order.count else ()):
        quantity.report()


def check_pairs(directory, runs, names, tolerance):
    """names: id of each run of the job, by its number."""
    correlation, overlap = Worst("canonical_correlation"), Worst("projector_overlap")
    cosine, symmetric, consensus = Worst("weight_cosine"), Worst("pairs_are_symmetric"), Worst("consensus_strength")
    with netCDF4.Dataset(os.path.join(directory, "cross_run.nc")) as f:
        number = f["run"][:].tolist() if "run" in f.variables else range(len(f.dimensions["run"]))
        present = [(i, names[k]) for i, k in enumerate(number) if names[k] in runs]
        table = {name: numbers(f, name) for name in ("canonical_correlation", "projector_overlap", "weight_cosine")}
        strength = numbers(f, "consensus_strength")
    basis = {name: sample_basis(runs[name]["z"], tolerance) for _, name in present}
    for i, a in present:
        for j, b in present:
            where, run, other = f"{a} and {b}", runs[a], runs[b]
            expected = np.linalg.svd(basis[a].T @ basis[b], compute_uv=False)
            correlation.compare(where, table["canonical_correlation"][i, j][:len(expected)], expected)
            square = np.linalg.norm(run["q"].T @ other["q"]) ** 2
            overlap.compare(where, table["projector_overlap"][i, j],
                            square / np.sqrt(run["q"].shape[1] * other["q"].shape[1]))
            if run["shape"] == other["shape"]:
                norms = np.linalg.norm(run["w"]) * np.linalg.norm(other["w"])
                cosine.compare(where, table["weight_cosine"][i, j], run["w"] @ other["w"] / norms)
            for values in table.values():
                symmetric.compare(where, np.nan_to_num(values[i, j]), np.nan_to_num(values[j, i]))
    if basis:
        singular = np.linalg.svd(np.hstack(list(basis.values())), compute_uv=False)
        consensus.compare("all runs", strength, singular[:len(strength)] ** 2 / len(basis))
    for quantity in (correlation, overlap, cosine, symmetric, consensus):
        quantity.report()


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_cores.py DIR")
    directory = sys.argv[1]
    runs, positions, tolerance = read_tiles(directory)
    with netCDF4.Dataset(os.path.join(directory, "runs.nc")) as f:
        names = words(f, "run_id")
    check_runs(directory, runs, positions)
    check_pairs(directory, runs, names, tolerance)
    sys.exit(failed)


if __name__ == "__main__":
    main()
