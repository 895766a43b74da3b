"""cross_run.nc of synthetic runs against numpy and scipy, from the raw inputs, by other formulas where there are any."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.linalg
import xarray

BUILD, WHERE = os.environ.get("BUILD", "build"), Path(os.environ["TMPDIR"]) / "store"
COLUMNS, WIDTH = {0: 3, 1: 3, 2: 4, 4: 2, 6: 3}, {0: 8, 1: 8, 2: 8, 4: 6, 6: 8}
RUNS, N, TOLERANCE = [0, 1, 2, 4, 6], 600, 1e-12
failed = []


def check(name, got, expected, tolerance=TOLERANCE):
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    worst = np.inf if got.shape != expected.shape else np.max(np.where(
        np.isnan(got) & np.isnan(expected), 0.0, np.nan_to_num(np.abs(got - expected), nan=np.inf)), initial=0.0)
    good = worst <= tolerance
    print(f"{'ok' if good else 'not ok'} cross_run_{name} (difference {worst:.2e})")
    if not good:
        failed.append(name)
        print(f"got\n{got}\nexpected\n{expected}", file=sys.stderr)


def raw(name, number, shape, kind=np.float64):
    return np.fromfile(WHERE / f"{name}{number}.bin", kind).reshape(shape)


def orthonormal(z):
    """Basis of the centred columns by SVD."""
    z = z - z.mean(0)
    u, s, vt = np.linalg.svd(z, full_matrices=False)
    keep = s > 1e-8 * s[0]
    return u[:, keep], s[keep], vt[keep]


def correlations(a, b):
    return np.minimum(np.linalg.svd(orthonormal(a)[0].T @ orthonormal(b)[0], compute_uv=False), 1.0)


def by_covariances(a, b):
    """The textbook's way: the squared correlations are eigenvalues of Caa^+ Cab Cbb^+ Cba."""
    c = np.cov(a.T, b.T)
    p = a.shape[1]
    inverse_a, inverse_b = [np.linalg.pinv(x, rcond=1e-10, hermitian=True) for x in (c[:p, :p], c[p:, p:])]
    squares = np.linalg.eigvals(inverse_a @ c[:p, p:] @ inverse_b @ c[p:, :p]).real
    k = min(orthonormal(a)[0].shape[1], orthonormal(b)[0].shape[1])
    return np.sort(np.sqrt(np.clip(squares, 0, 1)))[::-1][:k]


def padded(x, n=4):
    return np.concatenate([x, np.full(n - len(x), np.nan)])


def table(function):
    return np.array([[function(a, b) for b in RUNS] for a in RUNS])


def angles(a, b):
    if WIDTH[a] != WIDTH[b]:
        return padded([])
    return padded(np.sort(scipy.linalg.subspace_angles(Q[a], Q[b])))


def overlap(a, b):
    if WIDTH[a] != WIDTH[b]:
        return np.nan
    return np.trace(Q[a] @ Q[a].T @ Q[b] @ Q[b].T) / np.sqrt(COLUMNS[a] * COLUMNS[b])


def cosine(a, b):
    if (a == 4) != (b == 4):
        return np.nan
    return W[a] @ W[b] / np.linalg.norm(W[a]) / np.linalg.norm(W[b])


def variates(a, b):
    """Weights that take the data to their canonical variates, and the correlations."""
    (ua, sa, ta), (ub, sb, tb) = orthonormal(a), orthonormal(b)
    left, rho, right = np.linalg.svd(ua.T @ ub, full_matrices=False)
    return ta.T / sa @ left, tb.T / sb @ right.T, rho


def held_out(a, b):
    wa, wb, _ = variates(Z[a][~out], Z[b][~out])
    x, y = Z[a][out] @ wa, Z[b][out] @ wb
    return padded([np.corrcoef(x[:, c], y[:, c])[0, 1] for c in range(wa.shape[1])])


