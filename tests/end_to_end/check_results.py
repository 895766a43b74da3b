#!/usr/bin/env python3
"""Looks at a finished output folder as its user would, with xarray and the standard library alone.

    check_results.py open DIR            xarray and ncdump open every NetCDF file
    check_results.py contents DIR        runs.nc and cross_run.nc hold what is promised, on the promised dimensions
    check_results.py claims DIR JOB      report.html judges every claim of the job, as the files say
    check_results.py page DIR            report.html is well-formed, needs no other file and shows every figure
    check_results.py map DIR AXIS...     phase_map.nc is what runs.nc says, on the axes of the job
    check_results.py same A.nc B.nc      all variables have the same bits
    check_results.py plan PLAN DIR TRAIN GATHER   memory and disk of `invar plan` against what was measured, in bytes

Ends with an assertion that says what is wrong.
"""
import glob
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import netCDF4
import numpy as np
import xarray
import yaml

RUNS = {
    "outcome": "run", "accuracy_train": "run", "accuracy_test": "run", "loss_train": "run step", "loss_test": "run step",
    "core_dim": "run", "accuracy_core_only": "run", "accuracy_core_removed": "run", "core_weight": "run component",
    "operator_eigenvalue": "run component part", "operator_r2": "run", "operator_r2_oracle_ratio": "run",
    "wall_time": "run", "seed": "run", "step": "step"}
PAIRS = {
    "canonical_correlation": "run run_other component", "canonical_correlation_heldout": "run run_other component",
    "canonical_correlation_null": "run run_other component", "canonical_correlation_null_p95": "run run_other component",
    "projector_overlap": "run run_other", "weight_cosine": "run run_other", "consensus_strength": "component",
    "accuracy_consensus_only": "run", "accuracy_consensus_removed": "run", "samples": "", "effective_rank": "run"}


def dataset(*path):
    with xarray.open_dataset(os.path.join(*path)) as f:
        return f.load()


def flags(variable):
    meaning = dict(zip(np.atleast_1d(variable.attrs["flag_values"]).tolist(), variable.attrs["flag_meanings"].split()))
    return np.vectorize(meaning.get)(variable.values)


def check_open(folder):
    paths = glob.glob(os.path.join(folder, "*.nc")) + glob.glob(os.path.join(folder, "tiles", "*.nc"))
    assert len(paths) >= 3, paths
    for path in paths:
        assert dataset(path).sizes, path
        header = subprocess.run(["ncdump", "-h", path], capture_output=True, text=True, check=True).stdout
        assert header.startswith("netcdf ") and 'Conventions = "CF-1.10' in header, path


def check_contents(folder):
    runs, pairs = dataset(folder, "runs.nc"), dataset(folder, "cross_run.nc")
    for f, expected in ((runs, RUNS), (pairs, PAIRS)):
        for name, dimensions in expected.items():
            assert name in f.variables, f"{name} is missing"
            assert f[name].dims == tuple(dimensions.split()), f"{name}{f[name].dims}, expected ({dimensions})"
            assert np.isfinite(f[name].values.astype(float)).any(), f"{name} has no value"
    assert (flags(runs.outcome) == "DONE").all(), runs.outcome
    assert sorted(runs.seed.values) == list(range(runs.sizes["run"])), runs.seed
    assert runs.seed.dims == ("run",) and "seed" in runs.coords and "seed" in pairs.coords
    assert runs.sizes["part"] == 2 and pairs.sizes["run"] == pairs.sizes["run_other"] == runs.sizes["run"]
    assert pairs.sizes["component"] == int(pairs.effective_rank.max())
    n = np.arange(pairs.sizes["run"])
    assert np.allclose(pairs.weight_cosine.values[n, n], 1, atol=1e-12), "a run is not like itself"
    # A correlation by chance is far below that of trained models, and the held-out one is no better than the fitted one.
    other = ~np.eye(len(n), dtype=bool)
    fitted, held = (pairs[v].values[other] for v in ("canonical_correlation", "canonical_correlation_heldout"))
    assert (pairs.canonical_correlation_null.values[other] < 0.1 * fitted).all(), pairs.canonical_correlation_null
    assert np.abs(fitted - held).max() < 0.05, (fitted, held)


def check_map(folder, axes):
    runs, phase = dataset(folder, "runs.nc"), dataset(folder, "phase_map.nc")
    assert phase.outcome.dims == tuple(axes), phase.outcome.dims
    found, outcome, on_map = {}, flags(runs.outcome), flags(phase.outcome)
    scalars = [n for n, v in runs.data_vars.items() if v.dims == ("run",) and v.dtype.kind in "if" and n != "outcome"]
    assert set(scalars) >= {"accuracy_test", "core_dim", "loss_test_final"}, scalars
    for point in np.ndindex(phase.outcome.shape):
        here = np.ones(runs.sizes["run"], bool)
        for axis, i in zip(axes, point):
            here &= runs[axis].values == phase[axis].values[i]
        words, counts = np.unique(outcome[here], return_counts=True)
        assert here.sum() == phase.runs.values[point] and here.sum() > 1, (point, here.sum())
        assert on_map[point] in words[counts == counts.max()], (point, on_map[point], words)
        assert np.isclose(phase.outcome_share.values[point], counts.max() / here.sum(), rtol=1e-14), point
        found[point] = on_map[point]
        for name in scalars:
            x = runs[name].values[here]
            x = x[np.isfinite(x)]
            mean, std, count = (phase[f"{name}_{part}"].values[point] for part in ("mean", "std", "count"))
            assert count == len(x), (point, name, count, x)
            assert np.isclose(mean, x.mean(), rtol=1e-12) if len(x) else np.isnan(mean), (point, name, mean, x)
            assert np.isclose(std, x.std(ddof=1), rtol=1e-9, atol=1e-12 * abs(mean)) if len(x) > 1 else np.isnan(std), \
                (point, name, std, x)
    assert {"DONE", "DIVERGED"} <= set(found.values()), found


