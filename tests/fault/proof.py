"""What must be true of an output folder after any faults: the runs, bits and files of an unbroken launch, and no more."""
import glob
import os
import re
import sys

import netCDF4
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
import same_bits  # noqa: E402

RESULTS = ("runs.nc", "cross_run.nc", "phase_map.nc")
FREE = re.compile(r"(wall_time|restarts)(_mean|_std|_count)?$")      # tells of the launch, not of the run

# Where a file may lie; whatever matches none of these is a stray.
EXPECTED = re.compile(r"job\.yaml|lock|log(\.\d+-of-\d+)?\.txt|progress[\w.-]*\.json"
                      r"|runs\.nc|cross_run\.nc|phase_map\.nc|report\.html"
                      r"|tiles/[0-9a-f]+(-\d+)?\.nc|figures/[\w.-]+\.(svg|png|gp)|damaged/.+")


def results(folder):
    """{file: {variable: bytes}} of what gather wrote."""
    found = {}
    for name in RESULTS:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with netCDF4.Dataset(path) as f:
            f.set_auto_maskandscale(False)
            f.set_auto_chartostring(False)
            found[name] = {n: np.asarray(v[:]).tobytes() for n, v in f.variables.items() if not FREE.match(n)}
    return found


def resumed(folder):
    """Runs that went on from a checkpoint."""
    return sum(run.restarts > 0 for run in same_bits.read_folder(folder).values())


class Reference:
    """An unbroken launch of the job."""

    def __init__(self, folder):
        self.runs = same_bits.read_folder(folder)
        self.results = results(folder)

    def faults(self, folder):
        """What differs in the folder, as texts."""
        try:
            runs = same_bits.read_folder(folder)
        except (AssertionError, OSError) as error:
            yield str(error)
            return
        for run in sorted(set(self.runs) ^ set(runs)):
            yield f"run {run} is " + ("missing" if run in self.runs else "none of the job's")
        for run in sorted(set(self.runs) & set(runs)):
            yield from (f"run {run}: {d}" for d in same_bits.differences(self.runs[run], runs[run]))
        found = results(folder)
        for name in RESULTS:
            mine, other = self.results.get(name, {}), found.get(name, {})
            yield from (f"{name}: {v} differs from an unbroken launch's"
                        for v in sorted(set(mine) | set(other)) if mine.get(v) != other.get(v))


def files(folder):
    """All files below, as relative paths."""
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names)


def strays(folder, planted):
    """Files that should not be there. `planted` are the user's own, which the program must leave alone."""
    return [name for name in files(folder) if not EXPECTED.fullmatch(name) and name not in planted]


def tiles(folder):
    """{path: (inode, time, size)} of the published tiles: a tile that is replaced changes its inode."""
    found = {}
    for path in glob.glob(os.path.join(folder, "tiles", "*.nc")):
        try:
            s = os.stat(path)
            found[path] = (s.st_ino, s.st_mtime_ns, s.st_size)
        except OSError:
            pass
    return found
