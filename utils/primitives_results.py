"""The stored runs of chapter 9, and readings of learning curves: examples to a target accuracy, steps to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from utils.sweeps import sweep_table
from utils.transfer_results import SETTING, tuned

SWEEPS = ("computation_primitives", "topic_tuning", "intrinsic_dimension", "transplants")


def complete(name: str) -> pd.DataFrame:
    """Stored runs at one rate a setting: of the rates that were run with most seeds the best in validation.

    name: one of ``SWEEPS``. A column ``kind`` joins what is trained and the body: "everything, pretrained".
    """
    if name not in SWEEPS:
        raise ValueError(f"name must be one of {', '.join(SWEEPS)}, got {name!r}")
    table = sweep_table(name)
    seeds = table.groupby([*SETTING, "learning_rate"], sort=False)["seed"].transform("size")
    most = seeds.groupby([table[column] for column in SETTING]).transform("max")
    return tuned(table[seeds == most]).assign(kind=lambda rows: rows["rung"] + ", " + rows["body"])


def reached(curve: Sequence[float], target: float, every: int) -> float:
    """Steps until a curve of accuracies, measured every ``every`` steps, is at ``target``; between two, linear.

    Infinite if it never is. ``curve`` begins after the first ``every`` steps.
    """
    if every < 1 or not len(curve):
        raise ValueError(f"need a curve and every from 1, got {len(curve)} points and every = {every!r}")
    at = next((i for i, value in enumerate(curve) if value >= target), None)
    if at is None:
        return float("inf")
    if at == 0:
        return float(every)
    below, above = curve[at - 1], curve[at]
    return every * (at + (target - below) / (above - below))


def examples_needed(sizes: Sequence[float], accuracies: Sequence[float], target: float) -> float:
    """Examples at which a learning curve first is at ``target``, linear in log n between two sizes; infinite if never.

    Raises ValueError if the sizes do not rise.
    """
    sizes, accuracies = np.asarray(sizes, float), np.asarray(accuracies, float)
    if sizes.shape != accuracies.shape or len(sizes) < 1 or (np.diff(sizes) <= 0).any():
        raise ValueError(f"need as many accuracies as rising sizes, got {sizes.tolist()} and {accuracies.tolist()}")
    above = np.flatnonzero(accuracies >= target)
    if not len(above):
        return float("inf")
    i = above[0]
    if i == 0:
        return float(sizes[0])
    share = (target - accuracies[i - 1]) / (accuracies[i] - accuracies[i - 1])
    return float(sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** share)
