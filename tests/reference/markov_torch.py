#!/usr/bin/python3
"""The Markov job in PyTorch and numpy, written from the paper's set-up (arXiv 2602.22600), without any code of invar.

    markov_torch.py [--seeds N] [--epochs E] [--first-seed S] [--threads T] [--centered-logits] [--json FILE]
                    [--time]

Trains N transformers that differ in their seed only, extracts each one's core, compares the cores, prints what the
claims of jobs/markov-cores.yaml are about and writes it to FILE. --time only trains, and says how long a seed takes.
"""
import argparse
import itertools
import json
import math
import time

import numpy as np
import torch
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn import functional as F

STATES, STAY = 4, 0.75
SEQUENCES, LENGTH = 3000, 32
WIDTH, HEADS, HIDDEN, DROPOUT, MAX_LENGTH = 64, 4, 256, 0.1, 64
LR, BATCH = 1e-4, 64
ENERGY, TOLERANCE, RIDGE = 0.999, 1e-3, 1e-8

TRANSITION = STAY * np.eye(STATES) + (1 - STAY) * np.roll(np.eye(STATES), 1, axis=1)
TRUTH = np.array([0.75 + 0.25j, 0.75 - 0.25j, 0.5])


# ---- task and model -------------------------------------------------------------------------------------------------

def chains(stream):
    """SEQUENCES chains of LENGTH states, the first state uniform."""
    rng = np.random.default_rng([2602, 22600, stream])
    start = rng.integers(STATES, size=(SEQUENCES, 1))
    moves = rng.random((SEQUENCES, LENGTH - 1)) >= STAY
    states = np.concatenate([start, start + np.cumsum(moves, axis=1)], axis=1) % STATES
    return torch.from_numpy(states)


