#!/usr/bin/python3
"""Checks NetCDF files against CF-1.10 and this project's own rules, independently of the code that writes them.

    cf_check.py [--nan] FILE...

Prints "ok cf FOLDER/FILE" or "not ok cf FOLDER/FILE" for each file, and every complaint on standard error. --nan allows NaN as a
stored value. Looks at the raw file (netCDF4, masks and scaling off), at what xarray makes of it, at ncdump, and asks
`cfchecks` where it is installed.
"""
import os
import re
import shutil
import subprocess
import sys
import warnings

import netCDF4
import numpy as np
import xarray

NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")                 # CF 2.3
RESERVED = re.compile(r"^_?[A-Za-z][A-Za-z0-9_]*$")           # attributes: _FillValue, _Encoding
FLAG_WORD = re.compile(r"^[A-Za-z0-9_\-.+@]+$")               # CF 3.5
TYPES = {"i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"}
TEXT_LIMIT = 4096                                             # long texts belong into a variable

# UDUNITS names that may stand here; a quantity without a unit is "1".
UNITS = {"1", "s", "ms", "us", "min", "h", "d", "m", "km", "g", "kg", "K", "J", "W", "Hz", "byte", "bit", "percent", "%",
         "radian", "rad", "degree"}
TIMEDELTAS = {"seconds", "second", "minutes", "hours", "days", "milliseconds"}      # xarray would decode them as times


def unit_complaint(units):
    """Why this text is no unit, or None."""
    if not isinstance(units, str) or not units:
        return f"units {units!r} are no text"
    if units in TIMEDELTAS:
        return f'units "{units}" become time differences in xarray: use the symbol'
    for factor in re.split(r"[ .*/]", units):
        match = re.fullmatch(r"(1|%|[A-Za-z]+?)(?:(?:\^|\*\*)?(-?[0-9]+))?", factor)
        if not match or match.group(1) not in UNITS:
            return f'units "{units}" cannot be parsed'
    return None


