#!/usr/bin/python3
"""Initialisation phase diagrams of three layers in PyTorch, in double precision: a twin of jobs/init-phases-*.yaml.

Associative recall over n contiguous blocks, one-hot tokens and positions, no self-attention, seven coordinates (arXiv
2607.11875): alpha_1, alpha_2, beta_12, beta_13, beta_23, gamma_2, gamma_3; half the squared error, averaged over the queried
block, gradient descent at rate 1. Attention is formed as the model defines it, with one-hot vectors and automatic
differentiation; nothing of invar's is used. All points of a grid are trained side by side.

    phases_torch.py X Y POINTS           the map of two coordinates on [0, 1], 1: circuit (1,2), 2: (1,3), 3: (2,3), .: none
    phases_torch.py --compare RUNS.NC    the same points as a finished job: winners, steps, coordinates, losses, rises
"""
import sys

import netCDF4
import numpy
import torch

torch.set_default_dtype(torch.float64)
NAMES = ["alpha_1", "alpha_2", "beta_12", "beta_13", "beta_23", "gamma_2", "gamma_3"]


class Recall:
    def __init__(self, blocks=6):
        n = 2 * blocks + 1
        tokens = torch.arange(2 * blocks).repeat(blocks, 1)                 # a_0 b_0 a_1 b_1 ...
        tokens = torch.cat([tokens, 2 * torch.arange(blocks)[:, None]], 1)  # ... and the queried item
        self.tokens = torch.nn.functional.one_hot(tokens, 2 * blocks).to(torch.float64)      # [query][position][token]
        self.answer = torch.nn.functional.one_hot(2 * torch.arange(blocks) + 1, 2 * blocks).to(torch.float64)
        self.previous = torch.diag(torch.ones(n - 1), -1)                   # [t][u]: u = t - 1
        self.unseen = torch.ones(n, n).triu().bool()                        # u >= t

    def attend(self, scores):
        """Softmax over earlier positions; the first position attends to nothing."""
        weights = torch.softmax(scores.masked_fill(self.unseen, -1e300), -1)
        return weights.masked_fill(self.unseen, 0.0)

    def losses(self, p):
        """Mean loss of each point. p: [points][7]"""
        a1, a2, b12, b13, b23, g2, g3 = (p[:, i, None, None, None] for i in range(7))
        x = self.tokens[None]
        first = self.attend(a1 * self.previous) @ x
        second = self.attend(a2 * self.previous + b12 * (x @ first.transpose(-1, -2))) @ x
        third = self.attend(b13 * (x @ first.transpose(-1, -2)) + b23 * (x @ second.transpose(-1, -2))) @ x
        out = (g2 * second + g3 * third)[:, :, -1]
        return 0.5 * ((out - self.answer) ** 2).sum(-1).mean(-1)


def train(p, steps=6000, enough=0.03, every=100, below=0.15):
    """Final coordinates, losses, steps done and winners (0: circuit 12, 1: 13, 2: 23, 3: none) of all points."""
    task = Recall()
    p = p.clone()
    done = torch.full((len(p),), steps)
    open_ = torch.ones(len(p), dtype=torch.bool)
    for step in range(steps + 1):
        q = p[open_].requires_grad_(True)
        loss = task.losses(q)
        if step % every == 0 or step == steps:
            index = open_.nonzero()[:, 0]
            stop = loss.detach() < enough
            done[index[stop]] = step
            open_[index[stop]] = False
            if step == steps or not open_.any():
                break
            q = p[open_].requires_grad_(True)
            loss = task.losses(q)
        (gradient,) = torch.autograd.grad(loss.sum(), q)
        p[open_] = (q - gradient).detach()
    with torch.no_grad():
        final = task.losses(p)
        rise = []
        for beta in (2, 3, 4):
            without = p.clone()
            without[:, beta] = 0.0
            rise.append(task.losses(without) - final)
        rise = torch.stack(rise, 1)
    winner = torch.where(final < below, rise.argmax(1), torch.full_like(rise.argmax(1), 3))
    return p, final, done, winner, rise


def plane(x, y, points, top=1.0, others=0.05):
    """The grid of two coordinates, y slow and x fast."""
    p = torch.full((points * points, 7), others)
    at = torch.linspace(0.0, top, points)
    p[:, NAMES.index(y)] = at.repeat_interleave(points)
    p[:, NAMES.index(x)] = at.repeat(points)
    return p


def compare(path):
    """Trains the points of a finished jobs/init-phases-*.yaml anew; returns the number of differences."""
    runs = netCDF4.Dataset(path)
    runs["coordinate_name"].set_auto_chartostring(False)
    names = [str(name).strip() for name in netCDF4.chartostring(runs["coordinate_name"][:])]
    p = torch.full((len(runs.dimensions["run"]), len(NAMES)), 0.05)
    for i, name in enumerate(NAMES):
        if "init_coordinates_" + name in runs.variables:
            p[:, i] = torch.tensor(numpy.ma.filled(runs["init_coordinates_" + name][:], numpy.nan))
    final, loss, steps, winner, rise = train(p)
    theirs = torch.tensor(numpy.ma.filled(runs["coordinate"][:], numpy.nan))[:, [names.index(n) for n in NAMES]]
    checks = {
        "winners": (winner != torch.tensor(numpy.ma.filled(runs["winner"][:], -1))).sum().item(),
        "steps": (steps != torch.tensor(numpy.ma.filled(runs["steps"][:], -1))).sum().item(),
        "coordinates": ((final - theirs).abs() > 1e-9).any(1).sum().item(),
        "losses": ((loss - torch.tensor(numpy.ma.filled(runs["loss_train_final"][:], numpy.nan))).abs() > 1e-9).sum().item(),
        "rises": ((rise - torch.tensor(numpy.ma.filled(runs["rise"][:], numpy.nan))).abs() > 1e-9).any(1).sum().item(),
    }
    print(f"{len(p)} points, largest difference of a coordinate {(final - theirs).abs().max():.2g}")
    for name, bad in checks.items():
        print(f"{'not ok' if bad else 'ok'} {name} ({bad} points differ)")
    return sum(checks.values())


def show(x, y, points):
    winner = train(plane(x, y, points))[3]
    for row in reversed(range(points)):
        print("".join("123."[w] for w in winner[row * points:(row + 1) * points]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "--compare":
        sys.exit(compare(sys.argv[2]) > 0)
    show(sys.argv[1], sys.argv[2], int(sys.argv[3]))
