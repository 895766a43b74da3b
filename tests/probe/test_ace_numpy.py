"""ace_core and ace_operator against other formulations of the same in numpy.

The core of activations H (N x d) and Jacobians J (N K x d) is there also the leading left singular vectors of Hc J',
mapped back by Hc': no covariance is formed and no factor of one. The ridge of the factors is d further rows below
either.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

RIDGE = 1e-8
failed = False


def check(name, *conditions):
    """conditions: (value, bound); holds when value <= bound (never for NaN)"""
    global failed
    bad = [c for c in conditions if not c[0] <= c[1]]
    print(("not ok " if bad else "ok ") + name)
    for value, bound in bad:
        print(f"  {value:.3g}, expected at most {bound:.3g}")
    failed |= bool(bad)


def dump(directory):
    program = os.path.join(os.environ.get("BUILD", "build"), "tests/probe/test_ace_dump")
    subprocess.run([program, directory], check=True, stdout=subprocess.DEVNULL)


def c_core(cov, obs):
    d = len(cov)
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/core.in", "wb") as f:
            f.write(np.int64(d).tobytes() + cov.tobytes() + obs.tobytes())
        with open(directory + "/operator.in", "wb") as f:
            f.write(np.array([2, 2, 1]).tobytes() + np.arange(4.0).tobytes())
        dump(directory)
        out = np.fromfile(directory + "/core.out")
    return out[:d], out[d:].reshape(d, d)


def c_operator(z):
    r = z.shape[2]
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/core.in", "wb") as f:
            f.write(np.int64(1).tobytes() + np.ones(2).tobytes())
        with open(directory + "/operator.in", "wb") as f:
            f.write(np.array(z.shape).tobytes() + np.ascontiguousarray(z).tobytes())
        dump(directory)
        out = np.fromfile(directory + "/operator.out")
    return out[:r * r].reshape(r, r), out[r * r:-1].view(complex), out[-1]


def with_ridge(x):
    """x (already divided by the root of the number of samples) with rows that add RIDGE trace / d to its Gram matrix."""
    d = x.shape[1]
    return np.vstack([x, np.sqrt(RIDGE * (x ** 2).sum() / d) * np.eye(d)])


def sine_of_largest_angle(a, b):
    """Between the spans of orthonormal columns; by the sine, which is exact for small angles."""
    return np.linalg.norm(b - a @ (a.T @ b), 2)


def test_core(seed, n, d, k, name):
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n, d)) * np.geomspace(5, 0.05, d) @ rng.normal(size=(d, d)) + 3
    j = rng.normal(size=(n * k, d)) * np.geomspace(1, 0.1, d) @ rng.normal(size=(d, d))
    weight, basis = c_core(np.cov(h, rowvar=False), j.T @ j / n)
    hc = with_ridge((h - h.mean(0)) / np.sqrt(n - 1))
    left, s, _ = np.linalg.svd(hc @ with_ridge(j / np.sqrt(n)).T, full_matrices=False)
    mapped = hc.T @ left[:, :d]
    angles = [sine_of_largest_angle(np.linalg.qr(mapped[:, :r])[0], basis[:, :r]) for r in range(1, d)]
    check(name,
          (np.max(np.abs(np.sqrt(weight) - s[:d])) / s[0], 1e-12),
          (max(angles), 1e-8),
          (np.linalg.norm(basis.T @ basis - np.eye(d)), 1e-12),
          (np.max(np.abs(np.tril(basis.T @ mapped, -1))) / np.abs(mapped).max(), 1e-8))


def test_low_rank(seed):
    """Outputs that read two directions only, activations in four dimensions of ten: the core is 2-dimensional."""
    rng = np.random.default_rng(seed)
    n, d = 300, 10
    h = rng.normal(size=(n, 4)) @ rng.normal(size=(4, d))
    w = rng.normal(size=(2, d))
    cov, obs = np.cov(h, rowvar=False), w.T @ w
    weight, basis = c_core(cov, obs)
    image = np.linalg.qr(cov @ w.T)[0]
    check("outputs_that_read_two_directions_have_a_core_of_two",
          (sine_of_largest_angle(image, basis[:, :2]), 1e-6), (weight[2] / weight[1], 1e-6))


def test_operator(seed, sequences, length, r, name):
    rng = np.random.default_rng(seed)
    a = 0.9 * np.linalg.qr(rng.normal(size=(r, r)))[0]
    z = np.zeros((sequences, length, r))
    z[:, 0] = rng.normal(size=(sequences, r)) + 2
    for t in range(1, length):
        z[:, t] = z[:, t - 1] @ a.T + 0.3 * rng.normal(size=(sequences, r)) + 1
    z *= np.geomspace(1, 1e-3, r)
    x, y = (part.reshape(-1, r) for part in (z[:, :-1], z[:, 1:]))
    x, y = x - x.mean(0), y - y.mean(0)
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    r2_by_coordinate = 1 - ((y - x @ solution) ** 2).sum(0) / (y ** 2).sum(0)
    matrix, eigenvalue, r2 = c_operator(z)
    expected = np.linalg.eigvals(solution.T)
    left = list(expected)
    error = 0.0
    for value in eigenvalue:
        nearest = min(range(len(left)), key=lambda i: abs(left[i] - value))
        error = max(error, abs(left.pop(nearest) - value))
    modulus = np.abs(eigenvalue)
    check(name, (np.max(np.abs(matrix - solution.T)) / np.abs(solution).max(), 1e-11),
          (abs(r2 - r2_by_coordinate.mean()), 1e-12), (error, 1e-11), (np.max(np.diff(modulus), initial=-1.0), 0))


test_core(1, 40, 3, 1, "core_is_that_of_the_sample_space_form_d3")
test_core(2, 60, 6, 2, "core_is_that_of_the_sample_space_form_d6")
test_core(3, 150, 12, 4, "core_is_that_of_the_sample_space_form_d12")
test_low_rank(4)
test_operator(5, 50, 9, 1, "operator_is_numpys_least_squares_r1")
test_operator(6, 200, 16, 3, "operator_is_numpys_least_squares_r3")
test_operator(7, 700, 32, 8, "operator_is_numpys_least_squares_r8")
sys.exit(failed)
