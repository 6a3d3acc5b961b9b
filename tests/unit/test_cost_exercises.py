"""The checks of chapter 10 let right answers through, and name the mistakes of wrong ones."""

from __future__ import annotations

import pytest
import torch

from utils import cost_exercises as exercises
from utils.exercises import PASSED, check


def share(n, d, f):
    return n / (n + 2 * d + f)


def window(n, reach):
    return sum(n - abs(j) for j in range(-reach, reach + 1) if abs(j) < n) if n < 10**6 else n * 1001 - 500 * 501


def blocks(query, keys, values, block, *, rescale=True, divide=True, shift=True, scale=True, add=True):
    top, total, output = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros_like(query)
    for start in range(0, len(keys), block):
        scores = keys[start : start + block] @ query / (len(query) ** 0.5 if scale else 1)
        new = torch.maximum(top, scores.max()) if shift else torch.tensor(0.0)
        old = (top - new).exp() if rescale and shift and start else torch.tensor(1.0)
        weights = (scores - new).exp()
        kept = old if add else 0
        total, output = total * kept + weights.sum(), output * kept + weights @ values[start : start + block]
        top = new
    return output / total if divide else output


CHECKS = {
    exercises.is_the_quadratic_share: share,
    exercises.counts_a_window: window,
    exercises.is_exact_in_blocks: blocks,
}


@pytest.mark.parametrize(("test", "answer"), CHECKS.items(), ids=lambda each: each.__name__)
def test_a_right_answer_passes_and_a_stub_is_not_attempted(test, answer):
    assert check("10", answer, test).status == PASSED
    assert check("10", lambda *_: None, test).status == "not attempted yet"


def whole_softmax(query, keys, values, block):
    return (keys @ query / len(query) ** 0.5).softmax(0) @ values


def mean_of_blocks(query, keys, values, block):
    pairs = zip(keys.split(block), values.split(block), strict=True)
    return torch.stack([whole_softmax(query, k, v, block) for k, v in pairs]).mean(0)


@pytest.mark.parametrize(
    ("test", "answer", "message"),
    [
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (2 * d + f), "divide by the sum of all"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + 4 * d + 2 * f), "two products"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + 1.5 * d + f), "four projections"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + 2 * d), "feed-forward network is missing"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + f), "projections are missing"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + 6 * d), "n = 100, d = 64, f = 96"),
        (exercises.counts_a_window, lambda n, w: n * (2 * w + 1), "near the two edges"),
        (exercises.counts_a_window, lambda n, w: n * (2 * w + 1) - w * (w + 1) // 2, "two edges"),
        (exercises.counts_a_window, lambda n, w: 2 * n * w - w * (w + 1), "reads itself"),
        (exercises.counts_a_window, lambda n, w: n * (w + 1) - w * (w + 1) // 2, "left and a right"),
        (exercises.counts_a_window, lambda n, w: n * (2 * w + 1) - w * (w + 1), "wider than the text"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x, rescale=False), "not rescaled"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x, divide=False), "divide by the sum"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x, shift=False), "overflow"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x, scale=False), "divided by √d"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x, add=False), "only the last block"),
        (exercises.is_exact_in_blocks, mean_of_blocks, "mean over blocks"),
        (exercises.is_exact_in_blocks, whole_softmax, "holds the scores of all keys"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x)[None], "a vector of 8"),
    ],
)
def test_a_wrong_answer_learns_what_is_wrong(test, answer, message):
    result = check("10", answer, test)
    assert result.status == "not yet right" and message in result.message, result
