"""Synthetic retrieval: write pairs, ask for one. The tasks, a small model whose memory follows a rule, its losses.

After the two retrieval settings of Schlag, Irie and Schmidhuber 2021 (arXiv 2102.11174), in small. Setting 1: each
symbol is written once; can slow weights learn keys that do not disturb each other? Setting 2: symbols come again with
another value; can the memory forget the old one?
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from utils import fast_weights as fw

FEATURES = {
    "identity": fw.identity,
    "elu + 1": fw.elu_plus_one,
    "DPFP-1": lambda x: fw.dpfp(x, 1),
    "DPFP-2": lambda x: fw.dpfp(x, 2),
    "DPFP-3": lambda x: fw.dpfp(x, 3),
}
RULES = ("sum", "decay", "delta", "softmax", "softmax with positions")


class KeyTable(nn.Module):
    """Setting 1: learned keys and queries, one of each a symbol; the memory stores one random value under each key.

    n: symbols; d_key: width of a key; feature: a name in ``FEATURES``, or "softmax" for softmax attention. The sum rule
    with a normaliser, as in linear attention. Forward: values (batch, n, d_value) → what is read back, the same shape.
    """

    def __init__(self, n: int, d_key: int, feature: str, seed: int = 0):
        super().__init__()
        if feature not in (*FEATURES, "softmax"):
            raise ValueError(f"feature must be one of {', '.join((*FEATURES, 'softmax'))}, got {feature!r}")
        generator = torch.Generator().manual_seed(seed)
        start = torch.randn(n, d_key, generator=generator)
        self.keys, self.queries = nn.Parameter(start), nn.Parameter(start.clone())
        self.feature = feature

    def weights(self) -> Tensor:
        """The share of each stored value in each read-out: (n queries, n keys). The identity matrix is perfect."""
        if self.feature == "softmax":
            return (self.queries @ self.keys.T / self.keys.shape[1] ** 0.5).softmax(-1)
        phi = FEATURES[self.feature]
        keys, queries = phi(self.keys), phi(self.queries)
        if self.feature == "identity":  # signed: no sum to divide by
            return normalize(queries, dim=-1) @ normalize(keys, dim=-1).T
        return queries @ keys.T / (fw.normaliser(keys, queries) + 1e-6)

    def forward(self, values: Tensor) -> Tensor:
        return self.weights() @ values


def random_values(n: int, d_value: int = 16, batch: int = 32):
    """Setting 1: a function that draws {"values": (batch, n, d_value)}, random signs of length 1, with a generator."""

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        signs = torch.randint(2, (batch, n, d_value), generator=generator) * 2.0 - 1.0
        return {"values": signs / d_value**0.5}

    return draw


def retrieval_error(outputs: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Relative squared error of what is read back, mean over the batch. Reading nothing gives 1."""
    return fw.relative_error(outputs, batch["values"]).mean()


def exact_error(model: nn.Module) -> float:
    """Expected retrieval error of a ``KeyTable`` over all random values: ‖weights − I‖² / n."""
    weights = model.weights().detach()
    return float((weights - torch.eye(len(weights))).square().sum() / len(weights))


def reassigned(keys: int = 20, values: int = 20, writes: int = 40, batch: int = 64):
    """Setting 2: a function that draws a batch: ``writes`` pairs, keys drawn with replacement; ask for a written key.

    {"keys", "values": (batch, writes), "query": (batch,), "labels": (batch,)}: the label is the value written LAST
    under the query. The query is the key of a write chosen at random.
    """

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        k, v = (torch.randint(high, (batch, writes), generator=generator) for high in (keys, values))
        query = k.gather(1, torch.randint(writes, (batch, 1), generator=generator))
        last = ((k == query) * torch.arange(1, writes + 1)).argmax(1, keepdim=True)
        return {"keys": k, "values": v, "query": query[:, 0], "labels": v.gather(1, last)[:, 0]}

    return draw


def blind_ceiling(batch: dict[str, Tensor], values: int = 20) -> float:
    """Setting 2: the best accuracy of any rule that knows what was written under a key, but not in which order.

    It names the value written most often under the key and is right with its share of the writes.
    """
    same = batch["keys"] == batch["query"][:, None]
    counts = torch.zeros(len(same), values).scatter_add_(1, batch["values"], same.float())
    return float((counts.max(1).values / counts.sum(1)).mean())


class Memory(nn.Module):
    """Setting 2: embeddings, slow projections to key, value, query and strength, a memory by ``rule``, a read-out.

    rule: one of ``RULES``. "sum" is linear attention with elu + 1 and a normaliser; "decay" multiplies its memory by a
    learned factor before each write; "delta" has softmax keys (so they sum to 1) and a strength β a pair; "softmax with
    positions" adds a learned number for each place to the scores. Forward: symbols as drawn by ``reassigned`` → logits
    (batch, values).
    """

    def __init__(self, rule: str, keys: int = 20, values: int = 20, writes: int = 40, width: int = 32, seed: int = 0):
        super().__init__()
        if rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
        self.rule = rule
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.symbol, self.content = nn.Embedding(keys, width), nn.Embedding(values, width)
            self.key, self.value = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
            self.query, self.strength = nn.Linear(width, width), nn.Linear(2 * width, 1)
            self.output = nn.Linear(width, values)
        self.places, self.factor = nn.Parameter(torch.zeros(writes)), nn.Parameter(torch.tensor(3.0))

    def forward(self, keys: Tensor, values: Tensor, query: Tensor, labels: Tensor | None = None) -> Tensor:
        pairs = torch.cat([self.symbol(keys), self.content(values)], dim=-1)
        k, v, q = self.key(pairs), self.value(pairs), self.query(self.symbol(query))[:, None]
        return self.output(self._read(pairs, k, v, q)[:, 0])

    def _read(self, pairs: Tensor, k: Tensor, v: Tensor, q: Tensor) -> Tensor:
        if self.rule.startswith("softmax"):
            scores = q @ k.mT / k.shape[-1] ** 0.5
            return (scores + self.places if "positions" in self.rule else scores).softmax(-1) @ v
        if self.rule == "delta":
            k, q = k.softmax(-1), q.softmax(-1)
            return fw.read(fw.delta_rule(k, v, self.strength(pairs)[..., 0].sigmoid()), q)
        k, q = fw.elu_plus_one(k), fw.elu_plus_one(q)
        if self.rule == "decay":
            age = torch.arange(k.shape[-2] - 1, -1, -1, device=k.device)
            k = k * (self.factor.sigmoid() ** age)[:, None]
        return fw.linear_attention(q, k, v)


def naming_loss(outputs: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Cross-entropy of the value asked for."""
    return cross_entropy(outputs, batch["labels"])


@torch.no_grad()
def accuracy(model: nn.Module, batch: dict[str, Tensor]) -> float:
    """Share of the batch whose most likely value is the right one."""
    return float((model(**batch).argmax(-1) == batch["labels"]).float().mean())
