"""What the optional exercises of Lab 3 ask, as in ``utils.lab3``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from utils.pruned_retrieval import interval
from utils.pruning_costs import predicted_flops
from utils.search_index import recall, reciprocal_rank

QUERIES = 2000


def compares_the_same_queries(attempt: Callable) -> None:
    """L3.6: attempt(before, after) → (low, high): 95 % bootstrap interval of the change of recall@1, over queries."""
    ratios = []
    for seed in (1, 2):
        before, after = _places(seed)
        found = attempt(before.clone(), after.clone())
        assert hasattr(found, "__len__") and len(found) == 2, "return two numbers: low, high"
        low, high = (float(each) for each in found)
        _looks_at_the_change(before, after, low, high)
        right = interval(before, after, draws=4000)
        ratios.append((high - low) / (right[1] - right[0]))
    ratio = float(np.mean(ratios))
    said = f"your interval is {ratio:.1f} times as wide as it should be"
    assert ratio > 0.05, f"{said}: every draw holds the same queries. Draw with replacement"
    level = "Take the 2.5 % and 97.5 % quantiles, and draw as many queries as there are"
    assert ratio > 0.88, f"{said}. {level}"
    assert ratio < 1.36, (
        f"{said}: you drew queries for before and after apart, or too few. "
        "Draw as many queries as there are, and compare the same ones"
    )
    assert ratio < 1.15, f"{said}. {level}"


def _places(seed: int) -> tuple[Tensor, Tensor]:
    """Places of the same queries before and after: some right ones fall to place 2, some wrong ones rise to 3."""
    generator = torch.Generator().manual_seed(seed)
    before = torch.where(torch.rand(QUERIES, generator=generator) < 0.6, 1, 5)
    moved = torch.rand(QUERIES, generator=generator) < 0.12
    return before, torch.where(moved, torch.where(before == 1, 2, 3), before)


def _looks_at_the_change(before: Tensor, after: Tensor, low: float, high: float) -> None:
    """The interval holds the change of recall@1, and no other change."""
    change = recall(after) - recall(before)
    assert low <= high, f"low is {low:.3f} and high is {high:.3f}: swap them"
    assert not (low in (-1.0, 0.0, 1.0) and high in (-1.0, 0.0, 1.0) and low < high), (
        f"{low:g} to {high:g}: those are quantiles over single queries. Take the mean of each draw first"
    )
    assert low <= change <= high or not low <= -change <= high, (
        "the change is after minus before: yours has the sign of the reverse"
    )
    others = {
        "you averaged places: only place 1 counts": float((after - before).double().mean()),
        "you averaged reciprocal places: only place 1 counts": reciprocal_rank(after) - reciprocal_rank(before),
        "that is recall@1 after, not its change": recall(after),
        "that is recall@1 before, not its change": recall(before),
    }
    for mistake, mean in others.items():
        assert low <= change <= high or not low <= mean <= high, f"{low:.3f} to {high:.3f}: {mistake}"
    assert max(abs(low), abs(high)) <= 1, f"a change of recall lies from −1 to 1, got {low:.2f} to {high:.2f}"
    middle = abs(low + high - 2 * change) < 1e-9
    assert low <= change <= high or middle, (
        f"the interval {low:.3f} to {high:.3f} does not hold the change itself, {change:.3f}"
    )


def predicts_the_speed(attempt: Callable) -> None:
    """L3.7: attempt(kept, tokens) → operations with ``kept`` heads over those with all 72 of MiniLM."""
    whole = float(attempt(72, 64))
    assert whole < 2, f"{whole:g} is no share: divide by the operations with 72 heads"
    assert abs(whole - 1) < 1e-9, f"with all 72 heads nothing is saved: expected 1, got {whole:.3f}"
    none = float(attempt(0, 64))
    assert none > 0.01, "without heads the feed-forward blocks are still there: two thirds of all operations"
    assert none <= 1, f"with fewer heads you get {none:.2f}: you divided the other way round"
    for kept, tokens in ((0, 64), (36, 64), (36, 256), (6, 512)):
        right = predicted_flops(kept, 1, tokens) / predicted_flops(72, 1, tokens)
        found = float(attempt(kept, tokens))
        if abs(found - right) > 1e-5:
            _name_the_mistake(found, right, kept, tokens)


def _name_the_mistake(found: float, right: float, kept: int, tokens: int) -> None:
    """Raise the AssertionError that fits a wrong share."""
    case = f"kept={kept}, {tokens} tokens"
    mistakes = {
        kept / 72: "you say that all work is in the heads; the feed-forward blocks stay",
        predicted_flops(kept, 1, 64) / predicted_flops(72, 1, 64): (
            "that is the share of 64 tokens: scores grow with n², so longer texts save more"
        ),
        _left(kept, tokens, pooler=0): "the pooler is missing, 2 d² once",
        _left(kept, tokens, pooler=6): "the pooler counts once, not in each layer",
        _left(kept, tokens, scores=0): "the scores are missing, 4 n² d_h a head",
        _left(kept, tokens, scores=1 / tokens): "scores grow with n², not with n",
        _left(kept, tokens, heads=6): "kept counts of 72 heads: count each once, not once a layer",
        _left(kept, tokens, blocks=1 / 6): "the feed-forward block is there in each of 6 layers",
        1 - right: "that is the share that is saved: return the share that is left",
    }
    for wrong, mistake in mistakes.items():
        assert abs(found - wrong) > 1e-5, f"{case}: {mistake}"
    raise AssertionError(f"{case}: expected {right:.4f}, got {found:.4f}")


def _left(kept: int, n: int, *, scores: float = 1, pooler: float = 1, heads: float = 1, blocks: float = 1) -> float:
    """The share that is left if a term is counted so many times."""
    d, width = 384, 32
    head = heads * (8 * n * d * width + scores * 4 * n**2 * width)
    rest = blocks * 6 * 16 * n * d**2 + pooler * 2 * d**2
    return (kept * head + rest) / (72 * head + rest)
