"""What the optional exercises of Lab 3 ask, as in ``utils.lab3``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from utils.pruned_retrieval import interval
from utils.pruning_costs import predicted_flops
from utils.search_index import recall


def compares_the_same_queries(attempt: Callable) -> None:
    """L3.6: attempt(before, after) → (low, high): 95 % bootstrap interval of the change of recall@1, over queries."""
    generator = torch.Generator().manual_seed(1)
    before = torch.where(torch.rand(300, generator=generator) < 0.6, 1, 5)
    after = torch.where(torch.rand(300, generator=generator) < 0.1, 9, before)  # some of the right ones are lost
    found = attempt(before, after)
    assert hasattr(found, "__len__") and len(found) == 2, "return two numbers: low, high"
    low, high = (float(each) for each in found)
    change = recall(after) - recall(before)
    assert low <= high, f"low is {low:.3f} and high is {high:.3f}: swap them"
    assert not -high - 0.02 < change < -low + 0.02 or low <= change <= high, (
        "the change is after minus before: the sign"
    )
    assert not (abs(low) > 1 or abs(high) > 1), f"a change of recall lies from −1 to 1, got {low:.2f} to {high:.2f}"
    right = interval(before, after, draws=4000)
    width, expected = high - low, right[1] - right[0]
    assert low <= change <= high, f"the interval {low:.3f} to {high:.3f} does not hold the change itself, {change:.3f}"
    assert width < 1.7 * expected, (
        f"your interval is {width:.3f} wide, expected {expected:.3f}: you drew queries for before and after apart, "
        "or too few. Draw as many queries as there are, and compare the same ones"
    )
    assert width > 0.6 * expected, (
        f"your interval is {width:.3f} wide, expected {expected:.3f}: as many draws as queries"
    )


def predicts_the_speed(attempt: Callable) -> None:
    """L3.7: attempt(kept, tokens) → operations with ``kept`` heads over those with all 72 of MiniLM."""
    whole = float(attempt(72, 64))
    assert abs(whole - 1) < 1e-9, f"with all 72 heads nothing is saved: expected 1, got {whole:.3f}"
    none = float(attempt(0, 64))
    assert none > 0.01, "without heads the feed-forward blocks are still there: two thirds of all operations"
    for kept, tokens in ((0, 64), (36, 64), (36, 256), (6, 512)):
        right = predicted_flops(kept, 1, tokens) / predicted_flops(72, 1, tokens)
        found = float(attempt(kept, tokens))
        assert abs(found - kept / 72) > 1e-3 or abs(found - right) < 1e-3, (
            f"kept={kept}: you say that all work is in the heads; the feed-forward blocks stay"
        )
        flat = predicted_flops(kept, 1, 64) / predicted_flops(72, 1, 64)
        assert tokens == 64 or abs(found - flat) > 2e-3 or abs(found - right) < 2e-3, (
            f"{tokens} tokens give the share of 64 tokens: scores grow with n², so longer texts save more"
        )
        assert abs(found - right) < 2e-3, f"kept={kept}, {tokens} tokens: expected {right:.3f}, got {found:.3f}"
