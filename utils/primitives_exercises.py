"""Checks of the exercises on few examples and few numbers: each likely wrong answer has a message of its own."""

from __future__ import annotations

import math
from collections.abc import Callable


def reads_across(attempt: Callable) -> None:
    """Exercise 9.1: examples at which a curve reaches an accuracy, ``attempt(sizes, accuracies, target)``."""
    sizes, known = [10, 40, 160, 640], [0.3, 0.4, 0.6, 0.7]
    for target, low, high, share in ((0.5, 40, 160, 0.5), (0.35, 10, 40, 0.5), (0.675, 160, 640, 0.75)):
        found, right = attempt(list(sizes), list(known), target), low * (high / low) ** share
        assert found is not None and math.isfinite(found), f"{target} is reached between {low} and {high} examples"
        mistakes = {
            "between two sizes the curve rises with log n: interpolate there": low + share * (high - low),
            "this is the next size that was measured: interpolate": high,
            "this is the last size below the target: interpolate": low,
            "this is a logarithm: go back to examples": math.log(right),
        }
        for message, wrong in mistakes.items():
            assert abs(found - wrong) > 1e-6, message
        assert abs(found - right) < 1e-6 * right, f"target {target}: {right:.1f} examples, not {found:.1f}"
    for target, measured in ((0.4, 40), (0.7, 640), (0.3, 10)):
        found = attempt(list(sizes), list(known), target)
        assert abs(found - measured) < 1e-6, f"{target} was measured, at {measured} examples: at the target is enough"
    early = attempt(list(sizes), list(known), 0.2)
    assert early == 10, f"the curve starts above 0.2, so it is there at its first size, 10, not at {early}"
    never = attempt(list(sizes), list(known), 0.9)
    assert never == math.inf, "0.9 is never reached: infinity, no guess beyond the curve"


def counts_adapters(attempt: Callable) -> None:
    """Exercise 9.2: numbers that LoRA trains, ``attempt(layers, matrices, width, rank)``."""
    for layers, matrices, width, rank in ((6, 3, 384, 4), (12, 4, 768, 8), (3, 1, 10, 2)):
        found, right = attempt(layers, matrices, width, rank), layers * matrices * 2 * rank * width
        mistakes = {
            "this is the size of the frozen matrices: LoRA trains A and B": layers * matrices * width**2,
            "A and B are both trained: twice rank × width": right // 2,
            "every layer has its own A and B": matrices * 2 * rank * width,
            "each matrix has its own A and B": layers * 2 * rank * width,
            "A is rank × width: neither factor is square": layers * matrices * 2 * rank**2,
        }
        for message, wrong in mistakes.items():
            assert found != wrong or wrong == right, message
        assert found == right, (
            f"{layers} layers, {matrices} matrices, width {width}, rank {rank}: {right:,}, not {found}"
        )


def finds_d90(attempt: Callable) -> None:
    """Exercise 9.3: intrinsic dimension, ``attempt(accuracies, full)`` with d → accuracy."""
    cases = (
        ({1000: 0.58, 10: 0.30, 100: 0.55, 10_000: 0.61}, 0.60, 100),
        ({10: 0.20, 100: 0.50, 1000: 0.56, 10_000: 0.70}, 0.60, 1000),
        ({5: 0.85, 50: 0.92}, 0.90, 5),
    )
    for accuracies, full, right in cases:
        found = attempt(dict(accuracies), full)
        of_best = min(d for d, a in accuracies.items() if a >= 0.9 * max(accuracies.values()))
        absolute = min((d for d, a in accuracies.items() if a >= 0.9), default=math.inf)
        over = min((d for d, a in accuracies.items() if a >= full), default=math.inf)
        first = next(d for d, a in accuracies.items() if a >= 0.9 * full)
        mistakes = {
            "90 % of full tuning, not of the best d": of_best,
            "90 % of full tuning is enough: d need not reach all of it": over,
            "90 % of what full tuning reaches, not an accuracy of 0.9": absolute,
            "the smallest such d: the table need not be sorted": first,
            "this is the largest d": max(accuracies),
        }
        for message, wrong in mistakes.items():
            assert found != wrong or wrong == right, message
        assert found == right, f"{accuracies}, full {full}: {right}, not {found}"
    assert attempt({10: 0.2, 100: 0.3}, 0.6) == math.inf, "no d reaches 90 %: infinity, no guess"
