"""What the last exercises of Lab 2 ask, L2.6 to L2.8, as in ``utils.lab2``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from utils.head_audit import spearman


def draws_texts_again(attempt: Callable) -> None:
    """L2.6: attempt(score, change, draws) → (rank correlation, low, high), texts drawn with replacement."""
    score, change = _noisy()
    rho, low, high = _numbers(attempt(score, change, 300))
    right = spearman(score, change.mean(1))
    pearson = float(torch.corrcoef(torch.stack([score, change.mean(1)]))[0, 1])
    assert abs(rho - pearson) > 1e-4, f"{rho:.3f} is Pearson's: rank both lists first, or call spearman"
    assert abs(rho - right) < 1e-4, (
        f"first comes the correlation of the score with the mean over all texts, {right:.3f}; you return {rho:.3f}"
    )
    assert high > low, "low and high are the same, or turned round: draw WITH replacement, then take two quantiles"
    same = _numbers(attempt(score, change.mean(1, keepdim=True).expand(40, 60), 50))
    assert same[2] - same[1] < 1e-6, "all texts alike, and still an interval: draw columns (texts), not rows (heads)"
    two = score + torch.tensor([[1.0], [-1.0]]) * change[:, 0]  # what each adds to the score cancels in their mean
    assert _numbers(attempt(score, two.T, 60))[2] > 0.99, (
        "of two texts a draw never held both: each draw takes as many texts as there are, any of them"
    )
    drawn, expected = high - low, _width()
    seen = f"{drawn:.2f} against {expected:.2f}"
    assert drawn < 1.35 * expected, f"the interval is too wide, {seen}: quantiles 0.025 and 0.975 of draws of all texts"
    assert drawn > 0.7 * expected, f"the interval is narrow, {seen}: the middle 95 %, quantiles 0.025 and 0.975"
    _ends(attempt)


def _ends(attempt: Callable) -> None:
    """Of three texts, one is drawn three times in 1 of 27 draws: inside the outer 5 %, outside the outer 10 %."""
    score = torch.arange(5.0)
    columns = [[6.0, 1.0, -6.0, -6.0, -6.0], [-6.0, -7.0, -5.0, -6.0, -4.0], [-3.0, 6.0, -9.0, 5.0, 0.0]]
    lowest, highest = (spearman(score, each) for each in columns[:2])
    low_is_right = high_is_right = False
    for _ in range(3):  # one run of 1,000 draws misses an end in 3 of 100
        _, low, high = _numbers(attempt(score, torch.tensor(columns).T, 1000))
        low_is_right |= abs(low - lowest) < 1e-5
        high_is_right |= abs(high - highest) < 1e-5
        if low_is_right and high_is_right:
            return
    which = "both ends are" if not low_is_right and not high_is_right else "low is" if not low_is_right else "high is"
    raise AssertionError(
        f"{which} off: take the quantiles 0.025 and 0.975 of all draws themselves; 0.05 and 0.95 leave 10 % outside, "
        "1.96 standard deviations assume a bell. Make as many draws as asked, each of as many texts as there are"
    )


def _noisy() -> tuple[Tensor, Tensor]:
    score = torch.linspace(-1, 1, 40).exp()
    return score, score[:, None] ** 3 / 6 + 2 * torch.randn(40, 60, generator=torch.Generator().manual_seed(0))


@cache
def _width(draws: int = 400) -> float:
    (score, change), generator = _noisy(), torch.Generator().manual_seed(0)
    chosen = torch.randint(60, (draws, 60), generator=generator)
    values = torch.tensor([spearman(score, change[:, each].mean(1)) for each in chosen])
    return float(values.quantile(0.975) - values.quantile(0.025))


def _numbers(found) -> list[float]:
    assert isinstance(found, tuple | list) and len(found) == 3, "return three numbers: correlation, low, high"
    parts = [torch.as_tensor(each) for each in found]
    assert all(each.numel() == 1 for each in parts), "each of the three is one number: correlation, low, high"
    return [float(each) for each in parts]


def compares_with_the_sum(attempt: Callable) -> None:
    """L2.7: attempt(single, groups, together) → what each group costs beyond the sum of its heads (groups,)."""
    single = {(0, 0): 0.2, (0, 1): 0.1, (1, 0): -0.05, (2, 3): 0.4}
    groups = [[(0, 0), (0, 1)], [(0, 0), (1, 0), (2, 3)], [(1, 0), (2, 3)]]
    found = torch.as_tensor(attempt(single, groups, [0.9, 0.55, 0.1])).detach().float()
    assert found.shape == (3,), f"one number a group: expected the shape (3,), got {tuple(found.shape)}"
    likely = {
        (-0.6, 0, 0.25): "the sign is turned round: positive means that together they cost more",
        (0.75, 0.3667, -0.075): "compare with the sum of the single effects, not with their mean",
        (0.7, 0.15, -0.3): "compare with the sum of the single effects, not with the greatest",
        (3, 1, 0.2857): "a difference, not a ratio: sums can be near 0",
        (2, 0, -0.7143): "a difference, not a share of the sum: sums can be near 0",
        (0.6, 0, 0.25): "keep the sign: the last group costs less than its sum",
        (0.6, 0, 0): "keep what is below 0: the last group costs less than its sum",
        (0.6, -0.1, -0.35): "single effects keep their sign: a head that harms lowers the sum",
        (0.3, 0, -0.125): "of the whole group, not per head: do not divide",
        (0.6, 0.4, -0.25): "a group can have more than two heads: sum over all of them",
        (0.25, -0.1, -0.55): "sum over the heads of the group, not over all heads",
        (0.3, 0.55, 0.35): "that is the sum of the single effects: take it from what the group costs together",
    }
    for numbers, words in likely.items():
        assert not torch.allclose(found, torch.tensor(numbers, dtype=torch.float), atol=1e-3), words
    shown = [round(float(each), 2) for each in found]
    assert torch.allclose(found, torch.tensor([0.6, 0, -0.25]), atol=1e-4), f"expected [0.6, 0, −0.25], got {shown}"


def shuffles_one_side(attempt: Callable) -> None:
    """L2.8: attempt(first, second, draws) → share of shuffles whose |rank correlation| is at least the real one's."""
    first = torch.arange(12.0)
    alike = first.clone()
    alike[[3, 7]] = alike[[7, 3]]
    found = float(attempt(first, alike, 300))
    assert found > 0, (
        "a share of exactly 0 promises more than 300 draws can show: count the real order in, (hits + 1) / (draws + 1)"
    )
    assert found <= 1, f"a share is at most 1, got {found:.2f}: (hits + 1) / (draws + 1), with both brackets, no %"
    assert found < 0.9, (
        f"a strong agreement gave {found:.2f}: did you shuffle both sides alike, or count the wrong way round?"
    )
    assert abs(found - 100 / 301) > 0.01, "a share, not per cent: leave out the factor 100"
    assert found < 0.03, f"no shuffle should reach this agreement: expected about 1 in 301, got {found:.3f}"
    once = float(attempt(first, alike, 1))
    assert once < 0.99, "one draw and no hit is (0 + 1) / (1 + 1): the real order counts below the line, too"
    assert once > 0.4, f"one draw and no hit is (0 + 1) / (1 + 1), you return {once:.3f}: make as many draws as asked"
    found = float(attempt(first, -alike, 100))
    assert found < 0.05, "an order turned round is no accident either: compare absolute values"
    _counted(attempt)


def _counted(attempt: Callable) -> None:
    """Four heads have 24 orders, so the share is known: 8 of 24 agree by 0.8 or more."""
    first, second = torch.arange(4.0), torch.tensor([1.0, 0.0, 2.0, 100.0])
    found = float(attempt(first, second, 600))
    assert 0.005 < found < 0.99, f"expected about 0.33, got {found:.3f}: every draw needs a new shuffle"
    assert abs(found - 1 / 12) > 0.04, f"expected about 0.33, got {found:.2f}: at least as strongly is ≥, so ties count"
    assert abs(found - 1 / 3) < 0.07, (
        f"of the 24 orders of four heads 8 agree as strongly: expected about 0.33, got {found:.2f}. "
        "Shuffle with randperm, rank correlation by spearman, absolute values on both sides"
    )
