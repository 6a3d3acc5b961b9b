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

from utils.heads import Head
from utils.pruned_retrieval import Vectors
from utils.pruning import prune
from utils.search_index import ranks, recall


def takes_the_least_important(attempt: Callable) -> None:
    """L3.1: attempt(table, score, keep) → the (layer, head) that go, the least important first; ``keep`` stay."""
    places = [(2, 1), (1, 1), (2, 0), (0, 1), (0, 0), (1, 0)]
    table = pd.DataFrame(places, columns=["layer", "head"])
    table["absolute"], table["signed"] = [0.3, 0.2, 0.5, 0.1, 0.4, 0.6], [0.4, 0.0, -0.25, 0.1, -0.3, 0.2]
    found = _heads(attempt(table.copy(), "absolute", 2))
    expected = [(0, 1), (1, 1), (2, 1), (0, 0)]
    swapped = [(head, layer) for layer, head in expected]
    assert found != swapped, f"{found}: those are (head, layer). The layer comes first"
    by_row = [[divmod(places.index(place), heads) for place in expected] for heads in (2, 6, 12)]
    assert found not in by_row, "you made layer and head from the number of the row: read the columns layer and head"
    assert found[:1] != [(1, 0)] and set(found) != {(1, 0), (2, 0)}, (
        "(1, 0) and (2, 0) have the largest scores: they stay. Return the heads that go"
    )
    assert len(found) != 2, "keep=2 is the number of heads that stay: four of six go, and you returned two"
    assert len(found) == 4, f"keep=2 of 6 heads, over all layers: four go, you returned {len(found)}"
    assert found != expected[::-1], "the right four, in the reverse order: the least important goes first"
    assert set(found) == set(expected), f"the four smallest scores are those of {expected}, you returned {found}"
    assert found == expected, f"the right four, in another order: expected {expected}, got {found}"
    found, signed = _heads(attempt(table.copy(), "signed", 3)), [(0, 0), (2, 0), (1, 1)]
    assert set(found) != {(0, 1), (1, 1), (1, 0)}, (
        "you ranked by the size of the signed score. Its sign counts: removal helps where it is negative"
    )
    assert found != expected[:3], "you ranked by “absolute”: use the column that score names"
    assert found == signed or set(found) != set(signed), (
        f"signed, keep=3: the right three, in another order. The most negative goes first: {signed}"
    )
    assert found == signed, f"signed, keep=3: expected {signed}, got {found}"
    assert _heads(attempt(table.copy(), "signed", 6)) == [], "keep=6 keeps all six: return an empty list"
    found = _heads(attempt(table.copy(), "signed", 0))
    assert len(found) == 6, f"keep=0: all six heads go, you returned {len(found)}. A slice [:-0] is empty"