class Check:
    """All complaints about one file."""

    def __init__(self, path, allow_nan):
        self.path, self.allow_nan, self.complaints = path, allow_nan, []

    def say(self, text, variable=None):
        self.complaints.append(f"{variable.name}: {text}" if variable is not None else text)

    def run(self):
        try:
            with netCDF4.Dataset(self.path) as f:
                f.set_auto_maskandscale(False)
                f.set_auto_chartostring(False)
                self.globals(f)
                for variable in f.variables.values():
                    self.variable(f, variable)
        except OSError as error:
            self.say(f"cannot be opened: {error}")
            return
        self.xarray()
        self.ncdump()
        self.cfchecks()

    # ---- the raw file ----

    def globals(self, f):
        conventions = getattr(f, "Conventions", "")
        if "CF-1.10" not in re.split(r"[ ,]+", conventions):
            self.say(f'Conventions are "{conventions}", not CF-1.10')
        for name in ("title", "history", "source"):
            if not getattr(f, name, ""):
                self.say(f"no global attribute {name}")
        if f.groups:
            self.say("has groups")
        self.attributes(f, None)
        for name in f.dimensions:
            if not NAME.match(name):
                self.say(f'dimension "{name}" is no legal name')
        lower = [name.lower() for name in f.variables]
        for name in {n for n in lower if lower.count(n) > 1}:
            self.say(f'variables differ only in case: "{name}"')

    def attributes(self, owner, variable):
        for name in owner.ncattrs():
            value = owner.getncattr(name)
            if not RESERVED.match(name):
                self.say(f'attribute "{name}" is no legal name', variable)
            if isinstance(value, str) and len(value) > TEXT_LIMIT:
                self.say(f'attribute "{name}" has {len(value)} characters', variable)
            if isinstance(value, (float, np.floating, np.ndarray)) and name != "_FillValue" and np.any(
                    np.isnan(np.asarray(value, dtype=float))):
                self.say(f'attribute "{name}" is NaN', variable)

    def variable(self, f, v):
        if not NAME.match(v.name):
            self.say("is no legal name", v)
        self.attributes(v, v)
        is_text = v.dtype is str or v.dtype.kind == "S"
        if v.dtype is str or v.dtype.str[1:] not in TYPES:
            self.say(f"type {v.dtype} is not allowed", v)
            return
        if len(set(v.dimensions)) != len(v.dimensions):
            self.say("has a dimension twice", v)
        if not getattr(v, "long_name", "") and not getattr(v, "standard_name", ""):
            self.say("has neither long_name nor standard_name", v)
        if not is_text:
            self.units(v)
            self.fill(v)
            self.flags(v)
        self.coordinates(f, v)
        if v.name in v.dimensions:
            self.coordinate_variable(v)

    def units(self, v):
        if "units" not in v.ncattrs():
            if "flag_values" not in v.ncattrs():
                self.say("has no units", v)
            return
        complaint = unit_complaint(v.units)
        if complaint:
            self.say(complaint, v)

    def fill(self, v):
        is_coordinate = v.dimensions == (v.name,)
        if "missing_value" in v.ncattrs():
            self.say("has missing_value (beside _FillValue it misleads readers)", v)
        if "_FillValue" in v.ncattrs():
            value = np.asarray(v.getncattr("_FillValue"))
            if is_coordinate:
                self.say("is a coordinate and has a _FillValue", v)
            if value.dtype != v.dtype:
                self.say(f"_FillValue has type {value.dtype}, the variable {v.dtype}", v)
        elif not is_coordinate and v.dimensions:
            self.say("has no _FillValue", v)
        if v.dtype.kind == "f" and not self.allow_nan and np.isnan(v[...]).any():
            self.say("stores NaN instead of its _FillValue", v)

    def flags(self, v):
        names = v.ncattrs()
        if "flag_values" not in names and "flag_meanings" not in names:
            return
        if "flag_values" not in names or "flag_meanings" not in names:
            self.say("has only one of flag_values and flag_meanings", v)
            return
        values, words = np.atleast_1d(v.flag_values), v.flag_meanings.split(" ")
        if values.dtype != v.dtype:
            self.say(f"flag_values have type {values.dtype}, the variable {v.dtype}", v)
        if len(values) != len(words):
            self.say(f"{len(values)} flag_values and {len(words)} flag_meanings", v)
        if len(set(values.tolist())) != len(values) or len(set(words)) != len(words):
            self.say("has a flag twice", v)
        for word in words:
            if not FLAG_WORD.match(word):
                self.say(f'flag word "{word}" is not allowed', v)
        allowed = set(values.tolist())
        if "_FillValue" in names:
            allowed.add(np.asarray(v.getncattr("_FillValue")).item())
        strangers = set(np.unique(v[...]).tolist()) - allowed
        if strangers:
            self.say(f"values {sorted(strangers)} are no flag", v)

    def coordinates(self, f, v):
        for name in getattr(v, "coordinates", "").split():
            if name not in f.variables:
                self.say(f'coordinates names "{name}", which is not there', v)
                continue
            other = f.variables[name]
            dimensions = other.dimensions[:-1] if other.dtype.kind == "S" else other.dimensions
            if not set(dimensions) <= set(v.dimensions):
                self.say(f'coordinate "{name}" has dimensions {dimensions} that it lacks', v)

    def coordinate_variable(self, v):
        if v.dimensions != (v.name,):
            self.say("has several dimensions and the name of one", v)
            return
        x = np.asarray(v[...], dtype=float)
        if not np.isfinite(x).all():
            self.say("is a coordinate and not finite", v)
        step = np.diff(x)
        if len(x) > 1 and not (np.all(step > 0) or np.all(step < 0)):
            self.say("is a coordinate and not monotonic", v)

    # ---- other readers ----

    def xarray(self):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with xarray.open_dataset(self.path, engine="netcdf4") as d:
                    d.load()
                    for name, v in d.variables.items():
                        if v.dtype.kind in "mM":
                            self.say(f"{name}: xarray reads a time")
        except Exception as error:      # whatever a reader meets is a complaint
            self.say(f"xarray: {type(error).__name__}: {error}")

    def ncdump(self):
        if not shutil.which("ncdump"):
            return
        done = subprocess.run(["ncdump", self.path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)
        if done.returncode:
            self.say(f"ncdump: {done.stderr.strip()}")

    def cfchecks(self):
        if not shutil.which("cfchecks"):
            return
        done = subprocess.run(["cfchecks", "-v", "1.8", self.path], capture_output=True, text=True, timeout=300, check=False)
        match = re.search(r"ERRORS detected: (\d+)", done.stdout)
        if not match:       # it fetches its tables: without a network it cannot judge
            print(f"{self.path}: cfchecks gave no verdict: {done.stderr.strip()[-200:]}", file=sys.stderr)
        elif match.group(1) != "0":
            self.say("cfchecks: " + "; ".join(line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line))


def main(arguments):
    paths = [a for a in arguments if a != "--nan"]
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for path in paths:
        check = Check(path, "--nan" in arguments)
        check.run()
        for complaint in check.complaints:
            print(f"{path}: {complaint}", file=sys.stderr)
        failed += bool(check.complaints)
        name = "/".join(os.path.abspath(path).split(os.sep)[-2:])
        print(f"{'not ok' if check.complaints else 'ok'} cf {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
