"""In which order heads go, and what each step costs.

An order is a list of heads, the least important first. An *evaluate* is a function ``(model) -> float``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Literal

import pandas as pd
import torch
from torch import nn

from utils.attention.scope import evaluating
from utils.heads import Head, gated, heads_of, resolve
from utils.pruning.gates import HardConcreteGates
from utils.pruning.surgery import prune

Evaluate = Callable[[nn.Module], float]
Order = Iterable[Head]
TENTHS = tuple(i / 10 for i in range(11))


def order_by(frame: pd.DataFrame, column: str, *, kind: str | None = None, largest_first: bool = False) -> list[Head]:
    """Heads by a column of a table with a row a head (kind, layer, head, …), the smallest value first.

    For scores that grow with importance: ``importance``'s columns, or the effect of ablation on a loss. For the
    effect on a quality such as accuracy, which falls, take ``largest_first``. kind: only heads of this kind. Equal
    values keep the order of the table. Raises ValueError for a column that is not there or has no value for a head.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"a table with a row a head is needed, such as importance returns, got {type(frame).__name__}")
    missing = [name for name in ("kind", "layer", "head", column) if name not in frame]
    if missing:
        raise ValueError(f"the table has no column {missing[0]!r}: it has {', '.join(map(str, frame.columns))}")
    if frame.columns.duplicated().any():
        raise ValueError(f"the table has the column {frame.columns[frame.columns.duplicated()][0]!r} twice")
    if not pd.api.types.is_numeric_dtype(frame[column]):
        raise ValueError(f"the column {column!r} holds no numbers: {frame[column].dtype}")
    rows = frame if kind is None else frame[frame["kind"] == kind]
    if rows.empty:
        raise ValueError(
            f"the table has no head of kind {kind!r}: it has {', '.join(map(str, frame['kind'].unique()))}"
        )
    if rows[column].isna().any():
        raise ValueError(f"the column {column!r} has no value for some heads: leave them out of the table")
    if not all(float(value).is_integer() for name in ("layer", "head") for value in rows[name]):
        raise ValueError("the columns 'layer' and 'head' must hold whole numbers")
    rows = rows.sort_values(column, ascending=not largest_first, kind="stable")
    return [Head(int(row.layer), int(row.head), row.kind) for row in rows[["kind", "layer", "head"]].itertuples()]


def random_order(model: nn.Module, seed: int, *, kind: str | None = None) -> list[Head]:
    """The heads that a model has, shuffled: the null model of every order."""
    if not _is_seed(seed):
        raise TypeError(f"seed must be a whole number from 0 on, got {seed!r}")
    heads = _of_kind(model, kind)
    return [heads[i] for i in torch.randperm(len(heads), generator=torch.Generator().manual_seed(int(seed))).tolist()]


def gate_order(gates: HardConcreteGates, *, kind: str | None = None) -> list[Head]:
    """The heads by log α of trained gates, the most closed first."""
    if not isinstance(gates, HardConcreteGates):
        raise TypeError(f"HardConcreteGates are needed, got {type(gates).__name__}")
    if kind is not None and kind not in gates.kinds:
        raise ValueError(f"there are no gates of kind {kind!r}: there are {', '.join(gates.kinds)}")
    values = {
        Head(layer, head, each): float(log_alpha.detach()[layer, head])
        for each, log_alpha in gates.log_alpha.items()
        for layer, head in gates.there(each).nonzero().tolist()
        if kind in (None, each)
    }
    return sorted(values, key=values.__getitem__)


def greedy_order(
    model: nn.Module,
    evaluate: Evaluate,
    *,
    better: Literal["larger", "smaller"],
    kind: str | None = None,
    first: int | None = None,
) -> list[Head]:
    """Again and again the head without which the model is best, given that those before are gone.

    With H heads H(H + 1)/2 evaluations. first: search only so many heads; the others follow by their value in the
    last round, which saves most of the time. better: whether a larger or a smaller value of ``evaluate`` is better.
    The model is gated, not copied, and in evaluation mode. Raises TypeError or ValueError for a value that is no
    number or NaN, which has no place in an order.
    """
    if better not in ("larger", "smaller"):
        raise ValueError(f'better must be "larger" or "smaller", got {better!r}')
    evaluate = _checked(evaluate)
    left, order = _of_kind(model, kind), []
    if first is not None and (not isinstance(first, Integral) or isinstance(first, bool) or first < 1):
        raise ValueError(f"first must be a whole number from 1 on, got {first!r}")
    with evaluating(model):
        while left:
            values = {}
            for head in left:
                with gated(model, dict.fromkeys([*order, head], 0.0)):
                    values[head] = _number(evaluate(model))
                if values[head] != values[head]:
                    raise ValueError(f"evaluate gave NaN without {head}: heads cannot be ranked by it")
            ranked = sorted(left, key=values.__getitem__, reverse=better == "larger")
            taken = 1 if first is None or len(order) + 1 < first else len(left)
            order += ranked[:taken]
            left = [head for head in left if head not in ranked[:taken]]
    return order


