"""Information in nats out of counts, and how few counts flatter it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor


def entropy_of_labels(labels: Tensor) -> float:
    """Plug-in entropy of whole-number labels (N,), in nats: that of their shares."""
    counts = _labels(labels, "labels").unique(return_counts=True)[1].double()
    return float(-(counts / counts.sum() * (counts / counts.sum()).log()).sum())


def mutual_information(one: Tensor, other: Tensor, correction: bool = False) -> float:
    """Mutual information of two label sequences (N,), in nats, from their joint counts.

    The plug-in estimate H(A) + H(B) − H(A, B). It is never below 0 and biased upwards: for independent labels it is
    about (a − 1)(b − 1)/2N on average, with a and b the numbers of labels, if N is large beside ab. correction: Miller
    and Madow's, which adds (labels seen − 1)/2N to each entropy; the result can be below 0. Null model:
    ``shuffled_information``. Raises TypeError or ValueError for labels that are not whole numbers or not of one length.
    """
    one, other = _labels(one, "one"), _labels(other, "other")
    if len(one) != len(other):
        raise ValueError(f"two labels a sample are needed, got {len(one)} and {len(other)}")
    pair = one.unique(return_inverse=True)[1] * (len(other.unique()) + 1) + other.unique(return_inverse=True)[1]
    signs = ((one, 1), (other, 1), (pair, -1))
    found = sum(sign * entropy_of_labels(each) for each, sign in signs)
    if correction:
        found += sum(sign * (len(each.unique()) - 1) for each, sign in signs) / (2 * len(one))
    return found


def shuffled_information(one: Tensor, other: Tensor, draws: int = 20, seed: int = 0) -> Tensor:
    """The plug-in estimate after one side was shuffled, so that nothing is shared: (draws,). What is left is bias."""
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(other), generator=generator) for _ in range(draws)]
    return torch.tensor([mutual_information(one, other[order]) for order in orders], dtype=torch.float64)


def _labels(labels: Tensor, name: str) -> Tensor:
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.is_complex():
        kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"{name} must be a tensor of whole numbers, got {kind}")
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"{name} must have the shape (N,) with N from 1 on, got {tuple(labels.shape)}")
    return labels


def information_by_size(pairs: list[tuple[Tensor, Tensor]], sizes: list[int], draws: int = 3) -> pd.DataFrame:
    """Mean information of pairs of label sequences from their first N samples: a row a size.

    Columns: plug-in, shuffled (mean over ``draws`` shuffles of one side), difference. The samples should be in random
    order.
    """
    rows = {}
    for size in sizes:
        parts = [(one[:size], other[:size]) for one, other in pairs]
        found = sum(mutual_information(*part) for part in parts) / len(parts)
        null = sum(float(shuffled_information(*part, draws=draws).mean()) for part in parts) / len(parts)
        rows[size] = {"plug-in": found, "shuffled": null, "difference": found - null}
    return pd.DataFrame(rows).T


def excess_fault(attempt: Callable[[Tensor, Tensor, int, torch.Generator], float]) -> str:
    """What is wrong with a function that shall return the excess of information over its shuffled mean; "" if right.

    attempt: (one, other, draws, generator) → nats. Asked about labels with themselves, where nearly all is shared, and
    about labels that make each pair once, where less is shared than by chance.
    """
    six, ten = torch.arange(60) // 10, torch.arange(60) % 10

    def found(one: Tensor, draws: int = 40, seed: int = 5) -> float:
        return float(attempt(one.clone(), ten.clone(), draws, torch.Generator().manual_seed(seed)))

    whole, itself, even = entropy_of_labels(ten), found(ten), found(six)
    bias, even_bias = (float(shuffled_information(one, ten, draws=200).mean()) for one in (ten, six))
    few = [found(six, 2, seed) for seed in (5, 5, 6, 7, 8)]
    faults = {
        "signs: the estimate minus the shuffled mean": itself < 0,
        "the bias is still in: subtract it": abs(itself - whole) < 0.1,
        "that is the shuffled mean alone": abs(itself - bias) < 0.1,
        f"a label with itself: off by {itself - whole + bias:.2f} nats": abs(itself - whole + bias) > 0.1,
        f"each pair once: {-even_bias:.1f} expected, not {even:.1f}; no abs, no max": abs(even + even_bias) > 0.1,
        "take every order from the generator that is passed in": few[0] != few[1] or len(set(few)) < 3,
        "the mean of as many shuffles as `draws` says": found(six, 1) == found(six, 30),
    }
    return next((message for message, wrong in faults.items() if wrong), "")
