"""Twenty training steps against torch: the same initial weights and batches give the same losses and final weights.

Every model is written out in formulas; where torch's own TransformerEncoderLayer can express it (a norm, biases, an MLP),
that is compared as well. The optimisers are torch's. float32 models are compared to 1e-5, float64 ones to 1e-10.
"""
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("ok torch_twenty_steps # skipped: python3-torch is not installed")
    sys.exit(0)
import numpy as np
import torch.nn.functional as F

torch.set_num_threads(1)
STEPS = 20


class Dump:
    def __init__(self, path):
        self.key, self.tensors = {}, []
        for line in open(path + ".txt"):
            word = line.split()
            if word[0] == "tensor":
                self.tensors.append((word[1], int(word[2]), int(word[3])))
            else:
                self.key[word[0]] = word[1]
        self.dtype = torch.float64 if self.key["precision"] == "64" else torch.float32
        self.before = self.weights(path + ".before")
        self.after = self.weights(path + ".after")
        self.loss = np.fromfile(path + ".loss")
        self.batches = self.read_batches(np.fromfile(path + ".batch", dtype=np.int32), np.fromfile(path + ".weight"))
        assert len(self.loss) == len(self.batches) == STEPS

    def __getattr__(self, name):
        value = self.key[name]
        return int(value) if value.lstrip("-").isdigit() else value

    def weights(self, path):
        flat, at, out = np.fromfile(path), 0, {}
        for name, rows, cols in self.tensors:
            t = torch.tensor(flat[at:at + rows * cols].reshape(rows, cols), dtype=self.dtype)
            out[name] = t[0] if name.rsplit(".", 1)[-1] in ("bias", "gain", "shift") else t
            at += rows * cols
        assert at == len(flat)
        return out

    def read_batches(self, words, weights):
        at, first, out = 0, 0, []
        while at < len(words):
            n, sequences = int(words[at]) * self.length, int(words[at])
            all_of = torch.tensor(words[at + 1:at + 1 + 3 * n].astype(np.int64)).view(3, -1, self.length)
            out.append((*all_of, torch.tensor(weights[first:first + sequences], dtype=self.dtype)))
            at += 1 + 3 * n
            first += sequences
        return out


class Formulas(torch.nn.Module):
    """The decoder written out; parameters are stored as in the dump."""

    def __init__(self, d):
        super().__init__()
        self.d = d
        self.name = {name: name.replace(".", "_") for name, _, _ in d.tensors}
        for name, value in d.before.items():
            self.register_parameter(self.name[name], torch.nn.Parameter(value.clone()))

    def get(self, name):
        return getattr(self, self.name[name]) if name in self.name else None

    def linear(self, x, name):
        y, bias = x @ self.get(name + ".weight"), self.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        return F.layer_norm(x, (self.d.d_model,), self.get(name + ".gain"), self.get(name + ".shift"), 1e-5)

    def attention(self, x, name):
        s, n, d = x.shape
        q, k, v = (self.linear(x, f"{name}.{part}").view(s, n, self.d.heads, -1).transpose(1, 2)
                   for part in ("query", "key", "value"))
        score = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        score = score.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return self.linear((score.softmax(-1) @ v).transpose(1, 2).reshape(s, n, -1), name + ".output")

    def mlp(self, x, name):
        h = self.linear(x, name + ".up")
        return self.linear(torch.relu(h) if self.d.activation == "relu" else F.gelu(h), name + ".down")

    def block(self, x, layer):
        halves = [(self.attention, f"block{layer}.attention", f"block{layer}.norm1")]
        if self.d.d_mlp:
            halves.append((self.mlp, f"block{layer}.mlp", f"block{layer}.norm2"))
        for half, name, norm in halves:
            if self.d.norm == "pre":
                x = x + half(self.norm(x, norm), name)
            else:
                x = x + half(x, name)
                x = self.norm(x, norm) if self.d.norm == "post" else x
        return x

    def forward(self, token, _):
        x = self.get("token.weight")[token] + self.get("position.weight")[:token.shape[1]]
        for layer in range(1, self.d.layers + 1):
            x = self.block(x, layer)
        if self.d.norm == "pre":
            x = self.norm(x, "norm")
        if not self.d.tied:
            return self.linear(x, "unembedding")
        bias = self.get("unembedding.bias")
        return x @ self.get("token.weight").T + (0 if bias is None else bias)

    def dump(self):
        return {name: self.get(name).detach() for name in self.name}


