"""The checks of chapter 10 let right answers through, and name the mistakes of wrong ones."""

from __future__ import annotations

import time

import pytest
import torch

from utils import cost_exercises as exercises
from utils.efficient_attention import window_mask
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
    assert check("10", answer, test).status == PASSED, check("10", answer, test)
    assert check("10", lambda *_: None, test).status == "not attempted yet"


def carried(query, keys, values, block, *, start=-torch.inf, block_maximum=False, cut=False, width=None):
    """Block by block; with another start of the maximum, the maximum of each block alone, the rest cut, or √width."""
    top, total, output = torch.tensor(start), torch.tensor(0.0), torch.zeros_like(query)
    for k, v in zip(keys.split(block), values.split(block), strict=True):
        if cut and len(k) < block:
            break
        scores = k @ query / (width or len(query)) ** 0.5
        new = scores.max() if block_maximum else torch.maximum(top, scores.max())
        old, weights = (top - new).exp(), (scores - new).exp()
        total, output, top = total * old + weights.sum(), output * old + weights @ v, new
    return output / total


def share_by_loop(n, reach):
    return sum(min(n - 1, i + reach) - max(0, i - reach) + 1 for i in range(n))


def share_by_two_loops(n, reach):
    return sum(abs(i - j) <= reach for i in range(n) for j in range(max(0, i - reach), min(n, i + reach + 1)))


def share_by_mask(n, reach):
    return int(window_mask(n, reach).sum())


def share_by_vector(n, reach):
    place = torch.arange(n)
    return int(((place + reach).clamp(max=n - 1) - (place - reach).clamp(min=0) + 1).sum())


def formula(n, reach):
    reach = min(reach, n - 1)
    return n * (2 * reach + 1) - reach * (reach + 1)


@pytest.mark.parametrize("answer", [share_by_loop, share_by_two_loops, share_by_mask, share_by_vector])
def test_what_grows_with_the_text_is_refused_and_does_not_hang(answer):
    began = time.process_time()
    result = check("10", answer, exercises.counts_a_window)
    assert result.status == "not yet right" and "no loop and no mask" in result.message, result
    assert time.process_time() - began < 5


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
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + 6 * d), "need not be 4d"),
        (exercises.is_the_quadratic_share, lambda n, d, f: n / (n + d + f), "n = 100, d = 64, f = 96"),
        (
            exercises.is_the_quadratic_share,
            lambda n, d, f: n / (n + 8 * d * d + 4 * d * f),
            "a score is not an operation",
        ),
        (exercises.is_the_quadratic_share, lambda n, d, f: 100 * share(n, d, f), "per cent"),
        (exercises.is_the_quadratic_share, lambda n, d, f: 1 - share(n, d, f), "linear in n"),
        (exercises.counts_a_window, lambda n, w: n * n if n <= 2 * w + 1 else formula(n, w), "does not reach the last"),
        (exercises.counts_a_window, lambda n, w: formula(n, w) / 1, "not a whole number"),
        (exercises.counts_a_window, lambda n, w: n * (2 * w + 1) - w * w, "at each edge"),
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
        (exercises.is_exact_in_blocks, lambda *x: carried(*x, start=0.0), "start with a maximum of −∞"),
        (exercises.is_exact_in_blocks, lambda *x: carried(*x, block_maximum=True), "not that of this block"),
        (exercises.is_exact_in_blocks, lambda *x: carried(*x, cut=True), "the last 4 keys are left out"),
        (exercises.is_exact_in_blocks, lambda *x: carried(*x, width=16), "not by √block"),
        (exercises.is_exact_in_blocks, mean_of_blocks, "mean over blocks"),
        (exercises.is_exact_in_blocks, whole_softmax, "holds the scores of all keys"),
        (exercises.is_exact_in_blocks, lambda *x: blocks(*x)[None], "a vector of 8"),
    ],
)
def test_a_wrong_answer_learns_what_is_wrong(test, answer, message):
    result = check("10", answer, test)
    assert result.status == "not yet right" and message in result.message, result
