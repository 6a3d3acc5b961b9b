"""A way to take heads out step by step, and what it costs: what a ``pruning_explorer`` draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np


@dataclass(frozen=True, eq=False)
class PruningPath:
    """One way to take heads out, step by step: an order of heads, or gates at several penalties.

    kept: heads that are kept at each step, whole numbers, none twice, in any order. value: the metric at each step.
    masks: (steps, rows, heads), true where a head is kept; row and head as in the grid of the figure. Without masks
    the path is a line that cannot be chosen, such as the mean of random orders. low, high: spread of the values,
    NaN where there is none. null: drawn in grey. more: label with unit → a number a step, such as "latency (ms)".
    Raises ValueError for what does not fit together. Steps are kept with the most heads first.
    """

    name: str
    kept: Sequence[int]
    value: Sequence[float]
    masks: np.ndarray | None = None
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    null: bool = False
    more: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"a path needs a name, got {self.name!r}")
        kept = _whole(self.kept, self.name)
        order = np.argsort(-kept, kind="stable")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"path {self.name!r}: a spread needs both low= and high=")
        found = {"value": _numbers(self.value, len(kept), f"path {self.name!r}: value", missing=False)[order]}
        for name in ("low", "high"):
            given = getattr(self, name)
            if given is not None:
                found[name] = _numbers(given, len(kept), f"path {self.name!r}: {name}", missing=True)[order]
        if self.low is not None and (found["low"] > found["high"]).any():
            raise ValueError(f"path {self.name!r}: low must not be above high")
        if self.masks is not None:
            found["masks"] = _masks(self.masks, kept, self.name)[order]
        more = {
            str(label): _numbers(given, len(kept), f"path {self.name!r}: {label}", missing=True)[order]
            for label, given in self.more.items()
        }
        for name, value in (found | {"kept": kept[order], "more": more, "null": bool(self.null)}).items():
            object.__setattr__(self, name, value)


def head_masks(sets: Iterable[Iterable], heads: int, groups: int | Mapping[str, int]) -> np.ndarray:
    """Masks for a path: (steps, rows, heads), true where a head is in the set of the step.

    sets: for each step the heads that are kept, as ``Head`` or (layer, head). heads: heads of a layer. groups: the
    number of layers, or attention type → its number of layers, in the order of the rows; then a head must name its kind
    unless there is one type only. Raises ValueError for a head that is not in the grid.
    """
    groups = dict(groups) if isinstance(groups, Mapping) else {None: groups}
    sizes = [heads, *groups.values()]
    if any(not isinstance(each, Integral) or isinstance(each, bool) or each < 1 for each in sizes):
        raise ValueError(f"heads and groups must be numbers of heads and layers from 1 on, got {sizes}")
    sets = list(sets)
    masks = {name: np.zeros((len(sets), layers, heads), dtype=bool) for name, layers in groups.items()}
    for step, each in enumerate(sets):
        for head in each:
            name, layer, number = _place(head, heads, groups)
            masks[name][step, layer, number] = True
    return np.concatenate(list(masks.values()), axis=1)


def _place(head: object, heads: int, groups: dict) -> tuple[str | None, int, int]:
    """Attention type, layer and number of a head."""
    try:
        layer, number, *kind = head
    except TypeError:
        raise ValueError(f"a head is Head(layer, head) or a pair of numbers, got {head!r}") from None
    name = next(iter(groups)) if len(groups) == 1 else (kind or [None])[0]
    if name in groups and layer in range(groups[name]) and number in range(heads):
        return name, int(layer), int(number)
    known = ", ".join(f"{layers} layers" + f" of {kind}" * (kind is not None) for kind, layers in groups.items())
    raise ValueError(f"head {tuple(head)} is not in the grid: it has {known}, {heads} heads each")


def _whole(kept: Sequence[int], name: str) -> np.ndarray:
    kept = list(kept)
    wrong = [each for each in kept if not isinstance(each, Integral) or isinstance(each, bool) or each < 0]
    if wrong or not kept:
        raise ValueError(f"path {name!r}: kept must be numbers of heads, got {wrong[0] if wrong else 'no step'!r}")
    if len(set(kept)) < len(kept):
        twice = next(each for each in kept if kept.count(each) > 1)
        raise ValueError(f"path {name!r}: {twice} kept heads are there twice, a path has one value for each number")
    return np.asarray(kept, dtype=np.int64)


def _numbers(given: Sequence[float], steps: int, what: str, *, missing: bool) -> np.ndarray:
    try:
        found = np.asarray(list(given), dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a number for each of the {steps} steps, got {given!r}") from None
    if found.shape != (steps,):
        raise ValueError(f"{what} must be a number for each of the {steps} steps, got the shape {found.shape}")
    if np.isinf(found).any() or (np.isnan(found).any() and not missing):
        raise ValueError(f"{what} must be finite, got {found.tolist()}")
    return found


def _masks(masks: np.ndarray, kept: np.ndarray, name: str) -> np.ndarray:
    masks = np.asarray(masks)
    if masks.ndim != 3 or len(masks) != len(kept) or not masks.size:
        raise ValueError(f"path {name!r}: masks must be ({len(kept)} steps, rows, heads), got the shape {masks.shape}")
    if not np.isin(masks, (0, 1)).all():
        raise ValueError(f"path {name!r}: masks must be true where a head is kept and false elsewhere")
    masks = masks.astype(bool)
    counts = masks.sum((1, 2))
    if (counts != kept).any():
        step = int(np.argmax(counts != kept))
        raise ValueError(f"path {name!r}, step {step}: kept says {kept[step]} heads, the mask holds {counts[step]}")
    return masks
