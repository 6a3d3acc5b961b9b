"""Plans: what structured pruning saves, and which variants of a model fit a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from numbers import Real

import pandas as pd

from utils.planner.memory import ATTENTION, CONTEXT_BYTES, METHODS, Memory, kv_cache, memory, score_matrix
from utils.planner.operations import Machine, flops, layer_flops, positive, seconds, training_flops
from utils.planner.sizes import BERT_BASE, Architecture, one_of, parameters, trainable, whole

TASKS = ("inference", "fine-tuning")
SMALLEST_BUDGET = 10**6


def pruning_table(
    architecture: Architecture = BERT_BASE, tokens: int = 512, shares: Sequence[float] = (0.25, 0.5, 2 / 3)
) -> pd.DataFrame:
    """What really removing heads saves, a row a share of the heads of every layer (rounded to whole groups).

    ``…_saved`` are shares of what the whole model had; layer_flops are those of one layer afterwards. Scores and
    key/value cache shrink with the heads, the rest does not: the feed-forward network keeps its size.
    """
    before = _shrinking(architecture, tokens)
    rows = []
    for share in _list("shares", shares):
        pruned = architecture.without_heads(heads_of_share(architecture, share))
        after = _shrinking(pruned, tokens)
        saved = {f"{name}_saved": 1 - after[name] / before[name] if before[name] else 0.0 for name in before}
        removed = architecture.heads - pruned.heads
        fewer = before["parameters"] - after["parameters"]
        rows.append({"removed": removed, "parameters_removed": fewer, "layer_flops": after["layer_flops"]} | saved)
    return pd.DataFrame(rows)


def _shrinking(architecture: Architecture, tokens: int) -> dict[str, int]:
    """What pruning makes smaller."""
    return {
        "parameters": parameters(architecture).total,
        "scores": score_matrix(architecture, tokens),
        "kv_cache": kv_cache(architecture, tokens),
        "layer_flops": layer_flops(architecture, tokens).total,
    }


def heads_of_share(architecture: Architecture, share: float) -> int:
    """The number of heads a layer that is nearest to a share of them, in whole groups; at least one group stays."""
    if isinstance(share, bool) or not isinstance(share, Real):
        raise TypeError(f"a share of heads is {share!r} ({type(share).__name__}): give a number such as 0.5")
    if not 0 <= share < 1:
        raise ValueError(f"a share of heads is {share}: give a number from 0 to below 1, such as 0.5 for half of them")
    groups = architecture.kv_heads
    return min(int(share * groups + 0.5), groups - 1) * architecture.group


def largest_batch(fits: Callable[[int], bool]) -> int:
    """The largest batch for which ``fits`` is true, 0 when one text is too many. Smaller batches of it must fit too."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def plan(
    budget: float,
    architecture: Architecture = BERT_BASE,
    *,
    tokens: int,
    task: str = "inference",
    methods: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    kv_heads: Sequence[int] | None = None,
    pruned: Sequence[float] = (0.0,),
    attention: Sequence[str] = ATTENTION,
    batch: int | None = None,
    checkpointing: bool = False,
    rank: int = 8,
    context: int = CONTEXT_BYTES,
    machine: Machine | None = None,
    limit: float | None = None,
) -> pd.DataFrame:
    """All variants of an architecture and whether they fit a memory budget in bytes: a row a variant.

    Varied are heads (at the same width, so head_width = width / heads), kv_heads (default: those of the architecture,
    or as many as the given heads; numbers that do not divide the heads are passed over), the share of heads removed
    afterwards, the method (default: all of the task) and the attention. batch: the largest that fits, or the given
    one. limit: the most seconds a forward pass or training step may take on a machine, by the lower bound ``seconds``.

    Columns: heads, head_width, kv_heads (after pruning), removed, method, attention, batch (0: not even one text; the
    row then shows the cost of one), parameters, trainable, the parts of ``Memory`` and their total, flops,
    seconds (NaN without a machine), fits, why_not ("" when it fits).
    Raises TypeError or ValueError for input that makes no plan.
    """
    if positive("budget", budget) < SMALLEST_BUDGET:
        raise ValueError(f"budget is {budget} bytes, below 1 MB: give bytes, such as 2 * 10**9 for 2 GB")
    if not isinstance(architecture, Architecture):
        given = f"{architecture!r} ({type(architecture).__name__})"
        raise TypeError(f"architecture is {given}: give an Architecture such as BERT_BASE, or Architecture.of(model)")
    if limit is not None and positive("limit", limit) and machine is None:
        raise ValueError("a limit in seconds needs machine=Machine(flop_per_second, bytes_per_second), as you measured")
    extras = {"machine": machine, "checkpointing": checkpointing, "rank": rank, "context": context}
    variants = _variants(architecture, _list("heads", heads), _list("kv_heads", kv_heads), _list("pruned", pruned))
    ways = list(product(_methods(task, _list("methods", methods)), _list("attention", attention)))
    rows = []
    for variant, removed in variants:
        names = {"heads": variant.heads, "head_width": variant.head_width, "kv_heads": variant.kv_heads}
        for method, kernel in ways:
            cost = partial(_cost, variant, tokens, method, kernel, **extras)
            rows.append(names | {"removed": removed, "method": method, "attention": kernel})
            rows[-1] |= _outcome(cost, budget, limit, batch)
    return pd.DataFrame(rows)