def pruning_curve(
    model: nn.Module,
    order: Order | Mapping[str, Order | Mapping[int, Order]],
    evaluate: Evaluate,
    *,
    fractions: Iterable[float] = TENTHS,
    remove: bool = True,
) -> pd.DataFrame:
    """A row for each order and fraction: what ``evaluate`` says of the model without the first heads of the order.

    order: a list of heads; or name → list; or name → {seed: list}, for an order with several seeds. fractions: shares
    of the order's heads that go, rounded to whole heads. remove: take the weights out (``evaluate`` gets a copy, which
    it may tune), or gate the heads, which saves neither weights nor time and works for T5 too. Heads that the model
    does not have any more are passed over. The same set of heads is evaluated once.

    Columns: order (its name), seed (missing where there is none), kind ("encoder", …, or "all" for a mixture),
    fraction, removed (heads), kept (heads of the order that are left), parameters (of the model evaluated), value.
    Raises TypeError or ValueError for heads, fractions and values that are none.
    """
    shares, evaluate = _fractions(fractions), _checked(evaluate)
    there = set(heads_of(model))
    known: dict[frozenset, tuple[int, float]] = {}
    rows = []
    for name, seed, given in _orders(order):
        heads = [head for head in resolve(model, given) if head in there]
        if not heads:
            raise ValueError(f"the order {name!r} holds no head that the model still has")
        kinds = {head.kind for head in heads}
        for share in shares:
            count = round(share * len(heads))
            gone = frozenset(heads[:count])
            if gone not in known:
                known[gone] = _evaluated(model, heads[:count], evaluate, remove)
            parameters, value = known[gone]
            rows.append(
                {
                    "order": name,
                    "seed": seed,
                    "kind": kinds.copy().pop() if len(kinds) == 1 else "all",
                    "fraction": share,
                    "removed": count,
                    "kept": len(heads) - count,
                    "parameters": parameters,
                    "value": value,
                }
            )
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def _evaluated(model: nn.Module, heads: list[Head], evaluate: Evaluate, remove: bool) -> tuple[int, float]:
    """Parameters and value of the model without these heads."""
    with _without(model, heads, remove) as changed:
        parameters = sum(tensor.numel() for tensor in changed.parameters())
        return parameters, _number(evaluate(changed))


@contextmanager
def _without(model: nn.Module, heads: list[Head], remove: bool):
    """A pruned copy in evaluation mode, or the model itself with the heads gated."""
    if remove:
        yield prune(model, heads).eval()
    else:
        with evaluating(model), gated(model, dict.fromkeys(heads, 0.0)):
            yield model


def _orders(order: object) -> list[tuple[str, int | None, Order]]:
    """(name, seed, heads) of each order."""
    if not isinstance(order, Mapping):
        return [("order", None, order)]
    if not order:
        raise ValueError("there is no order: give a list of heads, or name → list")
    found = []
    for name, given in order.items():
        seeds = given.items() if isinstance(given, Mapping) else [(None, given)]
        found += [(str(name), _seed(name, seed), heads) for seed, heads in seeds]
    return found


def _seed(name: object, seed: object) -> int | None:
    if seed is not None and not _is_seed(seed):
        raise TypeError(f"the order {name!r} must be a list of heads, or a mapping from seeds to lists, got {seed!r}")
    return seed


def _is_seed(seed: object) -> bool:
    return isinstance(seed, Integral) and not isinstance(seed, bool) and 0 <= seed < 2**63


def _fractions(fractions: Iterable[float]) -> list[float]:
    if isinstance(fractions, str) or not isinstance(fractions, Iterable):
        raise TypeError(f"fractions must be a list such as [0, 0.5, 1], got {fractions!r}")
    shares = list(fractions)
    wrong = [each for each in shares if not isinstance(each, Real) or isinstance(each, bool) or not 0 <= each <= 1]
    if wrong or not shares:
        raise ValueError(f"fractions must be shares from 0 to 1, got {wrong[0] if wrong else 'none'!r}")
    return [float(each) for each in shares]


def _of_kind(model: nn.Module, kind: str | None) -> list[Head]:
    heads = heads_of(model)
    chosen = [head for head in heads if kind in (None, head.kind)]
    if not chosen:
        if not heads:
            raise ValueError("the model has no head left: all were removed")
        kinds = ", ".join(dict.fromkeys(head.kind for head in heads))
        raise ValueError(f"the model has no head of kind {kind!r}: it has {kinds}")
    return chosen


def _checked(evaluate: object) -> Evaluate:
    if not callable(evaluate):
        raise TypeError(f"evaluate must be a function (model) -> float, got {type(evaluate).__name__}")
    return evaluate


def _number(value: object) -> float:
    if isinstance(value, str):
        raise TypeError(f"evaluate must return a number, got {value!r}")
    try:
        return float(value.detach() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"evaluate must return a number, got {type(value).__name__}") from None
