"""A language model of characters, small enough to train in a minute, with its positions given in one of several ways.

It is trained on windows of one length and read on longer ones. What a longer text changes is told apart by three
readings of the same characters: with all of the text before them, with a window of attention (positions stay), and with
the text cut off (positions start anew). Shapes: ids (batch, n), scores (heads, n, n) or (batch, heads, n, n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from utils.corpora import passages

POSITIONS = ("sinusoidal", "sinusoidal, shifted", "rotary", "relative", "ALiBi", "none")
SHIFT = 448  # "sinusoidal, shifted": a training window starts at a place from 0 to 448
CLIP = 16  # distances from here on share one vector in "relative"


def alphabet(texts: Sequence[str], size: int = 64) -> str:
    """The ``size`` − 1 most frequent characters, most frequent first; all others share the code ``size`` − 1."""
    counts = Counter("".join(texts))
    return "".join(sorted(counts, key=lambda c: (-counts[c], c))[: size - 1])


def encode(text: str, letters: str) -> Tensor:
    """Codes of a text, int64 (characters,): the place in ``letters``, or its length for what is not there."""
    place = {letter: code for code, letter in enumerate(letters)}
    return torch.tensor([place.get(letter, len(letters)) for letter in text])


def windows(codes: Tensor, n: int, stride: int) -> Tensor:
    """Stretches (count, n + 1) of a text, one every ``stride``: n characters to read and the next of each."""
    if len(codes) <= n:
        raise ValueError(f"a window of {n} characters and the next one does not fit into {len(codes)}")
    return codes.unfold(0, n + 1, stride)


def batches(codes: Tensor, n: int = 64, batch: int = 16) -> Callable[[torch.Generator], dict[str, Tensor]]:
    """A drawer of training batches: windows that begin anywhere, {"ids": (batch, n + 1)}."""
    every = windows(codes, n, 1)
    return lambda generator: {"ids": every[torch.randint(len(every), (batch,), generator=generator)]}


def sinusoids(n: int, width: int) -> Tensor:
    """Sines and cosines of falling frequencies, (n, width). Source: Vaswani et al. 2017, section 3.5."""
    angles = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def rotate(x: Tensor) -> Tensor:
    """Turn neighbouring pairs of numbers by an angle that grows with the place: (..., n, d_head) → the same shape.

    The product of a turned query and a turned key depends on the places only through their distance. Source: Su et al.
    2021 (arXiv 2104.09864).
    """
    table = sinusoids(x.shape[-2], x.shape[-1])
    sine, cosine, even, odd = table[:, ::2], table[:, 1::2], x[..., ::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)


def alibi(n: int, heads: int) -> Tensor:
    """Minus a slope times the distance: (heads, n, n). Slopes 2^(−8h/H). Source: Press et al. 2022, section 3."""
    place = torch.arange(n)
    slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
    return -slopes[:, None, None] * (place[:, None] - place).abs()


class Layer(nn.Module):
    """Norm, causal attention, norm, feed-forward network, each with a skip connection."""

    def __init__(self, width: int, heads: int, positions: str):
        super().__init__()
        self.heads, self.positions = heads, positions
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        if positions == "relative":
            self.distance = nn.Parameter(torch.randn(CLIP + 1, width // heads) * 0.1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """q, k: (batch, heads, n, d_head) → (batch, heads, n, n), before the mask."""
        n, scale = q.shape[-2], q.shape[-1] ** -0.5
        if self.positions == "rotary":
            q, k = rotate(q), rotate(k)
        found = q @ k.mT * scale
        if self.positions == "ALiBi":
            found = found + alibi(n, self.heads)
        if self.positions == "relative":  # Shaw et al. 2018: q · (k + a), the part of the keys
            place = torch.arange(n)
            far = (place[:, None] - place).clamp(0, CLIP).expand(found.shape)
            found = found + (q @ self.distance.mT * scale).gather(-1, far)
        return found

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (batch, n, width), mask: (n, n), True where a key may be read → the shape of x."""
        parts = self.project(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, n, d_head)
        weights = self.scores(q, k).masked_fill(~mask, -torch.inf).softmax(-1)
        x = x + self.output((weights @ v).transpose(1, 2).flatten(2))
        return x + self.ffn(self.norms[1](x))


