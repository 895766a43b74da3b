#!/usr/bin/python3
"""The benchmark models of `invar bench` in PyTorch, written as its users write them, without any code of invar.

    peer.py M1|M2|M3|M4 [--sliced] [--seconds S]     milliseconds of a training step, as one line of JSON
    peer.py M1|M2|M3|M4 --check FILE                 the steps of `invar bench M1 --dump FILE`, from its weights on its batches:
                                                     largest relative difference of a loss; exit 1 when above 2e-5

--sliced is an expert's trick: the last layer at the last position only. One thread: the strongest way to use it here, since two
processes of one thread do more steps than one of two.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class Block(nn.Module):
    """One pre-sum block without norms and biases; hidden = 0: attention only."""

    def __init__(self, width, heads, hidden, length):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up = nn.Linear(width, hidden, bias=False) if hidden else None
        self.down = nn.Linear(hidden, width, bias=False) if hidden else None
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())

    def split(self, x):
        return x if self.heads == 1 else x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, last):
        asking = x[:, -1:] if last else x
        q, k, v = self.split(self.query(asking)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]))
        if not last:
            scores = scores.masked_fill(self.mask, float("-inf"))
        attended = F.softmax(scores, -1) @ v
        if self.heads > 1:
            attended = attended.transpose(1, 2).flatten(2)
        x = asking + self.output(attended)
        return x + self.down(F.relu(self.up(x))) if self.up is not None else x


class Decoder(nn.Module):
    """Learned positions, blocks, unembedding."""

    def __init__(self, tokens, classes, length, width, heads, hidden, everywhere, sliced):
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, h, length) for h in hidden)
        self.unembedding = nn.Linear(width, classes, bias=False)
        self.everywhere, self.sliced = everywhere, sliced

    def forward(self, tokens):
        x = self.token(tokens) + self.position
        for i, block in enumerate(self.blocks):
            x = block(x, self.sliced and i == len(self.blocks) - 1)
        return self.unembedding(x if self.everywhere else x[:, -1])

    def load(self, tensor):
        with torch.no_grad():
            self.token.weight.copy_(tensor("token.weight"))
            self.position.copy_(tensor("position.weight"))
            self.unembedding.weight.copy_(tensor("unembedding.weight").T)
            for i, block in enumerate(self.blocks, 1):
                for name in ("query", "key", "value", "output"):
                    getattr(block, name).weight.copy_(tensor(f"block{i}.attention.{name}.weight").T)
                for name in ("up", "down") if block.up is not None else ():
                    getattr(block, name).weight.copy_(tensor(f"block{i}.mlp.{name}.weight").T)


class AttentionOnly(nn.Module):
    """One-hot tokens and positions, one fused key-query matrix a layer, the attended rows beside the residual stream."""

    def __init__(self, tokens, length, layers, sliced):
        super().__init__()
        width = tokens + length
        self.tokens, self.sliced = tokens, sliced
        self.scores = nn.ParameterList(nn.Parameter(torch.randn(width << l, width << l) * 0.01) for l in range(layers))
        self.output = nn.Parameter(torch.randn(width << layers, tokens) * 0.01)
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())
        self.register_buffer("where", torch.eye(length))

    def forward(self, tokens):
        h = torch.cat([F.one_hot(tokens, self.tokens).to(self.where.dtype), self.where.expand(len(tokens), -1, -1)], -1)
        for l, weight in enumerate(self.scores):
            last = self.sliced and l == len(self.scores) - 1
            asking = h[:, -1:] if last else h
            scores = (asking @ weight) @ h.transpose(1, 2)
            if not last:
                scores = scores.masked_fill(self.mask, float("-inf"))
            h = torch.cat([asking, F.softmax(scores, -1) @ h], -1)
        return h[:, -1] @ self.output

    def load(self, tensor):
        with torch.no_grad():
            for i, weight in enumerate(self.scores, 1):
                weight.copy_(tensor(f"block{i}.head1.query_key.weight"))
            self.output.copy_(tensor("unembedding.weight"))


def subject(name, sliced):
    """Model, optimiser, and batches of tokens and targets."""
    if name == "M1":
        model = Decoder(100, 100, 20, 128, 1, (0, 512), False, sliced)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), random_batches(100, 20, 512, False)
    if name == "M2":
        model = Decoder(114, 113, 3, 128, 4, (512,), False, sliced)
        pairs = torch.cartesian_prod(torch.arange(113), torch.arange(113))[torch.randperm(113 * 113)[:3830]]
        data = [(torch.cat([pairs, torch.full((len(pairs), 1), 113)], 1), pairs.sum(1) % 113)]
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1.0, betas=(0.9, 0.98)), data
    if name == "M3":
        model = Decoder(4, 4, 64, 64, 1, (256,), True, False)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1), random_batches(4, 64, 64, True)
    model = AttentionOnly(40, 40, 2, sliced)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), random_batches(40, 40, 500, False)


def random_batches(tokens, length, size, everywhere):
    shape = (size, length) if everywhere else (size,)
    return [(torch.randint(0, tokens, (size, length)), torch.randint(0, tokens, shape)) for _ in range(4)]


def step(model, optimizer, tokens, targets):
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


def measure(arguments):
    torch.manual_seed(0)
    model, optimizer, data = subject(arguments.model, arguments.sliced)
    for i in range(3):
        step(model, optimizer, *data[i % len(data)])
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < arguments.seconds:
        before = time.perf_counter()
        step(model, optimizer, *data[len(times) % len(data)])
        times.append(time.perf_counter() - before)
    print(json.dumps({"model": arguments.model, "sliced": arguments.sliced, "step_ms": 1e3 * statistics.median(times),
                      "steps": len(times)}))


def check(arguments):
    import netCDF4
    model, optimizer, _ = subject(arguments.model, arguments.sliced)
    with netCDF4.Dataset(arguments.check) as f:
        f.set_auto_mask(False)
        model.load(lambda name: torch.from_numpy(f[name][:].reshape(f[name].shape)))
        tokens, targets = (torch.from_numpy(f[name][:]).long() for name in ("token", "target"))
        losses = f["loss"][:]
    worst = 0.0
    for i, expected in enumerate(losses):
        b = i % len(tokens)
        loss = float(step(model, optimizer, tokens[b], targets[b] if targets[b].min() >= 0 else targets[b][:, -1]))
        worst = max(worst, abs(loss - expected) / abs(expected))
    print(f"{arguments.model}: {len(losses)} steps from the same weights, losses {losses[0]:.5f} .. {losses[-1]:.5f}, "
          f"largest relative difference {worst:.1e}")
    return worst < 2e-5


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", choices=("M1", "M2", "M3", "M4"))
parser.add_argument("--sliced", action="store_true")
parser.add_argument("--seconds", type=float, default=4.0)
parser.add_argument("--check", metavar="FILE")
args = parser.parse_args()
if args.check:
    sys.exit(0 if check(args) else 1)
measure(args)