class Decoder(nn.Module):
    """One post-norm block. TransformerEncoderLayer with a causal mask is that block, PyTorch's own initialisation of it
    is the one of the set-up (Xavier on the packed QKV), and nn.Embedding is N(0, 1)."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(STATES, WIDTH)
        self.position = nn.Embedding(MAX_LENGTH, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, DROPOUT, activation="relu", batch_first=True)
        self.head = nn.Linear(WIDTH, STATES)
        self.register_buffer("mask", torch.full((MAX_LENGTH, MAX_LENGTH), -math.inf).triu(1), persistent=False)

    def activations(self, tokens):
        n = tokens.shape[1]
        x = self.token(tokens) + self.position(torch.arange(n))
        return self.block(x, src_mask=self.mask[:n, :n])

    def forward(self, tokens):
        return self.head(self.activations(tokens))


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    loss, correct = 0.0, 0
    for batch in data.split(500):
        logits = model(batch[:, :-1]).flatten(0, 1)
        target = batch[:, 1:].flatten()
        loss += F.cross_entropy(logits, target, reduction="sum").item()
        correct += (logits.argmax(1) == target).sum().item()
    rows = data.shape[0] * (data.shape[1] - 1)
    return {"loss": loss / rows, "accuracy": correct / rows}


def train(seed, epochs, data, test):
    """Returns the model, its learning curves, and seconds of (training, training and evaluation)."""
    torch.manual_seed(seed)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    start, training = time.perf_counter(), 0.0
    curves = [{"epoch": 0, "train": evaluate(model, data), "test": evaluate(model, test)}]
    for epoch in range(1, epochs + 1):
        since = time.perf_counter()
        model.train()
        for index in torch.randperm(len(data)).split(BATCH):
            batch = data[index]
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        training += time.perf_counter() - since
        curves.append({"epoch": epoch, "train": evaluate(model, data), "test": evaluate(model, test)})
    return model, curves, (training, time.perf_counter() - start)


# ---- core: extract, validate, identify ------------------------------------------------------------------------------

def layer_on(model, data, centered):
    """H [N, WIDTH] in double, and J'J averaged over the inputs by automatic differentiation. centered: of the logits minus
    their mean, without the shift that softmax ignores."""
    model.eval()
    with torch.no_grad():
        h = torch.cat([model.activations(b[:, :-1]) for b in data.split(500)]).flatten(0, 1)
    point = h.clone().requires_grad_()
    logits = model.head(point)
    if centered:
        logits = logits - logits.mean(1, keepdim=True)
    observability = np.zeros((WIDTH, WIDTH))
    for c in range(STATES):
        g = torch.autograd.grad(logits[:, c].sum(), point, retain_graph=True)[0].double().numpy()
        observability += g.T @ g / len(g)
    return h.double().numpy(), observability


def extract(h, observability):
    """Core weights S^2 and the ordered basis, by the symmetric square root of the covariance."""
    value, vector = np.linalg.eigh(np.cov(h, rowvar=False))
    ridge = RIDGE * value.sum() / WIDTH
    root = (vector * np.sqrt(np.maximum(value, 0) + ridge)) @ vector.T
    regular = observability + RIDGE * np.trace(observability) / WIDTH * np.eye(WIDTH)
    weight, u = np.linalg.eigh(root @ regular @ root)
    weight, u = weight[::-1], u[:, ::-1]
    return weight, np.linalg.qr(root @ u)[0]


def ablations(model, h, target, weight, basis):
    x = torch.from_numpy(h).float()

    def accuracy(x):
        with torch.no_grad():
            return (model.head(x).argmax(1) == target).double().mean().item()

    def keep(r):
        q = torch.from_numpy(np.ascontiguousarray(basis[:, :r])).float()
        return x @ q @ q.T

    rank = int(np.searchsorted(np.cumsum(weight) / weight.sum(), ENERGY) + 1)
    base = accuracy(x)
    sufficient = next((r for r in range(1, WIDTH + 1) if accuracy(keep(r)) >= base - TOLERANCE), -1)
    necessary = next((r for r in range(rank, WIDTH + 1) if accuracy(x - keep(r)) <= 2 / STATES), -1)
    return {"rank": rank, "sufficient": sufficient, "necessary": necessary, "core_dim": max(rank, necessary),
            "accuracy": base, "accuracy_core_only": accuracy(keep(rank)),
            "accuracy_core_removed": accuracy(x - keep(rank))}


def operator(z):
    """z [sequences, positions, r]: least squares between neighbours in time."""
    x, y = (part.reshape(-1, z.shape[2]) for part in (z[:, :-1], z[:, 1:]))
    x, y = x - x.mean(0), y - y.mean(0)
    solution = np.linalg.lstsq(x, y, rcond=None)[0]
    r2 = np.mean(1 - ((y - x @ solution) ** 2).sum(0) / (y ** 2).sum(0))
    pi = np.full(STATES, 1 / STATES)
    oracle = 1 - np.mean((pi[:, None] * TRANSITION * (1 - TRANSITION)).sum(0) / (pi * (1 - pi)))
    eigenvalue = np.linalg.eigvals(solution)
    eigenvalue = eigenvalue[np.lexsort((-eigenvalue.imag, -np.abs(eigenvalue)))]
    error = np.abs(eigenvalue[:, None] - TRUTH) / np.abs(TRUTH)
    i, j = linear_sum_assignment(error)
    matched = dict(zip(i.tolist(), error[i, j].tolist()))
    return {"operator_r2": r2, "operator_r2_oracle_ratio": r2 / oracle,
            "operator_eigenvalue": [[v.real, v.imag] for v in eigenvalue.tolist()],
            "operator_eigenvalue_error": [matched.get(k) for k in range(len(eigenvalue))]}


# ---- across seeds ---------------------------------------------------------------------------------------------------

def sample_basis(z):
    q, r, _ = qr(z - z.mean(0), mode="economic", pivoting=True)
    return q[:, np.abs(np.diag(r)) > 1e-8 * abs(r[0, 0])]


def compare(a, b):
    return {"seeds": [a["seed"], b["seed"]],
            "canonical_correlation": np.linalg.svd(a["u"].T @ b["u"], compute_uv=False).tolist(),
            "projector_overlap": np.linalg.norm(a["q"].T @ b["q"]) ** 2 / math.sqrt(a["q"].shape[1] * b["q"].shape[1]),
            "weight_cosine": float(a["w"] @ b["w"] / np.linalg.norm(a["w"]) / np.linalg.norm(b["w"]))}


def analyse(seed, model, test, centered):
    h, observability = layer_on(model, test, centered)
    weight, basis = extract(h, observability)
    found = ablations(model, h, test[:, 1:].flatten(), weight, basis)
    q = basis[:, :found["rank"]]
    z = h @ q
    found.update(operator(z.reshape(SEQUENCES, LENGTH - 1, -1)))
    found["core_weight_share"] = (weight / weight.sum())[:8].tolist()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()]).double().numpy()
    return found, {"seed": seed, "q": q, "u": sample_basis(z), "w": flat}


def show(runs, pairs, strength):
    for r in runs:
        print(f"seed {r['seed']}: rank {r['rank']}, sufficient {r['sufficient']}, necessary {r['necessary']}, "
              f"accuracy {r['accuracy']:.4f}, core only {r['accuracy_core_only']:.4f}, "
              f"removed {r['accuracy_core_removed']:.4f}, R2 ratio {r['operator_r2_oracle_ratio']:.4f}\n    eigenvalues "
              + ", ".join(f"{re:.4f}{im:+.4f}i" for re, im in r["operator_eigenvalue"])
              + "; core weights' shares " + ", ".join(f"{w:.4f}" for w in r["core_weight_share"][:4]))
    for p in pairs:
        print(f"seeds {p['seeds'][0]} and {p['seeds'][1]}: canonical correlations "
              + ", ".join(f"{c:.4f}" for c in p["canonical_correlation"])
              + f"; overlap {p['projector_overlap']:.4f}; weight cosine {p['weight_cosine']:.4f}")
    if pairs:
        print("consensus strength " + ", ".join(f"{s:.4f}" for s in strength[:6]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--centered-logits", action="store_true", help="core of the logits without their common shift")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--time", action="store_true", help="train only, print seconds per seed")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data, test = chains(0), chains(1)
    runs, cores = [], []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        model, curves, (training, with_evaluation) = train(seed, options.epochs, data, test)
        run = {"seed": seed, "seconds_training": training, "seconds_with_evaluation": with_evaluation, "curves": curves}
        if options.time:
            print(f"seed {seed}: {training:.2f} s of training, {with_evaluation:.2f} s with an evaluation of both sets "
                  "per epoch", flush=True)
        else:
            found, core = analyse(seed, model, test, options.centered_logits)
            run.update(found)
            cores.append(core)
        runs.append(run)
    pairs = [compare(a, b) for a, b in itertools.combinations(cores, 2)]
    strength = []
    if cores:
        stacked = np.hstack([c["u"] for c in cores])
        strength = (np.linalg.svd(stacked, compute_uv=False) ** 2 / len(cores)).tolist()
        show(runs, pairs, strength)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "threads": options.threads, "epochs": options.epochs, "runs": runs,
                       "pairs": pairs, "consensus_strength": strength}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
