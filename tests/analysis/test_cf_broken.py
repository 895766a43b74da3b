#!/usr/bin/python3
"""cf_check.py must be able to fail: one good file, then the same file broken in one way at a time."""
import os
import subprocess
import sys

import netCDF4
import numpy as np

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CHECKER = os.path.join(TESTS, "cf_check.py")
sys.path.insert(0, TESTS)
import cf_check     # noqa: E402  (one process for all the files)

DIR = os.environ.get("TMPDIR", "/tmp")
FILL = 9.969209968386869e36


def write(path, change=None):
    """A small file by all the rules; change(f) breaks it."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as f:
        f.Conventions, f.title, f.history, f.source = "CF-1.10", "a title", "now: by hand", "a test"
        f.createDimension("run", 3)
        f.createDimension("component", 2)
        f.createDimension("id_length", 4)
        run = f.createVariable("run", "i4", ("run",))
        run[:] = [0, 1, 2]
        run.units, run.long_name = "1", "number of the run"
        loss = f.createVariable("loss", "f8", ("run",), fill_value=FILL)
        loss[:] = [0.5, 0.25, FILL]
        loss.units, loss.long_name, loss.coordinates = "1", "loss", "seed"
        seed = f.createVariable("seed", "i8", ("run",), fill_value=-1)
        seed[:] = [4, 5, 6]
        seed.units, seed.long_name = "1", "seed"
        outcome = f.createVariable("outcome", "i4", ("run",), fill_value=-2147483647)
        outcome[:] = [0, 1, 1]
        outcome.units, outcome.long_name = "1", "outcome"
        outcome.flag_values = np.array([0, 1], dtype="i4")
        outcome.flag_meanings = "DONE DIVERGED"
        ident = f.createVariable("id", "S1", ("run", "id_length"))
        ident[:] = np.full((3, 4), b"a")
        ident.long_name = "id"
        if change:
            change(f)


def rename_units(units):
    def change(f):
        f["loss"].units = units
    return change


def extra(name, kind, dims, fill=None, **attributes):
    def change(f):
        v = f.createVariable(name, kind, dims, fill_value=fill)
        v[...] = np.zeros(v.shape, dtype=kind)
        for key, value in attributes.items():
            v.setncattr(key, value)
    return change


def put(name, values):
    def change(f):
        f.set_auto_maskandscale(False)
        f[name][:] = values
    return change


def attribute(name, key, value):
    def change(f):
        (f[name] if name else f).setncattr(key, value)
    return change


def drop(name, key):
    def change(f):
        (f[name] if name else f).delncattr(key)
    return change


BROKEN = [      # name, change, part of the complaint
    ("conventions", attribute(None, "Conventions", "CF-1.6"), "not CF-1.10"),
    ("no_title", drop(None, "title"), "no global attribute title"),
    ("no_long_name", drop("loss", "long_name"), "neither long_name"),
    ("no_units", drop("loss", "units"), "loss: has no units"),
    ("unparsable_units", rename_units("furlongs"), "cannot be parsed"),
    ("timedelta_units", rename_units("seconds"), "time differences"),
    ("missing_value", attribute("loss", "missing_value", -1.0), "missing_value"),
    ("no_fill", extra("extra", "f8", ("run",), False, units="1", long_name="x"), "extra: has no _FillValue"),
    ("fill_on_coordinate", extra("component", "i4", ("component",), -1, units="1", long_name="x"),
     "is a coordinate and has a _FillValue"),
    ("not_monotonic", put("run", [0, 2, 1]), "not monotonic"),
    ("repeated_coordinate", put("run", [0, 1, 1]), "not monotonic"),
    ("nan_stored", put("loss", [0.5, np.nan, 1]), "stores NaN"),
    ("flag_type", attribute("outcome", "flag_values", np.array([0, 1], dtype="i2")), "flag_values have type"),
    ("flag_count", attribute("outcome", "flag_meanings", "DONE"), "2 flag_values and 1 flag_meanings"),
    ("flag_alone", drop("outcome", "flag_meanings"), "only one of"),
    ("flag_twice", attribute("outcome", "flag_meanings", "DONE DONE"), "a flag twice"),
    ("flag_word", attribute("outcome", "flag_meanings", "DONE what?"), "is not allowed"),
    ("flag_stranger", put("outcome", [0, 1, 7]), "[7] are no flag"),
    ("coordinate_absent", attribute("loss", "coordinates", "seed nowhere"), '"nowhere", which is not there'),
    ("coordinate_dimensions", lambda f: (extra("wide", "f8", ("run", "component"), FILL, units="1", long_name="x")(f),
                                         attribute("loss", "coordinates", "wide")(f)), "has dimensions"),
    ("two_dimensional_coordinate", extra("component", "f8", ("run", "component"), FILL, units="1", long_name="x"),
     "several dimensions and the name of one"),
    ("illegal_name", extra("train.lr", "f8", ("run",), FILL, units="1", long_name="x"), "is no legal name"),
    ("case_twin", extra("Loss", "f8", ("run",), FILL, units="1", long_name="x"), "differ only in case"),
    ("long_attribute", attribute("loss", "comment", "x" * 5000), "has 5000 characters"),
    ("text_type", extra("words", str, ("run",), units="1", long_name="x"), "is not allowed"),
    ("groups", lambda f: f.createGroup("inner"), "has groups"),
]


def complaints(path, allow_nan=False):
    check = cf_check.Check(path, allow_nan)
    check.run()
    return check.complaints


def program(path):
    return subprocess.run([sys.executable, CHECKER, path], capture_output=True, text=True, check=False)


def report(name, good, detail):
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    if not good:
        print(detail, file=sys.stderr)
    return not good


def main():
    path, failed = os.path.join(DIR, "good.nc"), 0
    write(path)
    done = program(path)
    failed += report("cf_good_file", done.returncode == 0 and done.stdout.startswith("ok cf "), done.stdout + done.stderr)
    for name, change, complaint in BROKEN:
        path = os.path.join(DIR, f"{name}.nc")
        write(path, change)
        said = "\n".join(complaints(path))
        failed += report(f"cf_finds_{name}", complaint in said, f"no \"{complaint}\" in: {said}")
    path = os.path.join(DIR, "cut.nc")
    write(path)
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) // 2)
    done = program(path)
    failed += report("cf_finds_cut_file", done.returncode == 1 and done.stdout.startswith("not ok cf ")
                     and "cannot be opened" in done.stderr, done.stdout + done.stderr)
    said = complaints(os.path.join(DIR, "nan_stored.nc"), True)
    failed += report("cf_allows_nan_on_request", not said, said)
    return 1 if failed else 0


sys.exit(main())