def svcca(a, b):
    def leading(z):
        u, s, _ = orthonormal(z)
        k = np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.99) + 1
        return u[:, :k]
    return np.linalg.svd(leading(Z[a]).T @ leading(Z[b]), compute_uv=False).mean()


def pwcca(a, b):
    za = Z[a] - Z[a].mean(0)
    wa, _, rho = variates(Z[a], Z[b])
    weight = np.abs((za @ wa).T @ za).sum(1)
    return (weight * rho).sum() / weight.sum()


def cka(a, b):
    ka, kb = [z @ z.T for z in (Z[r] - Z[r].mean(0) for r in (a, b))]
    return (ka * kb).sum() / np.sqrt((ka * ka).sum() * (kb * kb).sum())


def procrustes(a, b):
    za, zb = [(Z[r] - Z[r].mean(0)) / np.linalg.norm(Z[r] - Z[r].mean(0)) for r in (a, b)]
    wide = max(COLUMNS[a], COLUMNS[b])
    za, zb = [np.pad(z, ((0, 0), (0, wide - z.shape[1]))) for z in (za, zb)]
    rotation, _ = scipy.linalg.orthogonal_procrustes(za, zb)
    return np.linalg.norm(za @ rotation - zb) ** 2


WHERE.mkdir()
subprocess.run([f"{BUILD}/tests/analysis/test_cross_run", "write", str(WHERE)], check=True, stdout=subprocess.DEVNULL)
Z = {r: raw("coordinates", r, (N, COLUMNS[r])) for r in RUNS}
Q = {r: raw("basis", r, (WIDTH[r], COLUMNS[r])) for r in RUNS}
W = {r: raw("weights", r, 500, np.float32).astype(float) for r in RUNS}
U = {r: orthonormal(Z[r])[0] for r in RUNS}
with xarray.open_dataset(WHERE / "cross_run.nc") as f:
    data = f.load()
out = data["held_out"].values.astype(bool)

check("runs", data["run"], RUNS, 0)
check("effective_rank", data["effective_rank"], [3, 3, 3, 2, 3], 0)
check("canonical_correlation", data["canonical_correlation"], table(lambda a, b: padded(correlations(Z[a], Z[b]))))
check("canonical_correlation_by_covariances", data["canonical_correlation"],
      table(lambda a, b: padded(by_covariances(Z[a], Z[b]))), 1e-9)
check("held_out", data["canonical_correlation_heldout"], table(held_out), 1e-11)
check("principal_angle", data["principal_angle"], table(angles), 1e-7)           # scipy's own error near 0
check("projector_overlap", data["projector_overlap"], table(overlap))
check("weight_cosine", data["weight_cosine"], table(cosine))
check("svcca_mean", data["svcca_mean"], table(svcca))
check("pwcca", data["pwcca"], table(pwcca))
check("linear_cka", data["linear_cka"], table(cka))
check("procrustes_distance", data["procrustes_distance"], table(procrustes), 1e-11)
check("saturated", data["saturated"], np.zeros((5, 5)), 0)

permutations = [raw("permutation", t, N, np.uint32) for t in range(40)]
null = np.array([[[padded(np.linalg.svd(U[min(a, b)].T @ U[max(a, b)][p], compute_uv=False)) for p in permutations]
                  for b in RUNS] for a in RUNS])
check("null_mean", data["canonical_correlation_null"], null.mean(2), 1e-5)       # one slice of 21 bits is used there
check("null_p95", data["canonical_correlation_null_p95"], np.quantile(null, 0.95, axis=2), 1e-5)

left, sigma, _ = np.linalg.svd(np.hstack([U[r] for r in RUNS]), full_matrices=False)
check("consensus_spectrum", data["consensus_spectrum"], sigma**2 / 5)
check("consensus_strength", data["consensus_strength"], sigma[:4] ** 2 / 5)
directions = np.fromfile(WHERE / "consensus.bin").reshape(N, 2)
check("consensus_projector", directions @ directions.T, left[:, :2] @ left[:, :2].T)
sys.exit(1 if failed else 0)
