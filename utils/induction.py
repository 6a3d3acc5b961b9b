"""A tiny attention-only model, a task that needs two layers of it, and scores that show its heads form while it trains.

The task repeats a random segment of random length. To continue the second copy, find the earlier copy of the present
token and read what came after it. Two heads do that together (Olsson et al. 2022, arXiv 2209.11895): one in the first
layer looks at the previous token, one in the second layer, the induction head, at the token after an earlier copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from utils.attention import MultiHeadAttention
from utils.heads import gated
from utils.training import History, fit

VOCABULARY, LENGTH, SEGMENT = 64, 40, (8, 20)  # symbols; tokens of a text; shortest and longest segment
HALF = 0.5  # accuracy at which the task counts as found


class Reading(NamedTuple):
    """logits: (batch, n, vocabulary); attentions: (batch, heads, n, n) a layer, empty where nobody asked for them."""

    logits: Tensor
    attentions: tuple[Tensor, ...] = ()


class Block(nn.Module):
    """Causal attention behind a norm and beside a skip; ``skip`` and ``mlp`` say what else the block has.

    Order reaches it as one learned number for each head and distance back, added to the scores. The factor 8 lets these
    numbers learn eight times as fast as other weights.
    """

    def __init__(self, width: int, heads: int, skip: bool, mlp: bool):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.attention, self.skip = MultiHeadAttention(width, heads), skip
        self.distance = nn.Parameter(torch.zeros(heads, LENGTH))
        inner = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.feed_forward = inner if mlp else None

    def places(self, n: int) -> tuple[Tensor, Tensor]:
        """What a row may read, (n, n), and the bias of each distance, (heads, n, n)."""
        back = torch.arange(n)[:, None] - torch.arange(n)
        return back >= 0, 8 * self.distance[:, back.clamp(min=0)]

    def forward(self, x: Tensor, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """x: (batch, n, width) → the same shape, and the weights (batch, heads, n, n) where asked for."""
        mask, bias = self.places(x.shape[1])
        added, weights = self.attention(self.norm(x), mask=mask, bias=bias, need_weights=need_weights)
        return self.after(x, added), weights

    def after(self, x: Tensor, added: Tensor) -> Tensor:
        """The state behind the block, from the state before it and what its attention adds."""
        x = x + added if self.skip else added
        return x if self.feed_forward is None else x + self.feed_forward(self.norm(x))


class TinyModel(nn.Module):
    """Embedding, a few blocks, a read-out: 42 thousand parameters with two layers of four heads.

    skip, mlp: whether blocks have a skip connection around attention, and a feed-forward part. seed: of the weights.
    The global random state is left as it was. Raises ValueError for a number of heads that does not divide the width.
    """

    def __init__(
        self, layers: int = 2, heads: int = 4, width: int = 64, skip: bool = True, mlp: bool = False, seed: int = 0
    ):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.blocks = nn.ModuleList(Block(width, heads, skip, mlp) for _ in range(layers))
            self.norm = nn.LayerNorm(width, elementwise_affine=False)
            self.output = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: Tensor, scored: Tensor | None = None, need_weights: bool = False) -> Reading:
        """input_ids: (batch, n), n ≤ 40. ``scored`` belongs to the loss and is not read here."""
        x, maps = self.embedding(input_ids), []
        for block in self.blocks:
            x, weights = block(x, need_weights)
            maps.append(weights)
        return Reading(self.output(self.norm(x)), tuple(maps) if need_weights else ())


def repeats(batch: int = 32, length: int = LENGTH) -> Callable[[torch.Generator], dict[str, Tensor]]:
    """A function that draws texts with a generator: a random segment of 8 to 20 tokens, repeated to ``length``.

    {"input_ids": (batch, length), "scored": (batch, length − 1), true where the next token can be known}: those from
    the second token of the second copy on. The first token of the second copy cannot be known, as lengths are random:
    with one fixed length the model could copy by distance and would need no induction.
    """
    if not SEGMENT[1] < length <= LENGTH:
        raise ValueError(f"a text must have {SEGMENT[1] + 1} to {LENGTH} tokens, got {length}")

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        size = torch.randint(SEGMENT[0], SEGMENT[1] + 1, (batch, 1), generator=generator)
        tokens = torch.randint(VOCABULARY, (batch, length), generator=generator)
        place = torch.arange(length)
        return {"input_ids": tokens.gather(1, place % size), "scored": place[1:] > size}

    return draw


def next_token_loss(outputs: Reading, batch: dict[str, Tensor]) -> Tensor:
    """Cross-entropy of the next token where it can be known, in nats."""
    scored = batch["scored"]
    return cross_entropy(outputs.logits[:, :-1][scored], batch["input_ids"][:, 1:][scored])


def accuracy_of(logits: Tensor, batch: dict[str, Tensor]) -> float:
    """Share of the tokens that can be known whose most likely guess is right. Chance is 1/64."""
    right = logits[:, :-1].argmax(-1) == batch["input_ids"][:, 1:]
    return float(right[batch["scored"]].double().mean())


def previous_score(weights: Tensor) -> Tensor:
    """Mean weight on the token before: weights (..., n, n) → (...)."""
    return weights.diagonal(-1, -2, -1).mean(-1)


def follows_a_copy(input_ids: Tensor) -> Tensor:
    """(batch, n, n): true where key j comes right after an earlier copy of the token at query i, j ≤ i."""
    same = input_ids[:, :, None] == pad(input_ids, (1, 0), value=-1)[:, None, :-1]
    return same.tril()


def induction_score(weights: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Weight on all keys that follow an earlier copy, mean over the places scored: (batch, heads, n, n) → (heads,)."""
    found = (weights * follows_a_copy(batch["input_ids"])[:, None]).sum(-1)[..., :-1]  # (batch, heads, n − 1)
    scored = batch["scored"][:, None]
    return (found * scored).sum((0, 2)) / scored.sum()


