"""Checks of the exercises on quadratic cost: each wrong answer that is likely has a message of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from utils.efficient_attention import eager, window_mask
from utils.watching import Results


def is_the_quadratic_share(attempt: Callable) -> None:
    """Exercise 10.1: the share of n² in a layer's operations, ``attempt(n, d, f)`` → number."""
    for n, d, f in ((100, 64, 96), (512, 768, 3072), (4608, 768, 3072)):
        found = float(attempt(n, d, f))
        square, linear, ffn = 4 * n * n * d, 8 * n * d * d, 4 * n * d * f
        right = square / (square + linear + ffn)
        mistakes = {
            "this is the ratio to the rest: divide by the sum of all": square / (linear + ffn),
            "Q Kᵀ and P V: there are two products of n² d": 0.5 * square / (0.5 * square + linear + ffn),
            "W_O is missing: there are four projections": square / (square + 0.75 * linear + ffn),
            "the feed-forward network has two matrices": square / (square + linear + ffn / 2),
            "the projections are missing": square / (square + ffn),
            "the feed-forward network is missing": square / (square + linear),
            "the feed-forward network has the width f, which need not be 4d": square
            / (square + linear + 16 * n * d * d),
            "a score is not an operation: Q Kᵀ and P V cost 4 n² d": n * n / (n * n + linear + ffn),
            "this is the share that is linear in n": 1 - right,
            "this is in per cent: return a number from 0 to 1": 100 * right,
        }
        for message, wrong in mistakes.items():
            assert abs(found - wrong) > 1e-9 or abs(wrong - right) < 1e-9, message
        assert abs(found - right) < 1e-9, f"n = {n}, d = {d}, f = {f}: {right:.4f}, not {found:.4f}"


def counts_a_window(attempt: Callable) -> None:
    """Exercise 10.2: scores of a window, ``attempt(n, reach)`` → whole number."""
    for n, reach in ((20, 3), (512, 16), (5, 0), (5, 3), (6, 5), (4, 9)):
        right, found = int(window_mask(n, reach).sum()), attempt(n, reach)
        whole, corner = n * (2 * reach + 1), reach * (reach + 1) // 2
        mistakes = {
            "tokens near the two edges have fewer keys": whole,
            "there are two edges": whole - corner,
            "a token also reads itself": whole - 2 * corner - n,
            "a window has a left and a right side": n * (reach + 1) - corner,
            "at each edge reach, reach − 1, …, 1 keys are missing: reach (reach + 1) / 2": whole - reach**2,
        }
        if reach < n <= 2 * reach + 1:
            mistakes["the first token does not reach the last, although the window is as wide as the text"] = n * n
        if reach >= n:
            mistakes = {"the window is wider than the text: it cannot hold more than n²": whole - 2 * corner}
        for message, wrong in mistakes.items():
            assert found == right or found != wrong, f"n = {n}, reach = {reach}: {message}"
        assert found == right, f"n = {n}, reach = {reach}: {right} expected, not {found}"
        assert not isinstance(found, float), f"{found} is not a whole number: use // in place of /"
    for n in (
        3000,
        100_000,
        1_000_000,
    ):  # step by step: what grows with n is refused before it takes long or much memory
        seconds = _quickest(attempt, n, 500)
        assert seconds < 0.002, f"n = {n:,} takes {1000 * seconds:.0f} ms: write a formula, no loop and no mask"
    assert attempt(10**9, 500) == 10**9 * 1001 - 500 * 501, "n = 10⁹: the result is off; stay with whole numbers"


def _quickest(attempt: Callable, n: int, reach: int) -> float:
    """Processor time of the quickest of three calls, in seconds; one is enough when it takes long."""
    found = []
    while len(found) < 3 and (not found or found[0] < 0.1):
        began = time.process_time()
        attempt(n, reach)
        found.append(time.process_time() - began)
    return min(found)


def is_exact_in_blocks(attempt: Callable) -> None:
    """Exercise 10.3: softmax attention of one query block by block, ``attempt(query, keys, values, block)`` → (d,)."""
    k, v = torch.arange(1600.0).sin().view(2, 100, 8)
    k = k * torch.linspace(0.1, 4, 100)[:, None]  # the largest scores come late
    q = torch.arange(8.0).cos() * 2
    with Results() as results:
        found = torch.as_tensor(attempt(q, k, v, 16))
    assert found.shape == (8,), f"a vector of 8 is expected, not {tuple(found.shape)}"
    right, scores = eager(q[None], k, v)[0], k @ q / 8**0.5
    pairs = list(zip(k.split(16), v.split(16), strict=True))
    blocks = [eager(q[None], a, b)[0] for a, b in pairs]
    mistakes = {
        "scores are divided by √d": (k @ q).softmax(0) @ v,
        "scores are divided by √d, not by √block": (k @ q / 16**0.5).softmax(0) @ v,
        "100 keys in blocks of 16: the last 4 keys are left out": eager(q[None], k[:96], v[:96])[0],
        "this is the mean over blocks: a block counts by its sum of exponentials": sum(blocks) / len(blocks),
        "only the last block is left: add each block to the sums": blocks[-1],
        "divide by the sum of exponentials, at the end": right * (scores - scores.max()).exp().sum(),
        "the sums are not rescaled: multiply both by e^(old maximum − new maximum)": _unscaled(q, pairs),
    }
    for message, wrong in mistakes.items():
        assert not torch.allclose(found, wrong, rtol=1e-3, atol=1e-5), message
    assert torch.allclose(found, right, atol=1e-4), "not softmax attention: rescale both sums when the maximum grows"
    large = torch.as_tensor(attempt(60 * q, k, v, 16))
    assert torch.isfinite(large).all(), "large scores overflow: take the maximum off before exp"
    shorter = torch.as_tensor(attempt(q, k, v, 7))
    assert torch.allclose(shorter, right, atol=1e-4), "blocks of 7: the last one is shorter"
    low, falling = torch.full((100,), -200.0), torch.zeros(100).index_fill(0, torch.tensor([0]), 100.0)
    for scores, message in (
        (low, "start with a maximum of −∞, not of 0: when all scores are −200, e^(−200 − 0) is 0, and 0/0 comes out"),
        (
            falling,
            "keep the largest score so far, not that of this block: 100 first and 0 later give e^(100 − 0), too large",
        ),
    ):
        keys = scores[:, None] * q * 8**0.5 / (q @ q)  # keys with these scores
        found = torch.as_tensor(attempt(q, keys, v, 16))
        assert torch.allclose(found, eager(q[None], keys, v)[0], atol=1e-4), message
    held = [shape for shape in results.shapes if shape and max(shape) == 100 and shape != (100, 8)]
    assert not held, f"right, but a result of shape {held[0]} holds the scores of all keys at once"


def _unscaled(q: torch.Tensor, pairs: list) -> torch.Tensor:
    """What comes out when each block takes off its own running maximum and the sums stay as they are."""
    top, total, output = torch.tensor(-torch.inf), torch.tensor(0.0), torch.zeros_like(q)
    for k, v in pairs:
        scores = k @ q / len(q) ** 0.5
        top = torch.maximum(top, scores.max())
        weights = (scores - top).exp()
        total, output = total + weights.sum(), output + weights @ v
    return output / total
