#!/usr/bin/python3
"""A tile is a file for everybody: xarray, netCDF4 and ncdump read the values that were written, and it keeps to CF."""
import os
import subprocess
import sys

try:
    import netCDF4
    import numpy as np
    import xarray
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(0)

failed = False


def check(name, faults):
    global failed
    for fault in faults[:10]:
        print(f"{name}: {fault}", file=sys.stderr)
    print(("not ok " if faults else "ok ") + name)
    failed |= bool(faults)


def written(path):
    """(variable, index, text) of every value, as the program that made the tile printed it."""
    for line in open(path, encoding="utf-8"):
        name, index, text = line.rstrip("\n").split(" ", 2)
        yield name, tuple(int(i) for i in index.split(",")), text


def same(got, text, kind):
    if kind in "SUO":
        return (got.decode() if isinstance(got, bytes) else str(got)).rstrip("\0") == text
    if kind in "iu":
        return int(got) == int(text)
    if text.lstrip("-").isdigit():                  # xarray makes floats of whole numbers that may be missing
        return float(got) == float(int(text))
    value = float.fromhex(text)
    return (np.isnan(got) and np.isnan(value)) or float(got) == value


def compare(data, values):
    faults, seen = [], {}
    for name, index, text in values:
        array = data[name]
        if not same(array[index], text, array.dtype.kind):
            faults.append(f"{name}{list(index)} is {array[index]!r}, expected {text}")
        seen.setdefault(name, set()).add(index)
    return faults, seen


def padding(data, seen):
    """What was not written is missing for a reader that decodes fill values."""
    faults = []
    for name, indices in seen.items():
        array = data[name]
        if array.dtype.kind != "f":
            continue
        mask = np.ones(array.shape, bool)
        for index in indices:
            mask[index] = False
        if not np.isnan(array[mask]).all():
            faults.append(f"{name}: a value outside of what was written")
    return faults


def conventions(path):
    faults = []
    with netCDF4.Dataset(path) as file:
        for name in ("Conventions", "title", "history", "source", "invar_revision", "libraries", "instruction_set",
                     "format", "format_version"):
            if not getattr(file, name, ""):
                faults.append(f"no global attribute {name}")
        if getattr(file, "Conventions", "") != "CF-1.10":
            faults.append("Conventions is not CF-1.10")
        for name, v in file.variables.items():
            if not getattr(v, "long_name", ""):
                faults.append(f"{name}: no long_name")
            if v.dtype.kind == "S":
                continue
            if not getattr(v, "units", ""):
                faults.append(f"{name}: no units")
            is_coordinate = v.dimensions == (name,)
            fill = getattr(v, "_FillValue", None)
            if is_coordinate != (fill is None) or (fill is not None and np.asarray(fill).dtype != v.dtype):
                faults.append(f"{name}: _FillValue {fill!r} of type {getattr(fill, 'dtype', None)}, variable {v.dtype}")
            for other in getattr(v, "coordinates", "").split():
                if other not in file.variables or not set(file[other].dimensions[:1]) <= set(v.dimensions):
                    faults.append(f"{name}: no coordinate {other}")
        outcome = file["outcome"]
        if len(outcome.flag_values) != len(outcome.flag_meanings.split()) or outcome.flag_values.dtype != outcome.dtype:
            faults.append("outcome: flag_values and flag_meanings do not fit")
    return faults


def main():
    tile = os.path.join(os.environ["TMPDIR"], "sample.nc")
    program = os.path.join(os.environ["BUILD"], "tests", "store", "test_tile")
    subprocess.run([program, "a_sample_for_other_readers"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, SAMPLE_TILE=tile))
    values = list(written(tile + ".txt"))

    with xarray.open_dataset(tile) as file:
        data = {name: file[name].values for name in file.variables}
        faults, seen = compare(data, values)
        if len(values) < 3000:
            faults.append(f"only {len(values)} values were compared")
        check("xarray_reads_the_values", faults)
        check("padding_is_missing", padding(data, seen))
        expected = {"job": "name: x\ntask: {stay: 0.75}\n", "error": "d_model 65 is no multiple of heads 4 \u00e9"}
        got = {"job": data["job"].item(), "error": data["error"][2]}
        check("texts_are_texts", [f"{n} is {got[n]!r}" for n in got if got[n] != expected[n]])

    with netCDF4.Dataset(tile) as file:
        file.set_auto_mask(False)
        check("netcdf4_reads_the_values", compare({name: file[name][:] for name in file.variables
                                                  if file[name].dtype.kind != "S"},
                                                 [v for v in values if v[0] not in ("run_id", "tensor_name")])[0])
    check("conventions_are_kept", conventions(tile))
    dump = subprocess.run(["ncdump", "-h", tile], capture_output=True, text=True)
    check("ncdump_reads_it", [] if dump.returncode == 0 and ':format = "invar tile"' in dump.stdout
          and "run = 3 ;" in dump.stdout else [dump.stdout + dump.stderr])
    return failed


sys.exit(main())