class Watched(NamedTuple):
    """One look at a model: loss, accuracy, and both scores of every head, (layers, heads) each."""

    loss: float
    accuracy: float
    previous: Tensor
    induction: Tensor


@torch.no_grad()
def watch(model: TinyModel, batch: dict[str, Tensor]) -> Watched:
    """Loss, accuracy and head scores on one batch."""
    read = model(**batch, need_weights=True)
    previous = torch.stack([previous_score(w).mean(0) for w in read.attentions])
    induction = torch.stack([induction_score(w, batch) for w in read.attentions])
    return Watched(float(next_token_loss(read, batch)), accuracy_of(read.logits, batch), previous, induction)


@torch.no_grad()
def accuracy(model: TinyModel, batch: dict[str, Tensor], gates: Tensor | None = None) -> float:
    """Accuracy on one batch, with the heads multiplied by ``gates`` (layers, heads)."""
    with gated(model, torch.ones(shape_of(model)) if gates is None else gates):
        return accuracy_of(model(**batch).logits, batch)


def held_out(batch: int = 64, seed: int = 10_000) -> dict[str, Tensor]:
    """The texts that a model is judged on. Training streams have other seeds."""
    return repeats(batch)(torch.Generator().manual_seed(seed))


def train(
    model: TinyModel,
    seed: int = 0,
    steps: int = 300,
    every: int = 10,
    look: Callable[[TinyModel], object] | None = None,
    gates: Tensor | None = None,
    label: str | None = None,
) -> tuple[History, list]:
    """Train in place on new texts in each step; every ``every`` steps, and before the first, ask ``look(model)``.

    look: ``watch`` on held-out texts by default. gates: heads with gate 0 neither speak nor learn. seed: of the texts.
    Returns the history of the loss and the list of answers.
    """
    batch = held_out()
    look = look or (lambda model: watch(model, batch))
    shape = shape_of(model)
    with gated(model, torch.ones(shape) if gates is None else gates):
        with torch.no_grad():
            seen = [look(model)]

        def ask(model: TinyModel) -> float:
            seen.append(look(model))
            return -len(seen)  # each answer counts as better than the one before, so the last weights are kept

        options = {"steps": steps, "learning_rate": 2e-3, "seed": seed, "evaluate": ask, "every": every}
        history = fit(model, repeats(), next_token_loss, label=label, **options)
    return history, seen


def found_at(accuracies: Sequence[float], every: int = 10, level: float = HALF) -> int | None:
    """The first step at which the accuracy passes ``level``; None if it never does."""
    return next((every * i for i, value in enumerate(accuracies) if value > level), None)


def halfway(curve: Sequence[float], every: int = 10) -> int:
    """The first step at which a curve has passed half of its way from its first value to its last."""
    first, last = curve[0], curve[-1]
    if first == last:
        raise ValueError(f"the curve must end elsewhere than it starts, got {first} at both ends")
    return found_at([(value - first) / (last - first) for value in curve], every)


def shape_of(model: TinyModel) -> tuple[int, int]:
    """(layers, heads) of a tiny model."""
    return len(model.blocks), model.blocks[0].attention.heads


@torch.no_grad()
def one_head_out(model: TinyModel, batch: dict[str, Tensor]) -> Tensor:
    """How much the loss on a batch rises when one head is taken out, for each head: (layers, heads), in nats."""

    def loss(gates: Tensor) -> float:
        with gated(model, gates):
            return float(next_token_loss(model(**batch), batch))

    shape = shape_of(model)
    whole, effects = loss(torch.ones(shape)), torch.zeros(shape)
    for place in torch.ones(shape).nonzero():
        gates = torch.ones(shape)
        gates[tuple(place)] = 0
        effects[tuple(place)] = loss(gates) - whole
    return effects