def _cost(
    variant: Architecture,
    tokens: int,
    method: str,
    attention: str,
    batch: int,
    *,
    machine: Machine | None,
    checkpointing: bool,
    rank: int,
    context: int,
) -> dict:
    """What a row says about one batch."""
    trained, options = METHODS[method].trained, {"checkpointing": checkpointing, "rank": rank}
    parts = memory(variant, tokens, batch, method, attention=attention, context=context, **options)
    if trained == "nothing":
        work = flops(variant, tokens, batch).total
    else:
        work = training_flops(variant, tokens, batch, trained=trained, checkpointing=checkpointing)
    counts = {"parameters": parameters(variant).total, "trainable": trainable(variant, trained, rank)}
    time = math.nan if machine is None else seconds(variant, tokens, batch, method, machine=machine, **options)
    return counts | parts._asdict() | {"total": parts.total, "flops": work, "seconds": time}


def _outcome(cost: Callable[[int], dict], budget: float, limit: float | None, batch: int | None) -> dict:
    """The batch, its cost, whether it fits and why not. Memory and time grow with the batch."""
    if batch is not None:
        whole("batch", batch)
    else:
        batch = largest_batch(lambda size: not _why_not(cost(size), budget, limit))
    costs = cost(batch or 1)
    reason = _why_not(costs, budget, limit)
    return {"batch": batch} | costs | {"fits": not reason, "why_not": reason}


def _why_not(costs: dict, budget: float, limit: float | None) -> str:
    """What a cost exceeds, "" when nothing."""
    reasons = []
    if costs["total"] > budget:
        largest = max(Memory._fields, key=costs.get)
        reasons.append(
            f"needs {costs['total'] / 1e6:,.0f} MB of {budget / 1e6:,.0f} MB, the largest part is {largest} "
            f"with {costs[largest] / 1e6:,.0f} MB"
        )
    if limit is not None and costs["seconds"] > limit:
        reasons.append(f"takes at least {costs['seconds']:.3g} s, the limit is {limit:.3g} s")
    return "; ".join(reasons)


def _list(name: str, values: Sequence | None) -> list | None:
    """A list of at least one value, or None."""
    if values is not None and (isinstance(values, str) or not isinstance(values, Iterable)):
        raise TypeError(f"{name} is {values!r}: give a list such as [{values!r}]")
    if values is not None and not (values := list(values)):
        raise ValueError(f"{name} is empty: give at least one value, or leave {name} out")
    return values


def _variants(
    architecture: Architecture, heads: list[int] | None, kv_heads: list[int] | None, shares: list[float]
) -> Iterator[tuple[Architecture, int]]:
    """Each variant and the heads a layer that were removed from it. Without numbers the architecture stays as it is."""
    split = [architecture]
    if heads or kv_heads:
        heads = [whole("heads", each) for each in heads or [architecture.heads]]
        pairs = [(each, whole("kv_heads", kv)) for each in heads for kv in kv_heads or [each]]
        split = [architecture.with_heads(each, kv) for each, kv in pairs if each % kv == 0]
        if not split:
            raise ValueError(f"kv_heads {kv_heads} divide none of the numbers of heads {heads}: give some that do")
    for each in split:
        for share in shares:
            removed = heads_of_share(each, share)
            yield each.without_heads(removed), removed


def _methods(task: str, methods: list[str] | None) -> list[str]:
    """The methods of a task; those given, when they belong to it."""
    one_of("task", task, TASKS)
    known = [name for name, how in METHODS.items() if (how.trained == "nothing") == (task == "inference")]
    for name in methods or ():
        one_of(f"a method of {task}", name, tuple(known))
    return methods or known
