"""What Lab 1 asks of each exercise. Every function takes an attempt and says, in an AssertionError, what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from utils.attention import AttentionMaps, rollout


def follows_the_row(attempt: Callable) -> None:
    """L1.1: attempt(weights, queries, keys, query) → the label of the key that ``query`` reads most."""
    labels = ["a", "b", "c"]
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.1, 0.3, 0.6], [0.8, 0.1, 0.1]])
    found = attempt(weights, labels, labels, "b")
    assert found != "a", "“a” is the token that reads “b” most: you went down the column of “b”. Stay in its row"
    assert not isinstance(found, int | Tensor), f"return the label of the key, not its number: got {found!r}"
    assert found == "c", f"row “b” is [0.1, 0.3, 0.6], so its greatest weight is on “c”; you returned {found!r}"
    found = attempt(weights[:2], ["x", "y"], labels, "x")
    assert found == "b", f"here queries are x, y and keys are a, b, c: x reads “b” most, you returned {found!r}"
    longer, names = _random(6, 6), list("uvwxyz")
    for name, best in zip(names, longer.argmax(dim=-1).tolist(), strict=True):
        found = attempt(longer, names, names, name)
        assert found == names[best], f"right on three tokens; of six, {name!r} reads {names[best]!r}, not {found!r}"


def two_maps_one_scale(attempt: Callable) -> None:
    """L1.2: attempt(first, second, queries, keys) → two axes with seaborn heat maps on one scale."""
    first = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    second = torch.tensor([[0.3, 0.3, 0.4], [0.4, 0.3, 0.3]])
    before = set(plt.get_fignums())
    try:
        _check_pair(attempt(first, second, ["q0", "q1"], ["k0", "k1", "k2"]), (first, second))
        found = attempt(second, first, ["q0", "q1"], ["k0", "k1", "k2"])
        high = [ax.collections[0].get_clim()[1] for ax in np.ravel(found)]
        assert abs(high[0] - 0.8) < 0.01, f"with the two maps swapped the scale ends at {high[0]:.2f}, not at 0.8"
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def _check_pair(found, maps: tuple[Tensor, Tensor]) -> None:
    pair = list(np.ravel(found))
    assert len(pair) == 2, f"return the two axes: got {len(pair)} values"
    assert all(hasattr(ax, "collections") for ax in pair), f"return axes, not {type(pair[0]).__name__}"
    assert not any(ax.images for ax in pair), "that is imshow: use sns.heatmap, with ax= one of the two axes"
    drawn = [len(ax.collections) for ax in pair]
    assert drawn == [1, 1], f"the axes hold {drawn} heat maps: give each sns.heatmap its own ax="
    for ax, weights in zip(pair, maps, strict=True):
        cells = np.ravel(ax.collections[0].get_array())
        assert cells.size == 6 and np.allclose(cells, weights.flatten()), (
            "the cells are not the weights in their order: first map left, second right, and no transpose"
        )
        rows, columns = (_ticks(ax, pair, side) for side in ("y", "x"))
        assert rows == ["q0", "q1"], f"rows are queries: expected q0, q1 on the y axis, found {rows}"
        assert columns == ["k0", "k1", "k2"], f"columns are keys: expected k0, k1, k2 on the x axis, found {columns}"
    limits = [tuple(round(float(each), 2) for each in ax.collections[0].get_clim()) for ax in pair]
    assert limits[0] == limits[1], f"the scales differ, {limits[0]} and {limits[1]}: fix vmin and vmax for both"
    assert limits[0][0] == 0, f"the scale starts at {limits[0][0]}: with vmin=0, white means no weight"
    assert limits[0][1] == 0.8, f"the scale ends at {limits[0][1]}: the larger maximum of the two maps is 0.8"


def _ticks(ax, pair: list, side: str) -> list[str]:
    """The labels of one axis; an axis that is shared shows them on one of the two only."""
    shared = getattr(ax, f"get_shared_{side}_axes")().joined(*pair)
    found = [[tick.get_text() for tick in getattr(each, f"get_{side}ticklabels")()] for each in (ax, *pair)]
    return next(filter(None, found if shared else found[:1]), [])


def merges_readers_and_read(attempt: Callable) -> None:
    """L1.3: attempt(weights, words) → map between words: mean over reading pieces, sum over read ones."""
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.3, 0.6]])
    found = _tensor(attempt(weights, [0, 1, 1]))
    assert tuple(found.shape) == (2, 2), f"three pieces make two words: expected (2, 2), got {tuple(found.shape)}"
    sums = [round(float(each), 2) for each in found.sum(dim=-1)]
    assert sums != [1.0, 2.0], (
        "row 1 sums to 2: you summed over the pieces that read. One word is one reader: take the mean"
    )
    assert sums != [0.6, 0.62], "rows sum to less than 1: you took the mean over the pieces that are read. Sum there"
    assert sums != [0.6, 1.25], "you took the sum over the pieces that read and the mean over those that are read: swap"
    assert sums == [1.0, 1.0], f"rows should sum to 1, yours to {sums}: mean over rows that read, sum over columns"
    expected = torch.tensor([[0.2, 0.8], [0.25, 0.75]])
    assert torch.allclose(found, expected, atol=1e-5), f"expected {_shown(expected)}, got {_shown(found)}"
    words = [0, 1, 1, 2, 3, 3, 3, 4]
    maps = AttentionMaps(_random(1, 1, 8, 8), list("abcdefgh"), list("abcdefgh"), query_words=words, key_words=words)
    maps.query_word_labels = maps.key_word_labels = list("vwxyz")
    longer = _tensor(attempt(maps.head(0, 0), words))
    assert torch.allclose(longer, maps.words().head(0, 0), atol=1e-5), "right for two words, wrong for five"


def counts_the_greatest_weights(attempt: Callable) -> None:
    """L1.4: attempt(weights, offset) → share of the queries with a key at ``offset`` that read it most."""
    shift = 0.6 * torch.eye(6).roll(-1, dims=1) + 0.4 / 6  # rows 1 to 5 read the token before, row 0 the last one
    after, before = float(attempt(shift, 1)), float(attempt(shift, -1))
    assert not (after > 0.5 > before), "the sign is turned round: offset = key − query, so −1 is the token before"
    assert before <= 1, f"a share is at most 1, got {before:.2f}: divide by the number of queries that count"
    assert abs(before - 5 / 6) > 0.01, "you found 5/6: query 0 has no token before it, so do not count it"
    assert abs(before - 2 / 3) > 0.01, "you averaged the weights; count the rows whose greatest weight lies there"
    assert abs(before - 1) < 1e-6, f"all five queries with a token before read it most: expected 1, got {before:.2f}"
    far = float(attempt(shift, 5))
    assert abs(far - 1) < 1e-6, f"only query 0 has a token at +5, and it reads it most: expected 1, got {far:.2f}"
    assert abs(float(attempt(torch.eye(4), 0)) - 1) < 1e-6, "in the identity every token reads itself"
    mixed = torch.eye(4)[[0, 0, 3, 2]]  # of queries 1, 2, 3 the first and the last read the token before
    found = float(attempt(mixed, -1))
    assert abs(found - 2 / 3) < 1e-6, f"two of three queries read the token before: expected 0.67, got {found:.2f}"


def chooses_then_confirms(attempt: Callable) -> None:
    """L1.5: attempt(choose, report, share) → (layer, head) that pass the rule on both tables at the same offset."""
    names = ["layer", "head", "best_offset", "best_offset_share"]
    heads = [(0, 0, -1, 0.95), (0, 1, 0, 0.99), (1, 0, 1, 0.90), (1, 1, 1, 0.93), (2, 0, -1, 0.92), (2, 1, -5, 0.97)]
    again = [(0, 0, -1, 0.94), (0, 1, 0, 0.99), (1, 0, 1, 0.91), (1, 1, 1, 0.85), (2, 0, 1, 0.92), (2, 1, -5, 0.97)]
    again[1:1] = [(3, 0, 1, 0.95)]
    choose = pd.DataFrame([*heads, (3, 0, 1, 0.80)], columns=names)
    for order, said in ((1, ""), (-1, " once the second table is in another order: match rows by layer and head")):
        report = pd.DataFrame(again, columns=names).sort_values(["layer", "head"])[::order].reset_index(drop=True)
        found = _pairs(attempt(choose, report))
        if found != {(0, 0), (1, 0)}:
            _explain(found, said)
    assert not _pairs(attempt(choose, report, share=0.96)), "no neighbour passes a rule of 96 %: use the argument share"
    chosen = [(layer, head, (1, -1)[layer % 2], 0.91 + 0.01 * head) for layer in range(4) for head in range(3)]
    other = pd.DataFrame([(*row[:3], 0.95 - 0.02 * row[0]) for row in chosen], columns=names)
    found = _pairs(attempt(pd.DataFrame(chosen, columns=names), other, share=0.915))
    expected = {(layer, head) for layer in (0, 1) for head in (1, 2)}
    assert found == expected, f"right on the first tables; on others expected {sorted(expected)}, got {sorted(found)}"


def _pairs(found) -> set[tuple[int, int]]:
    asked = "return a list of pairs (layer, head)"
    assert not isinstance(found, pd.DataFrame), f"{asked}, not a DataFrame: list(frame.itertuples(index=False))"
    found = [tuple(each) if hasattr(each, "__iter__") else (each,) for each in found]
    assert all(len(pair) == 2 for pair in found), f"{asked}: yours holds {found[0]}"
    return {(int(layer), int(head)) for layer, head in found}


def _explain(found: set, said: str) -> None:
    assert (0, 1) not in found, f"(0, 1) reads itself: the rule asks for a neighbour, −1 or +1{said}"
    assert (2, 1) not in found, f"(2, 1) reads five tokens back: the rule asks for a neighbour, −1 or +1{said}"
    assert (1, 1) not in found, f"(1, 1) has 0.93 on the half that chose it and 0.85 on the other: it fails{said}"
    assert (3, 0) not in found, f"(3, 0) passes on the second half only, with 0.95; it was not chosen, with 0.80{said}"
    assert (2, 0) not in found, f"(2, 0) reads −1 on one half and +1 on the other: that is no fixed offset{said}"
    assert (1, 0) in found or (0, 0) not in found, f"(1, 0) has exactly 0.90: “at least 90 %” includes it{said}"
    raise AssertionError(f"expected (0, 0) and (1, 0), got {sorted(found)}{said}")


def drops_and_says_how_much(attempt: Callable) -> None:
    """L1.6: attempt(weights, special) → (map without special tokens, mean share that ordinary rows had on them)."""
    special = torch.tensor([True, False, False, False, True])
    weights = _random(5, 5)
    found = attempt(weights, special)
    assert isinstance(found, tuple | list) and len(found) == 2, "return two things: the smaller map and the share"
    small, dropped = _tensor(found[0]), _tensor(found[1])
    assert dropped.numel() == 1, f"the share is one number, the mean over rows: got the shape {tuple(dropped.shape)}"
    dropped = float(dropped)
    assert tuple(small.shape) == (3, 3), f"three ordinary tokens: expected (3, 3), got {tuple(small.shape)}"
    sums = small.sum(dim=-1)
    assert torch.allclose(sums, torch.ones(3), atol=1e-5), (
        f"rows sum to {sums.min():.2f} to {sums.max():.2f}: divide each row by what is left of it"
    )
    ordinary, everyone = float(weights[1:4][:, special].sum(-1).mean()), float(weights[:, special].sum(-1).mean())
    assert abs(dropped - everyone) > 1e-4, "the share counts rows of special tokens too: ordinary rows only"
    assert abs(dropped - ordinary) < 1e-4, f"ordinary rows have {ordinary:.3f} on special keys, you got {dropped:.3f}"
    expected = weights[1:4, 1:4] / weights[1:4, 1:4].sum(dim=-1, keepdim=True)
    assert torch.allclose(small, expected, atol=1e-5), "rows sum to 1, but not each was divided by its own rest"


def knows_the_ends_of_entropy(attempt: Callable) -> None:
    """L1.7: attempt(weights) → entropy of each row in nats, 0 for one cell and ln n for a uniform row."""
    found = _tensor(attempt(torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])))
    assert tuple(found.shape) == (3,), f"one number a row: expected the shape (3,), got {tuple(found.shape)}"
    assert bool(found.isfinite().all()), "there is a NaN: 0 · ln 0 must count as 0"
    assert not bool((found < -1e-4).any()), "entropy is never negative: the sign is missing"
    assert abs(float(found[2]) - 2) > 1e-3, "a uniform row of 4 gave 2: those are bits; nats use the natural logarithm"
    expected = torch.tensor([1.0, 2.0, 4.0]).log()
    shown = ", ".join(f"{float(each):.3f}" for each in found)
    assert torch.allclose(found, expected, atol=1e-5), f"expected ln 1, ln 2, ln 4 = 0, 0.693, 1.386, got {shown}"
    uneven = torch.tensor([[0.9, 0.1, 0.0], [0.7, 0.2, 0.1]])
    found, expected = _tensor(attempt(uneven)), torch.special.entr(uneven).sum(dim=-1)
    assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-4), (
        f"right for uniform rows; for {_shown(uneven)} expected {_shown(expected)}, got {_shown(found)}"
    )


def finds_the_changed_head(attempt: Callable) -> None:
    """L1.8: attempt(first, second) → (layer, head) with the greatest mean absolute difference."""
    first = torch.full((3, 4, 5, 5), 0.2)
    second = first.clone()
    second[2, 1] += torch.tensor([0.2, -0.2, 0.1, -0.1, 0.0])  # every row changes; gains and losses cancel
    second[0, 3, 0, :2] += torch.tensor([0.7, -0.2])  # one row changes, by the largest single cell
    found = attempt(first, second)
    assert hasattr(found, "__len__") and len(found) == 2, f"return (layer, head), two numbers: got {found!r}"
    found = tuple(int(each) for each in found)
    assert found != (0, 3), "(0, 3) has the largest single cell: take the mean of all absolute differences"
    assert found != (2, 3) and found != (1, 2), f"(layer, head) please: got {found}, is that a token position?"
    assert found not in ((0, 9), (3, 0)), f"there are 3 layers of 4 heads: divmod(index, 4), got {found}"
    assert found == (2, 1), f"expected (2, 1), got {found}: gains and losses must not cancel, so take abs() first"
    first, second = _random(3, 4, 5, 5), _random(3, 4, 5, 5).flip(0)
    second[1, 2] = torch.eye(5)[[0, 0, 0, 0, 0]]
    change = (first - second).abs().mean(dim=(-2, -1))
    expected = divmod(int(change.argmax()), 4)
    found = tuple(int(each) for each in attempt(first, second))
    assert found == expected, f"right on the first pair; on another expected {expected}, got {found}"


def multiplies_from_the_left(attempt: Callable) -> None:
    """L1.9: attempt(weights) → rollout by mean fusion with half residual, after the last layer."""
    weights = _random(3, 2, 5, 5)
    found, fused, eye = _tensor(attempt(weights)), weights.mean(dim=1), torch.eye(5)
    assert tuple(found.shape) == (5, 5), f"the last layer only: expected the shape (5, 5), got {tuple(found.shape)}"
    sums = found.sum(dim=-1)
    assert torch.allclose(sums, torch.ones(5), atol=1e-4), f"rows sum to {sums.mean():.2f}, not 1: take ½ I + ½ A"
    bare = fused[2] @ fused[1] @ fused[0]
    assert not torch.allclose(found, bare, atol=1e-5), "the residual half is missing: mix each layer with the identity"
    mixed = 0.5 * eye + 0.5 * fused
    turned = mixed[0] @ mixed[1] @ mixed[2]
    assert not torch.allclose(found, turned, atol=1e-5), (
        "the order is turned round: layer 0 acts first and stands right"
    )
    assert torch.allclose(found, rollout(weights, fusion="mean")[-1], atol=1e-4), "rows sum to 1, but the values differ"


def _random(*shape: int) -> Tensor:
    """Weights with uneven rows that sum to 1."""
    scores = 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    return scores.softmax(dim=-1)


def _tensor(found) -> Tensor:
    """A student's tensor, array, table or list, in single precision."""
    return found.detach().float() if isinstance(found, Tensor) else torch.tensor(np.asarray(found, dtype=np.float32))


def _shown(values: Tensor) -> list:
    """Rounded, as a list."""
    return np.round(values.double().numpy(), 2).tolist()
