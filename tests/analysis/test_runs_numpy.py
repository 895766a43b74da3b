#!/usr/bin/python3
"""runs.nc and phase_map.nc against numpy, from the records that test_runs prints beside them."""
import os
import subprocess
import sys
import warnings

import netCDF4
import numpy as np
import xarray

DIR, BUILD = os.environ["TMPDIR"], os.environ["BUILD"]
CURVES = ["loss_train", "loss_test", "accuracy_train_curve", "accuracy_test_curve"]
SCALARS = ["steps", "last_finite_step", "wall_time", "restarts", "accuracy_train", "accuracy_test", "loss_train_final",
           "loss_test_final"]
PROBE = ["core_dim", "core_rank", "core_sufficient_dim", "core_necessary_dim", "accuracy_full", "accuracy_core_only",
         "accuracy_core_removed", "operator_r2", "operator_r2_oracle_ratio"]
failures = 0


def check(name, good, detail=""):
    global failures
    failures += not good
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    if not good:
        print(detail, file=sys.stderr)


def records(folder):
    """{run: {"outcome": .., scalars, "point": rows, "probe": [{..}, ..]}}"""
    found, run = {}, None
    with open(os.path.join(DIR, folder, "records.txt"), encoding="ascii") as f:
        for line in f:
            key, *values = line.split()
            if key == "run":
                run = found[int(values[0])] = {"point": [], "probe": []}
            elif key == "point":
                run["point"].append([float(v) for v in values])
            elif key == "probe":
                run["probe"].append({"core_weight": [], "eigenvalue": []})
            elif key == "core_weight":
                run["probe"][-1][key].append(float(values[0]))
            elif key == "eigenvalue":
                run["probe"][-1][key].append([float(v) for v in values])
            elif key in PROBE:
                run["probe"][-1][key] = float(values[0])
            else:
                run[key] = float(values[0])
    return found