def _heads(found) -> list[tuple[int, int]]:
    asked = "return a list of pairs (layer, head)"
    assert not isinstance(found, pd.DataFrame | pd.Series), f"{asked}, not a table: list(zip(rows.layer, rows['head']))"
    assert isinstance(found, list | tuple), f"{asked}, not {type(found).__name__}"
    for each in found:
        assert hasattr(each, "__len__") and not isinstance(each, str), f"{asked}: yours holds {each!r}"
        assert len(each) == 2 or isinstance(each, Head), f"{asked}, two numbers each: yours holds {tuple(each)}"
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
    reads = "d_h columns of W_O read this head and go too, each d long"
    of_head = "the biases of a head are d_h numbers in each of W_Q, W_K and W_V"
    wrong = {
        4 * d * k: "the biases of W_Q, W_K and W_V go too: one number for each of their rows",
        4 * d * k + 4 * k: "W_O has no bias for each head: b_O has the width of the model and stays whole",
        4 * d * k + 3 * k + d: "b_O stays: it has the width of the model, not of a head",
        4 * d * k + 3 * d: of_head,
        4 * d * k + 3: of_head,
        3 * d * k + 3 * k: f"{reads}: four matrices lose d · d_h numbers",
        3 * d * k + 3 * k + k * k: reads,
        3 * d * k + 4 * k: f"{reads}; b_O stays",
        3 * d * k: f"{reads}, and so do the biases of W_Q, W_K and W_V",
        d * k: "four matrices lose a slice, you counted one, and no biases",
        d * k + k: "four matrices lose a slice, you counted one",
        4 * d * d: "a head is a slice of each matrix: d · d_h numbers, not d · d",
        4 * d * d + 3 * d: "that is the whole layer: a head is a slice, d_h rows of each matrix",
        4 * k * k + 3 * k: "each slice is d_h wide and d long: d · d_h numbers, not d_h · d_h",
        4 * 384 * 32 + 3 * 32: "that is a head of MiniLM: use width and head_width",
        0: "removed weights are gone: only a mask leaves all parameters where they are",
    }
    assert found not in wrong, f"{found:.0f}: {wrong[found]}"
    right = _fewer(d, 4, 1)
    assert found == right, f"width 24, head width 6, one head: removal takes {right} parameters away, you say {found:g}"
    for width, heads, removed in ((24, 4, 3), (32, 2, 1), (24, 4, 0)):
        right, said = _fewer(width, heads, removed), float(attempt(removed, width, width // heads))
        once = (
            "; you counted one: multiply by removed, each head owns its own" if removed != 1 and said == found else ""
        )
        case = f"{removed} heads of width {width // heads} in {width}"
        assert said == right, f"{case}: expected {right}, got {said:g}{once}"


class _Ranker:
    """Scores that change when heads go: what is left, the least important first, depends on what is gone."""

    def __init__(self, total: int):
        self.total, self.calls = total, []

    def __call__(self, gone) -> list[int]:
        gone = list(gone)
        self.calls.append(gone)
        nested = any(hasattr(head, "__len__") for head in gone)
        assert not nested, f"rank wants a flat list of numbers, got {gone}: add lists with +=, not with append"
        assert len(set(gone)) == len(gone), f"rank(gone) got a head twice: {gone}. Collect each head once"
        return _left(self.total, gone)


def _left(total: int, gone: list[int]) -> list[int]:
    """A ranking of what is left, another one for each number of heads that are gone."""
    left = sorted((head for head in range(total) if head not in gone), key=lambda head: (7 * head + 3) % total)
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
        found = list(attempt(ranker, total, rounds))
        assert not any(hasattr(head, "__len__") for head in found), "return one flat list of numbers: add lists with +="
        found = [int(head) for head in found]
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
        assert any(sizes) or rounds == 1, f"{case}: you told rank each time that none is gone: tell it what is gone"
        step = total // rounds
        swapped = [rounds * i for i in range(rounds)]
        assert sizes != swapped or rounds in (1, step), (
            f"{case}: total // rounds = {step} heads go in a round, not {rounds}"
        )
        right = [step * i for i in range(rounds)]
        assert not (rounds > 2 and sizes[2] == step), f"{case}: tell rank all heads that are gone, not the last round's"
        assert len(found) == len(set(found)), f"{case}: a head is there twice: each goes once"
        assert len(found) == total, f"{case}: the order holds {len(found)} heads, not {total}"
        assert sizes == right, f"{case}: rank was told {sizes} heads are gone, expected {right}: equal rounds"
        blocks = [head for i in range(rounds)[::-1] for head in expected[i * step : (i + 1) * step]]
        assert rounds == 1 or found not in (expected[::-1], blocks), f"{case}: the reverse: the first to go is in front"
        assert rounds == 1 or found != sorted(found), f"{case}: you sorted the heads. Leave them as they went"
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
    queries, indexes = new.queries, (old.passages, new.passages)
    for k in (3, 1):
        found = attempt(queries, *indexes, k)
        assert isinstance(found, tuple | list) and len(found) == 2, "return two numbers: old index, rebuilt index"
        found = tuple(round(float(each), 6) for each in found)
        right = _shares(queries, indexes, k)
        assert all(each <= 1 for each in found), (
            f"recall is a share, at most 1: got {found}; divide by the queries, and give no percent"
        )
        assert found != right[::-1], f"the two are swapped: first the old index, then the rebuilt one; got {found}"
        for mistake, wrong in _mistakes(queries, indexes, k).items():
            assert found != wrong, f"k={k}: {mistake}"
        assert found[0] != found[1], f"both are {found[0]:.2f}: one of them must search the old passages"
        counted = [each * len(queries) for each in found]
        assert np.allclose(counted, np.round(counted), atol=1e-3), (
            f"recall is a count of queries over their number, {len(queries)} here: {found} is none. No mean of cosines"
        )
        assert found == right, (
            f"k={k}: expected {right[0]:.2f} and {right[1]:.2f}, got {found[0]:.2f} and {found[1]:.2f}"
        )


def _shares(queries: Tensor, indexes: tuple[Tensor, Tensor], k: int, by: float = 1) -> tuple[float, float]:
    return tuple(round(recall(ranks(queries, each), k) / by if k else 0.0, 6) for each in indexes)


def _mistakes(queries: Tensor, indexes: tuple[Tensor, Tensor], k: int) -> dict[str, tuple[float, float]]:
    """What is said of a mistake → the two shares that it gives."""
    count, passages = len(queries), len(indexes[0])
    few = {f"only the first {k - 1} places counted: place {k} itself is in": _shares(queries, indexes, k - 1)}
    few |= {"you counted the first place only: use k": _shares(queries, indexes, 1)} if k > 1 else {}
    few |= {"you divided by k: each query counts once": _shares(queries, indexes, k, k)} if k > 1 else {}
    return few | {
        f"you counted the first {k + 1} places": _shares(queries, indexes, k + 1),
        "you searched only the passages that answer a query: rank all passages": _shares(
            queries, tuple(each[:count] for each in indexes), k
        ),
        "you divided by the passages: it is a share of the number of queries": _shares(
            queries, indexes, k, passages / count
        ),
        "you ranked the queries for each passage: rank the passages for each query": tuple(
            _recall_of_passages(queries, each, k) for each in indexes
        ),
        "you put the smallest cosine first: the largest cosine has place 1": _shares(-queries, indexes, k),
    }


def _recall_of_passages(queries: Tensor, passages: Tensor, k: int) -> float:
    own = (passages[: len(queries)] @ queries.mT).topk(k).indices
    return round(float((own == torch.arange(len(queries))[:, None]).any(1).double().mean()), 6)
