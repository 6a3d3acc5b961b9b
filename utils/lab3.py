"""What Lab 3 asks of each exercise. Every function takes an attempt and says, in an AssertionError, what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize
from transformers import BertConfig, BertModel

from utils.pruned_retrieval import Vectors
from utils.pruning import prune
from utils.search_index import ranks, recall


def takes_the_least_important(attempt: Callable) -> None:
    """L3.1: attempt(table, score, keep) → the (layer, head) that go, the least important first; ``keep`` stay."""
    places = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    table = pd.DataFrame(places, columns=["layer", "head"])
    table["absolute"], table["signed"] = [0.4, 0.1, 0.6, 0.2, 0.5, 0.3], [-0.3, 0.1, 0.2, 0.0, -0.2, 0.4]
    found = _heads(attempt(table, "absolute", 2))
    assert found[:1] != [(1, 0)] and set(found) != {(1, 0), (2, 0)}, (
        "(1, 0) and (2, 0) have the largest scores: they stay. Return the heads that go"
    )
    assert len(found) != 2, "keep=2 is the number of heads that stay: four of six go, and you returned two"
    assert len(found) == 4, f"keep=2 of 6 heads: four go, you returned {len(found)}"
    expected = [(0, 1), (1, 1), (2, 1), (0, 0)]
    assert found != expected[::-1], "the right four, in the reverse order: the least important goes first"
    assert set(found) == set(expected), f"the four smallest scores are those of {expected}, you returned {found}"
    assert found == expected, f"the right four, in another order: expected {expected}, got {found}"
    found = _heads(attempt(table, "signed", 3))
    assert set(found) != {(0, 1), (1, 1), (1, 0)}, (
        "you ranked by the size of the signed score. Its sign counts: removal helps where it is negative"
    )
    assert found != expected[:3], "you ranked by “absolute”: use the column that score names"
    assert found == [(0, 0), (2, 0), (1, 1)], f"signed, keep=3: expected (0, 0), (2, 0), (1, 1), got {found}"
    assert _heads(attempt(table, "signed", 6)) == [], "keep=6 keeps all six: return an empty list"
    assert len(_heads(attempt(table, "signed", 0))) == 6, "keep=0: all six heads go"


def _heads(found) -> list[tuple[int, int]]:
    asked = "return a list of pairs (layer, head)"
    assert not isinstance(found, pd.DataFrame | pd.Series), f"{asked}, not a table: list(zip(rows.layer, rows['head']))"
    assert isinstance(found, list | tuple), f"{asked}, not {type(found).__name__}"
    assert all(hasattr(each, "__len__") and len(each) >= 2 for each in found), f"{asked}: yours holds {found[0]!r}"
    return [(int(each[0]), int(each[1])) for each in found]


@lru_cache
def _fewer(width: int, heads: int, removed: int) -> int:
    """Parameters that leave a small BERT when heads are really removed."""
    with torch.random.fork_rng(devices=[]):
        config = BertConfig(
            vocab_size=30,
            hidden_size=width,
            num_hidden_layers=2,
            num_attention_heads=heads,
            intermediate_size=16,
            max_position_embeddings=8,
        )
        model = BertModel(config, add_pooling_layer=False)
    small = prune(model, [(0, head) for head in range(removed)])
    return sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in small.parameters())


def counts_what_leaves(attempt: Callable) -> None:
    """L3.2: attempt(removed, width, head_width) → parameters that leave a BERT with ``removed`` heads; by removal."""
    d, k = 24, 6
    found = attempt(1, d, k)
    assert not isinstance(found, Tensor | np.ndarray) or np.size(found) == 1, "return one number"
    found = float(found)
    wrong = {
        4 * d * k: "the biases of W_Q, W_K and W_V go too: one number for each of their rows",
        4 * d * k + 4 * k: "W_O has no bias for each head: b_O has the width of the model and stays whole",
        4 * d * k + 3 * k + d: "b_O stays: it has the width of the model, not of a head",
        3 * d * k + 3 * k: "the columns of W_O that read this head go too: four matrices lose d · d_h numbers",
        3 * d * k: "the columns of W_O that read this head go too, and the biases of W_Q, W_K and W_V",
        4 * d * d: "a head is a slice of each matrix: d · d_h numbers, not d · d",
        4 * d * d + 3 * d: "that is the whole layer: a head is a slice, d_h rows of each matrix",
        4 * k * k + 3 * k: "each slice is d_h wide and d long: d · d_h numbers, not d_h · d_h",
        0: "removed weights are gone: only a mask leaves all parameters where they are",
    }
    assert found not in wrong, f"{found:.0f}: {wrong[found]}"
    right = _fewer(d, 4, 1)
    assert found == right, f"width 24, head width 6, one head: removal takes {right} parameters away, you say {found:g}"
    for width, heads, removed in ((24, 4, 3), (32, 2, 1), (24, 4, 0)):
        right, said = _fewer(width, heads, removed), float(attempt(removed, width, width // heads))
        assert said == right, f"{removed} heads of width {width // heads} in {width}: expected {right}, got {said:g}"


class _Ranker:
    """Scores that change when heads go: what is left, the least important first, depends on what is gone."""

    def __init__(self, total: int):
        self.total, self.calls = total, []

    def __call__(self, gone) -> list[int]:
        gone = list(gone)
        self.calls.append(gone)
        assert len(set(gone)) == len(gone), f"rank(gone) got a head twice: {gone}. Collect each head once"
        return _left(self.total, gone)


def _left(total: int, gone: list[int]) -> list[int]:
    """A ranking of what is left, another one for each number of heads that are gone."""
    left = [head for head in range(total) if head not in gone]
    turn = (1 + len(left) // 2 if gone else 0) % max(1, len(left))
    return left[turn:] + left[:turn]


def _iterated(rank: Callable, total: int, rounds: int) -> list[int]:
    order: list[int] = []
    for step in range(1, rounds + 1):
        order += rank(order)[: round(step / rounds * total) - len(order)]
    return order


def ranks_again(attempt: Callable) -> None:
    """L3.3: attempt(rank, total, rounds) → an order of all heads; ``rank(gone)`` is asked once in each round."""
    for total, rounds in ((12, 3), (12, 4), (6, 1), (10, 5)):
        ranker = _Ranker(total)
        found = [int(head) for head in attempt(ranker, total, rounds)]
        expected = _iterated(lambda gone, n=total: _left(n, gone), total, rounds)
        case = f"{total} heads in {rounds} rounds"
        assert found != _left(total, []) or rounds == 1, (
            f"{case}: that is the first ranking, one-shot. Ask rank again with what is gone"
        )
        sizes = [len(gone) for gone in ranker.calls]
        assert len(sizes) == rounds, f"{case}: you asked rank {len(sizes)} times; ask it once in each round"
        assert sizes == sorted(sizes) and sizes[0] == 0, (
            f"{case}: rank was told {sizes} heads are gone; begin with none"
        )
        step = total // rounds
        right = [step * i for i in range(rounds)]
        assert not (rounds > 2 and sizes[2] == step), f"{case}: tell rank all heads that are gone, not the last round's"
        assert len(found) == len(set(found)), f"{case}: a head is there twice: each goes once"
        assert len(found) == total, f"{case}: the order holds {len(found)} heads, not {total}"
        assert sizes == right, f"{case}: rank was told {sizes} heads are gone, expected {right}: equal rounds"
        ends = _iterated(lambda gone, n=total: _left(n, gone)[::-1], total, rounds)
        assert found != ends, f"{case}: you took the end of each ranking: the front, the least important, goes first"
        assert found == expected, (
            f"{case}: expected {expected}, got {found}: in each round the front of rank(gone) goes"
        )


def _turned(angle: float, seed: int = 0, spread: float = 0.25) -> tuple[Vectors, Vectors]:
    """Old vectors, and new ones that fit each other as well, turned by an angle in a plane of each pair of axes."""
    generator = torch.Generator().manual_seed(seed)
    passages = normalize(torch.randn(40, 8, generator=generator), dim=-1)
    queries = normalize(passages[:25] + spread * torch.randn(25, 8, generator=generator), dim=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    turn = torch.block_diag(*[torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float32)] * 4)
    noise = 0.05 * torch.randn(25, 8, generator=generator)
    new = Vectors(normalize(queries @ turn + noise, dim=-1), passages @ turn)
    return Vectors(queries, passages), new


def tells_old_from_rebuilt(attempt: Callable) -> None:
    """L3.4: attempt(new_queries, old_passages, new_passages, k) → recall@k with the old index and with a new one."""
    old, new = _turned(1.2)
    for k in (1, 3):
        found = attempt(new.queries, old.passages, new.passages, k)
        assert isinstance(found, tuple | list) and len(found) == 2, "return two numbers: old index, rebuilt index"
        found = tuple(round(float(each), 6) for each in found)
        right = tuple(round(recall(ranks(new.queries, each), k), 6) for each in (old.passages, new.passages))
        assert all(each <= 1 for each in found), f"recall is a share, at most 1: got {found}; divide by the queries"
        assert found != right[::-1], f"the two are swapped: first the old index, then the rebuilt one; got {found}"
        miss = tuple(round(recall(ranks(new.queries, each), k - 1), 6) if k > 1 else 0.0 for each in (old[1], new[1]))
        assert found != miss, f"k={k} counts the first {k} places: the first one is in; you counted {k - 1}"
        assert found[0] != found[1], f"both are {found[0]:.2f}: one of them must search the old passages"
        more = tuple(round(recall(ranks(new.queries, each), k + 1), 6) for each in (old[1], new[1]))
        assert found != more, f"k={k} counts the first {k} places, you counted {k + 1}"
        backward = tuple(_recall_of_passages(new.queries, each, k) for each in (old.passages, new.passages))
        assert found != backward, "you ranked the queries for each passage: rank the passages for each query"
        assert found == right, (
            f"k={k}: expected {right[0]:.2f} and {right[1]:.2f}, got {found[0]:.2f} and {found[1]:.2f}"
        )


def _recall_of_passages(queries: Tensor, passages: Tensor, k: int) -> float:
    own = (passages[: len(queries)] @ queries.mT).topk(k).indices
    return round(float((own == torch.arange(len(queries))[:, None]).any(1).double().mean()), 6)


PLANS = pd.DataFrame(
    [
        ("A", 72, 22.7, 100.0, 0.64, 0.64),
        ("B", 54, 21.8, 90.0, 0.63, 0.60),
        ("C", 36, 20.9, 80.0, 0.61, 0.55),
        ("D", 36, 20.9, 80.0, 0.56, 0.58),
        ("E", 18, 20.1, 70.0, 0.61, 0.45),
        ("F", 6, 19.5, 64.0, 0.50, 0.47),
    ],
    columns=["plan", "kept", "parameters", "ms", "rebuilt", "old index"],
)
CONSTRAINTS = [
    ({"ms": 85.0}, True, "E"),
    ({"ms": 85.0}, False, "D"),
    ({"parameters": 20.0}, True, "F"),
    ({"ms": 95.0, "parameters": 21.0}, False, "D"),
    ({"ms": 80.0}, False, "D"),
    ({"ms": 95.0, "parameters": 22.0}, True, "B"),
    ({}, True, "A"),
    ({"ms": 50.0}, True, "none"),
]


def chooses_under_constraints(attempt: Callable) -> None:
    """L3.5: attempt(plans, limits, rebuild) → name of the best plan within the limits, or "none"."""
    for turn in (1, -1):
        for limits, rebuild, right in CONSTRAINTS:
            table = PLANS.iloc[::turn].sample(frac=1, random_state=3) if turn < 0 else PLANS
            found = attempt(table.reset_index(drop=True).copy(), dict(limits), rebuild)
            assert isinstance(found, str), f"return the name of a plan, a text, not {type(found).__name__}"
            if found != right:
                _explain(found, right, limits, rebuild)


def _explain(found: str, right: str, limits: dict, rebuild: bool) -> None:
    said = ", ".join(f"{name} ≤ {limit:g}" for name, limit in limits.items()) or "no limit"
    case = f"{said}, index {'rebuilt' if rebuild else 'not rebuilt'}"
    known = PLANS.set_index("plan")
    assert found in known.index or found == "none", f"{case}: there is no plan {found!r}"
    assert right != "none", f"{case}: no plan fits. Say “none”; {found} breaks the limit"
    assert found != "none", f"{case}: {right} fits; a value equal to its limit is within it"
    row, best = known.loc[found], known.loc[right]
    over = [f"{name} {row[name]:g}" for name, limit in limits.items() if row[name] > limit]
    assert not over, f"{case}: {found} has {' and '.join(over)}: it breaks a limit. All limits count at once"
    column, other = ("rebuilt", "old index") if rebuild else ("old index", "rebuilt")
    if row[column] == best[column]:
        raise AssertionError(f"{case}: {found} and {right} find as much; of equal plans take the one with fewer heads")
    if row[other] > best[other] and row[other] == known.loc[_within(limits), other].max():
        raise AssertionError(f"{case}: {found} is best by “{other}”; this deployment is judged by “{column}”")
    on = [name for name, limit in limits.items() if best[name] == limit != row[name]]
    assert not on, f"{case}: {right} lies exactly on the limit of {on[0]}: a value equal to its limit is within it"
    raise AssertionError(
        f"{case}: {found} has {column} {row[column]:.2f}, {right} has {best[column]:.2f} and fits, too"
    )


def _within(limits: dict) -> list[str]:
    fits = np.all([PLANS[name] <= limit for name, limit in limits.items()] or [np.ones(len(PLANS), bool)], axis=0)
    return list(PLANS["plan"][fits])