def load(folder, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xarray.open_dataset(os.path.join(DIR, folder, name)) as d:
            return d.load()


def same(got, expected):
    """Equal bit for bit where finite; what is not finite is missing."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float).copy()
    expected[~np.isfinite(expected)] = np.nan
    return got.shape == expected.shape and np.array_equal(got, expected, equal_nan=True)


def expect(shape):
    return np.full(shape, np.nan)


def dimension(name, value):
    return np.nan if name.startswith("core_") and value < 0 else value


def check_runs(folder):
    d, r = load(folder, "runs.nc"), records(folder)
    n = d.sizes["run"]
    for name in ["outcome"] + SCALARS:
        x = expect(n)
        for run in r:
            x[run] = r[run][name]
        check(f"runs_{folder}_{name}", same(d[name], x), (d[name].values, x))
    for name in PROBE:
        x = expect(n)
        for run in r:
            if r[run]["probe"]:
                x[run] = dimension(name, r[run]["probe"][-1][name])
        check(f"runs_{folder}_{name}", same(d[name], x), (d[name].values, x))
    steps = sorted({p[0] for run in r.values() for p in run["point"]})
    check(f"runs_{folder}_step", same(d["step"], steps))
    for k, name in enumerate(CURVES):
        x = expect((n, len(steps)))
        for run in r:
            for p in r[run]["point"]:
                x[run, steps.index(p[0])] = p[1 + k]
        check(f"runs_{folder}_{name}", same(d[name], x))
    check_components(folder, d, r)
    check_coordinates(folder, d)


def check_components(folder, d, r):
    n, c = d.sizes["run"], d.sizes["component"]
    probes = d.sizes.get("probe", 1)
    weight, value, error = expect((n, probes, c)), expect((n, probes, c, 2)), expect((n, probes, c))
    last = {}
    for run in r:
        for k, p in enumerate(r[run]["probe"]):
            last[run] = k
            weight[run, k, :len(p["core_weight"])] = p["core_weight"]
            for i, e in enumerate(p["eigenvalue"]):
                value[run, k, i], error[run, k, i] = e[:2], e[2]
    for name, x in (("core_weight", weight), ("operator_eigenvalue", value), ("operator_eigenvalue_error", error)):
        final = expect(x.shape[:1] + x.shape[2:])
        for run, k in last.items():
            final[run] = x[run, k]
        check(f"runs_{folder}_{name}", same(d[name], final))
        if probes > 1:
            check(f"runs_{folder}_{name}_probe", same(d[f"{name}_probe"], x))
    if probes > 1:
        for name in PROBE:
            x = expect((n, probes))
            for run in r:
                for k, p in enumerate(r[run]["probe"]):
                    x[run, k] = dimension(name, p[name])
            check(f"runs_{folder}_{name}_probe", same(d[f"{name}_probe"], x))


def check_coordinates(folder, d):
    check(f"runs_{folder}_seed", "seed" in d["loss_test"].coords and d["seed"].dims == ("run",))
    words = d["outcome"].attrs["flag_meanings"].split()
    check(f"runs_{folder}_outcome_words", words == ["DONE", "DIVERGED", "UNFINISHED", "FAILED"])
    check(f"runs_{folder}_ids", len(set(d["run_id"].values.tolist())) == d.sizes["run"])


def check_map(folder):
    """Mean, deviation and count of every scalar of runs.nc by numpy, grouped by the axes' coordinates of runs.nc."""
    runs, grid = load(folder, "runs.nc"), load(folder, "phase_map.nc")
    axes = list(grid["outcome"].dims)
    place = [np.searchsorted(grid[a].values, runs[a].values) for a in axes]
    for k, a in enumerate(axes):
        check(f"map_{folder}_{a}_ascends", bool(np.all(np.diff(grid[a].values) > 0)))
        check(f"map_{folder}_{a}_matches", np.array_equal(grid[a].values[place[k]], runs[a].values))
    shape = grid["outcome"].shape
    skip = set(axes) | {"run", "seed", "outcome"}
    scalars = [n for n in runs.variables if runs[n].dims == ("run",) and n not in skip and runs[n].dtype.kind == "f"]
    check(f"map_{folder}_has_all_scalars", len(scalars) >= len(SCALARS) + len(PROBE), scalars)
    for name in scalars:
        mean, std, count = expect(shape), expect(shape), np.zeros(shape)
        for point in np.ndindex(shape):
            x = runs[name].values[np.all([place[k] == point[k] for k in range(len(axes))], axis=0)]
            x = x[np.isfinite(x)]
            count[point] = len(x)
            if len(x) > 0:
                mean[point] = np.mean(x.astype(np.longdouble))
            if len(x) > 1:
                std[point] = np.std(x.astype(np.longdouble), ddof=1)
        good = same(grid[f"{name}_count"], count)
        good &= np.allclose(grid[f"{name}_mean"], mean, rtol=4e-16, atol=0, equal_nan=True)
        # what rounding of the mean costs the deviation: eps |mean|
        scale = 1e-15 * np.nanmax(np.abs(mean)) if np.isfinite(mean).any() else 0
        good &= np.allclose(grid[f"{name}_std"], std, rtol=1e-14, atol=scale, equal_nan=True)
        check(f"map_{folder}_{name}", good, (grid[f"{name}_mean"].values, mean, grid[f"{name}_std"].values, std))


def check_raw(folder, name):
    """Missing runs are _FillValue in the file itself, and no NaN is stored."""
    with netCDF4.Dataset(os.path.join(DIR, folder, name)) as f:
        f.set_auto_maskandscale(False)
        bad = [n for n, v in f.variables.items() if v.dtype.kind == "f" and np.isnan(v[...]).any()]
        check(f"raw_{folder}_{name}_no_nan", not bad, bad)
        if name == "runs.nc":
            fill = f["outcome"].getncattr("_FillValue")
            check(f"raw_{folder}_missing_outcome", np.count_nonzero(f["outcome"][...] == fill) == 2)


made = subprocess.run([os.path.join(BUILD, "tests/analysis/test_runs")], capture_output=True, text=True, check=False)
check("runs_are_made", made.returncode == 0, made.stdout + made.stderr)
if made.returncode == 0:
    check_runs("plain")
    check_runs("probes")
    check_runs("map")
    check_map("map")
    check_map("truth")
    check_map("empty")
    check_raw("plain", "runs.nc")
    check_raw("map", "phase_map.nc")
sys.exit(failures != 0)