class TinyLanguageModel(nn.Module):
    """Predicts the next character. positions: one of ``POSITIONS``; "none" has only the causal mask.

    "sinusoidal, shifted" differs in training alone: each batch starts at another place.
    Raises ValueError for other positions and for heads that do not share the width.
    """

    def __init__(self, positions: str, *, seed: int = 0, vocabulary: int = 64, width: int = 64, heads: int = 4):
        super().__init__()
        if positions not in POSITIONS:
            raise ValueError(f"positions must be one of {', '.join(map(repr, POSITIONS))}, got {positions!r}")
        if width % heads or width // heads % 2:
            raise ValueError(f"width {width} must be {heads} heads of one even width")
        self.positions = positions
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, width)
            self.layers = nn.ModuleList([Layer(width, heads, positions) for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids: Tensor, window: int | None = None) -> Tensor:
        """Loss of each next character in nats: ids (batch, n + 1) → (batch, n).

        window: a query sees itself and the window − 1 places before it, in every layer (two layers together reach
        2 · window − 1 characters); all places before it if None.
        """
        n = ids.shape[1] - 1
        x = self.embedding(ids[:, :-1])
        if self.positions.startswith("sinusoidal"):
            shifted = self.training and self.positions != "sinusoidal"
            start = int(torch.randint(SHIFT + 1, ())) if shifted else 0
            x = x + sinusoids(start + n, x.shape[-1])[start:]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        mask = mask if window is None else mask.triu(1 - window)
        for layer in self.layers:
            x = layer(x, mask)
        logits = self.head(self.norm(x))
        return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), n)


def corpus(held_out: int = 73, size: int = 64) -> tuple[Tensor, Tensor]:
    """Codes of the book's passages, (characters,): those for training, and the last ``held_out`` for testing."""
    texts = passages()
    letters = alphabet(texts[:-held_out], size)
    train, test = (encode("\n".join(part), letters) for part in (texts[:-held_out], texts[-held_out:]))
    return train, test


def bigram_loss(train: Tensor, test: Tensor, size: int = 64, add: float = 0.1) -> float:
    """Mean loss in nats of the next character of ``test`` by counts of pairs in ``train``, ``add`` added to each count.

    The null model without positions and with one character of context. train, test: codes below ``size``.
    """
    pairs = torch.bincount(train[:-1] * size + train[1:], minlength=size**2).view(size, size) + add
    logs = (pairs / pairs.sum(1, keepdim=True)).double().log()
    return float(-logs[test[:-1], test[1:]].mean())


def mean_loss(losses: Tensor, _batch: dict) -> Tensor:
    """The loss that ``utils.training.fit`` asks for: the mean of what the model returns."""
    return losses.mean()


@torch.no_grad()
def position_losses(model: nn.Module, ids: Tensor, window: int | None = None, batch: int = 16) -> Tensor:
    """Loss in nats of each window at each position: (count, n + 1) → (count, n)."""
    model.eval()
    return torch.cat([model(ids=part, window=window) for part in ids.split(batch)])


@torch.no_grad()
def cut_losses(model: nn.Module, ids: Tensor, context: int = 64, batch: int = 512) -> Tensor:
    """The same characters, each read with only the ``context`` characters before it: (count, n + 1) → (count, n).

    Each is the last of a text of its own, so positions start anew. The first ``context`` − 1 positions of a window
    have less before them: they are read as they stand.
    """
    first = position_losses(model, ids[:, : context + 1])
    pieces = ids.unfold(1, context + 1, 1)[:, 1:]  # (count, n − context, context + 1)
    last = torch.cat([model(ids=part)[:, -1] for part in pieces.flatten(0, 1).split(batch)])
    return torch.cat([first, last.view(len(ids), -1)], dim=1)


def by_blocks(losses: Tensor, size: int = 64) -> Tensor:
    """Means over blocks of neighbouring positions: (count, n) → (⌈n / size⌉,)."""
    short = -losses.shape[1] % size
    blocks = pad(losses.mean(0), (0, short), value=torch.nan).view(-1, size)
    return blocks.nanmean(1)
