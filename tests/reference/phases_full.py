#!/usr/bin/python3
"""One point of jobs/init-phases-*.yaml by training the full model in PyTorch: what a map costs without the manifold.

The disentangled transformer of arXiv 2607.11875 as its authors describe it: one-hot tokens and positions, three layers with
one fused key-query matrix each, what a layer attends to is written behind the stream, an unembedding; all weights are trained by
gradient descent on the six sequences (one for each queried block). Prints milliseconds of a step: medians of blocks of 50.

    phases_full.py [--double] [--seconds S]
"""
import argparse
import statistics
import time

import torch

torch.set_num_threads(1)
BLOCKS, LAYERS = 6, 3


def batch():
    tokens = torch.arange(2 * BLOCKS).repeat(BLOCKS, 1)
    return torch.cat([tokens, 2 * torch.arange(BLOCKS)[:, None]], 1), 2 * torch.arange(BLOCKS) + 1


class Full(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.length, self.tokens = 2 * BLOCKS + 1, 2 * BLOCKS
        d = self.tokens + self.length
        self.key_query = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(d << l, d << l)) for l in range(LAYERS))
        self.unembedding = torch.nn.Parameter(torch.zeros(d << LAYERS, self.tokens))
        self.register_buffer("unseen", torch.ones(self.length, self.length).triu().bool())
        self.register_buffer("positions", torch.eye(self.length))
        with torch.no_grad():
            token, position = torch.eye(self.tokens), torch.diag(torch.ones(self.length - 1), -1)
            t, n = self.tokens, d
            for l in range(LAYERS):
                self.key_query[l][t:d, t:d] = 0.05 * position
                for m in range(l):
                    self.key_query[l][:t, (n << m):(n << m) + t] = 0.05 * token
            for l in range(LAYERS):
                self.unembedding[(n << l):(n << l) + t] = 0.05 * token

    def forward(self, tokens):
        x = torch.cat([torch.nn.functional.one_hot(tokens, self.tokens).to(self.unembedding.dtype),
                       self.positions.expand(len(tokens), -1, -1).to(self.unembedding.dtype)], -1)
        for w in self.key_query:
            scores = (x @ w) @ x.transpose(-1, -2)
            weights = torch.softmax(scores.masked_fill(self.unseen, -1e30), -1).masked_fill(self.unseen, 0.0)
            x = torch.cat([x, weights @ x], -1)
        return x[:, -1] @ self.unembedding


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    model = Full().double() if options.double else Full()
    tokens, answer = batch()
    target = torch.nn.functional.one_hot(answer, 2 * BLOCKS).to(model.unembedding.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    times, end = [], time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(50):
            optimizer.zero_grad(set_to_none=True)
            loss = 0.5 * ((model(tokens) - target) ** 2).sum(-1).mean()
            loss.backward()
            optimizer.step()
        times.append((time.perf_counter() - start) / 50)
    print(f"{1e3 * statistics.median(times):.4f} ms a step, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