class AttentionOnly(Formulas):
    """The attention_only kind: one-hot inputs, each head's mixture behind the stream; a blind position sees those before it.
    Centred: less the mean over common tokens, rare ones, and each period of positions."""

    def embedding(self):
        d = self.d
        eye = torch.eye(d.states + d.positions, dtype=d.dtype)
        if not d.centred:
            return eye
        groups = [(0, d.common), (d.common, d.states)]
        groups += [(d.states + at, d.states + at + d.period) for at in range(0, d.positions, d.period)]
        for begin, end in groups:
            eye[begin:end, begin:end] -= 1 / max(end - begin, 1)
        return eye

    def forward(self, token, position):
        n, vectors = token.shape[1], self.embedding()
        x = vectors[token] + vectors[self.d.states + position]
        hidden = torch.ones(n, n).triu(1 - self.d.blind).bool()
        for layer in range(1, self.d.layers + 1):
            segments = [x]
            for head in range(1, self.d.heads + 1):
                score = x @ self.get(f"block{layer}.head{head}.query_key.weight") @ x.transpose(1, 2)
                weight = score.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
                segments.append(weight @ x)
            x = torch.cat(segments, -1)
        return x @ self.get("unembedding.weight")


class Library(torch.nn.Module):
    """The decoder from torch's own modules, loaded with the dump's weights."""

    def __init__(self, d):
        super().__init__()
        self.d, w = d, d.before
        self.token = torch.nn.Embedding.from_pretrained(w["token.weight"].clone(), freeze=False)
        self.position = torch.nn.Embedding.from_pretrained(w["position.weight"].clone(), freeze=False)
        self.blocks = torch.nn.ModuleList(self.make_block(layer) for layer in range(1, d.layers + 1))
        self.norm = torch.nn.LayerNorm(d.d_model).to(d.dtype) if d.norm == "pre" else None
        self.head = torch.nn.Linear(d.d_model, d.states).to(d.dtype)
        with torch.no_grad():
            if self.norm is not None:
                self.norm.weight.copy_(w["norm.gain"])
                self.norm.bias.copy_(w["norm.shift"])
            self.head.weight.copy_(w["unembedding.weight"].T)
            self.head.bias.copy_(w["unembedding.bias"])

    def make_block(self, layer):
        d, w = self.d, {k.split(".", 1)[1]: v for k, v in self.d.before.items() if k.startswith(f"block{layer}.")}
        b = torch.nn.TransformerEncoderLayer(d.d_model, d.heads, d.d_mlp, dropout=0.0, activation=d.activation,
                                             batch_first=True, norm_first=d.norm == "pre").to(d.dtype)
        qkv = ("query", "key", "value")
        with torch.no_grad():
            b.self_attn.in_proj_weight.copy_(torch.cat([w[f"attention.{p}.weight"].T for p in qkv]))
            b.self_attn.in_proj_bias.copy_(torch.cat([w[f"attention.{p}.bias"] for p in qkv]))
            for module, name in ((b.self_attn.out_proj, "attention.output"), (b.linear1, "mlp.up"),
                                 (b.linear2, "mlp.down")):
                module.weight.copy_(w[name + ".weight"].T)
                module.bias.copy_(w[name + ".bias"])
            for module, name in ((b.norm1, "norm1"), (b.norm2, "norm2")):
                module.weight.copy_(w[name + ".gain"])
                module.bias.copy_(w[name + ".shift"])
        return b

    def forward(self, token, _):
        n = token.shape[1]
        mask = torch.ones(n, n).triu(1).bool()
        x = self.token(token) + self.position(torch.arange(n))
        for b in self.blocks:
            x = b(x, src_mask=mask)
        return self.head(x if self.norm is None else self.norm(x))

    def dump(self):
        out = {"token.weight": self.token.weight, "position.weight": self.position.weight,
               "unembedding.weight": self.head.weight.T, "unembedding.bias": self.head.bias}
        if self.norm is not None:
            out["norm.gain"], out["norm.shift"] = self.norm.weight, self.norm.bias
        for i, b in enumerate(self.blocks, 1):
            name = f"block{i}."
            for k, part in enumerate(("query", "key", "value")):
                rows = slice(k * self.d.d_model, (k + 1) * self.d.d_model)
                out[f"{name}attention.{part}.weight"] = b.self_attn.in_proj_weight[rows].T
                out[f"{name}attention.{part}.bias"] = b.self_attn.in_proj_bias[rows]
            for module, part in ((b.self_attn.out_proj, "attention.output"), (b.linear1, "mlp.up"),
                                 (b.linear2, "mlp.down")):
                out[f"{name}{part}.weight"], out[f"{name}{part}.bias"] = module.weight.T, module.bias
            for module, part in ((b.norm1, "norm1"), (b.norm2, "norm2")):
                out[f"{name}{part}.gain"], out[f"{name}{part}.shift"] = module.weight, module.bias
        return {k: v.detach() for k, v in out.items()}