def page_of(folder):
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as f:
        doctype, rest = f.read().split("\n", 1)
    assert doctype == "<!DOCTYPE html>", doctype
    return rest, xml.fromstring(rest)


def check_page(folder):
    text, page = page_of(folder)
    for element in page.iter():
        tag = element.tag.split("}")[-1]
        assert tag not in ("script", "link", "iframe", "object", "embed"), tag
        for name, value in element.attrib.items():
            resource = name.split("}")[-1] in ("src", "srcset", "data") or tag in ("use", "image") and name.endswith("href")
            assert not resource or value.startswith(("#", "data:")), f"{tag} {name}={value}"
    assert not re.search(r"@import|url\((?!#)", text), "a style sheet asks for another file"
    drawn = sorted(glob.glob(os.path.join(folder, "figures", "*.svg")))
    shown = {f.get("id"): f for f in page.iter("figure")}
    assert sorted(shown) == [os.path.basename(path)[:-4] for path in drawn] and len(drawn) >= 7, (sorted(shown), drawn)
    for path in drawn:
        name, svg = os.path.basename(path)[:-4], xml.parse(path).getroot()
        assert svg.tag.endswith("}svg") and shown[name].find(".//" + svg.tag) is not None, f"{name} has no picture"
        with open(path[:-4] + ".png", "rb") as f:
            assert f.read(8) == b"\x89PNG\r\n\x1a\n", f"{name}.png"


def check_claims(folder, job):
    with open(job, encoding="utf-8") as f:
        expected = [claim["that"] for claim in yaml.safe_load(f)["claims"]]
    rows = [["".join(cell.itertext()) for cell in row] for row in page_of(folder)[1].iter("tr")]
    verdict = {row[1]: row[0] for row in rows if len(row) == 5}
    assert expected and list(verdict)[1:] == expected, (verdict, expected)
    runs, pairs = dataset(folder, "runs.nc"), dataset(folder, "cross_run.nc")
    other = ~np.eye(runs.sizes["run"], dtype=bool)
    true = {"core_dim == 3": (runs.core_dim == 3).all(),
            "0.745 <= accuracy_core_only <= 0.755": (abs(runs.accuracy_core_only - 0.75) <= 0.005).all(),
            "min(canonical_correlation) >= 0.9": np.nanmin(pairs.canonical_correlation.values[other]) >= 0.9,
            "max(projector_overlap) >= 0.9": np.nanmax(pairs.projector_overlap.values[other]) >= 0.9}
    assert set(true) <= set(expected) and len(set(map(bool, true.values()))) == 2, true
    for claim, holds in true.items():
        assert verdict[claim] == ("holds" if holds else "fails"), (claim, verdict[claim], bool(holds))


def check_same(a, b):
    with netCDF4.Dataset(a) as x, netCDF4.Dataset(b) as y:
        for f in (x, y):
            f.set_auto_maskandscale(False)
            f.set_auto_chartostring(False)
        assert list(x.variables) == list(y.variables) and len(x.variables) > 20, set(x.variables) ^ set(y.variables)
        for name in x.variables:
            assert x[name].dtype == y[name].dtype and x[name].shape == y[name].shape, name
            assert x[name][...].tobytes() == y[name][...].tobytes(), f"{name} differs"


def check_plan(plan, folder, train, gather):
    unit = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    with open(plan, encoding="utf-8") as f:
        text = f.read()
    rank, both, disk = (float(x) * unit[u] for x, u in re.findall(
        r"(?:^memory +|gather |^disk +)([0-9.]+) (kB|MB|GB)", text, flags=re.MULTILINE))
    used = int(subprocess.run(["du", "-s", "--block-size=1", folder], capture_output=True, text=True,
                              check=True).stdout.split()[0])
    for name, estimate, measured in (("training", rank, int(train)), ("gather", both, int(gather))):
        print(f"{name}: {estimate / 1e6:.1f} MB estimated, {measured / 1e6:.1f} MB measured")
        assert measured <= estimate <= 2 * measured, name
    print(f"disk: {disk / 1e6:.1f} MB estimated, {used / 1e6:.1f} MB used")
    assert 0.5 * used <= disk <= 2 * used


CHECKS = {"open": check_open, "contents": check_contents, "page": check_page, "claims": check_claims, "same": check_same,
          "plan": check_plan, "map": lambda folder, *axes: check_map(folder, axes)}
CHECKS[sys.argv[1]](*sys.argv[2:])