def loss_of(d, logits, target, weight):
    rows = target >= 0
    weight = weight[:, None].expand_as(target)[rows]
    logits, target = logits[rows], target[rows]
    if d.loss_kind == "cross_entropy":
        each = F.cross_entropy(logits, target, reduction="none")
    else:
        square = (logits - F.one_hot(target, logits.shape[-1]).to(d.dtype)) ** 2
        each = square.mean(-1) if d.loss_kind == "mse" else square.sum(-1) / 2
    return (weight * each).sum() / weight.sum()


def train(d, model):
    lr, decay = float(d.key["lr"]), float(d.key["weight_decay"])
    if d.optimizer == "adamw":
        betas, eps = (float(d.key["beta1"]), float(d.key["beta2"])), float(d.key["eps"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=betas, eps=eps, weight_decay=decay)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=float(d.key["momentum"]), weight_decay=decay)
    losses = []
    for token, target, position, weight in d.batches:
        optimizer.zero_grad()
        loss = loss_of(d, model(token, position), target, weight)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def compare(name, d, kind, losses, weights):
    """Returns the faults. A key's bias adds the same to all scores of a query: its gradient is exactly zero, and AdamW in
    float32 divides rounding noise by its own size, so there it is compared with nothing."""
    tolerance = 1e-10 if d.dtype == torch.float64 else 1e-5
    faults, worst_loss, worst_weight = [], np.abs(losses - d.loss).max(), 0.0
    if not worst_loss <= tolerance:
        faults.append(f"{name} ({kind}): losses differ by {worst_loss:.2e}: {d.loss} against {losses}")
    assert set(weights) == set(d.after)
    for tensor, value in weights.items():
        if tensor.endswith("attention.key.bias") and d.optimizer == "adamw" and d.dtype == torch.float32:
            continue
        error = (value - d.after[tensor]).abs().max().item()
        moved = (d.before[tensor] - d.after[tensor]).abs().max().item()
        worst_weight = max(worst_weight, error)
        if not error <= tolerance:
            faults.append(f"{name} ({kind}): {tensor} is off by {error:.2e}")
        if not moved > 100 * tolerance and not tensor.endswith("attention.key.bias"):
            faults.append(f"{name}: {tensor} moved by {moved:.2e} only, too little to show anything")
    if os.environ.get("VERBOSE"):
        print(f"# {name} ({kind}): losses within {worst_loss:.1e}, weights within {worst_weight:.1e}")
    return faults


def check(directory, name):
    d = Dump(os.path.join(directory, name))
    d.loss_kind = d.key["loss"]
    if d.kind:
        models = [("attention only", AttentionOnly(d))]
    else:
        models = [("formulas", Formulas(d))]
    if not d.kind and d.norm != "none" and d.bias and d.d_mlp and not d.tied:
        models.append(("torch modules", Library(d)))
    faults = []
    for kind, model in models:
        losses = train(d, model)
        faults += compare(name, d, kind, losses, model.dump())
    return faults


def main():
    program = os.path.join(os.environ.get("BUILD", "build"), "tests/model/test_torch_dump")
    bad = False
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, directory], check=True, stdout=subprocess.DEVNULL)
        names = sorted(f[:-4] for f in os.listdir(directory) if f.endswith(".txt"))
        assert names, "nothing was written"
        for name in names:
            faults = check(directory, name)
            for fault in faults:
                print(fault, file=sys.stderr)
            print("not ok" if faults else "ok", "torch_" + name)
            bad = bad or bool(faults)
    return bad


sys.exit(main())
