"""What Lab 2 asks of each exercise; L2.6 to L2.8 are in ``lab2_later``.

Every function takes an attempt and says, in an AssertionError, what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize


def counts_what_is_nearer(attempt: Callable) -> None:
    """L2.1: attempt(cosines) → the place of each query's own passage (queries,), 1 is the first."""
    cosines = torch.tensor([[0.8, 0.7, 0.6, 0.2], [0.3, 0.8, 0.9, 0.5], [0.4, 0.5, 0.2, 0.7], [0.7, 0.1, 0.9, 0.3]])
    found = _vector(attempt(cosines), 4, "one place a query").tolist()
    assert found != [0, 1, 3, 2], "the best place is 1: you counted from 0, or only what is strictly nearer"
    assert found != [2, 3, 5, 4], "one too many: with ≥ the right passage has counted itself"
    assert found != [4, 3, 1, 2], "the order is turned round: the largest cosine comes first"
    at_the_top = "that is the passage at the top: asked is at which place passage i stands in row i"
    assert found not in ([0, 2, 3, 2], [1, 3, 4, 3]), at_the_top
    sorted_only = (
        "the diagonal of the sorted numbers says who stands at place i: asked is at which place passage i stands"
    )
    assert found not in ([0, 1, 0, 1], [1, 2, 1, 2]), sorted_only
    one_column = "each row needs its own right cosine: make the diagonal a column, [:, None]"
    assert found != [2, 3, 2, 2], one_column
    columns = "you went down the columns: a row is a query, and its cosines with all passages compete"
    assert found not in ([3, 2, 3, 2], [1, 1, 4, 3]), columns
    assert all(each == round(each) for each in found), f"a place is a whole number: count, no mean; got {_shown(found)}"
    assert found == [1, 2, 4, 3], f"expected the places [1, 2, 4, 3], got {_shown(found)}"
    tie = _vector(attempt(torch.tensor([[0.5, 0.5], [0.1, 0.4]])), 2, "one place a query").tolist()
    assert tie[0] != 1, "two passages with the same cosine: a model that gives all the same must not win, so count ≥"
    assert tie == [2, 1], f"with a tie in row 0 expected [2, 1], got {_shown(tie)}"
    larger = _random(30, 30)
    expected = (larger >= larger.diagonal()[:, None]).sum(1)
    assert torch.equal(_vector(attempt(larger), 30, "one place a query").long(), expected), "right on 4, wrong on 30"


def measures_what_is_added(attempt: Callable) -> None:
    """L2.2: attempt(weights, values, w_o) → length of what the head adds at each query (queries,)."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    values = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
    w_o = torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.5, 0.0]])
    found = _vector(attempt(weights, values, w_o), 3, "one length a query")
    likely = {
        (5, 5, 3): "query 1 reads two opposite messages, and they cancel: add the messages first, then take the length",
        (5, 5, 1): "these are the lengths of whole values: weight them first, weights @ values",
        (1, 0, 1.118): "that is the length before the output projection: multiply by w_o, too",
        (1, 0.5, 0.5): "that is the largest weight: what is handed over has a part, too",
        (1, 0.707, 0.707): "that is the length of a row of weights: what is handed over has a part, too",
        (25, 0, 6.5): "that is the squared length: take the root, or .norm(dim=-1)",
        (7, 0, 4): "that is the sum of the numbers: a length is the root of the sum of their squares",
        (7, 0, -3): "that is the sum of the numbers: a length is the root of the sum of their squares",
        (2.887, 0, 1.472): "that is the root of the mean square: a length sums the squares",
        (
            3.354,
            0.5,
            4.472,
        ): "take the lengths along the width of the stream, dim=-1: you took them along the queries",
        (2.5, 2.55, 0.5): "the weights are turned: a row of weights belongs to a query, no .T",
    }
    for numbers, words in likely.items():
        assert not torch.allclose(found, torch.tensor(numbers, dtype=torch.float), atol=2e-3), words
    assert _near(found, [5, 0, 6.5**0.5]), f"expected the lengths [5.00, 0.00, 2.55], got {_shown(found)}"
    weights, values, w_o = _random(6, 4).softmax(-1), _random(4, 3), _random(3, 5)
    expected = (weights @ values @ w_o).norm(dim=-1)
    found = _vector(attempt(weights, values, w_o), 6, "six queries and four keys: one length a query")
    assert torch.allclose(found, expected, atol=1e-4), (
        f"right on three tokens; expected {_shown(expected)}, got {_shown(found)}"
    )


def silences_one_head(attempt: Callable) -> None:
    """L2.3: attempt(z, head, mode, pool) → z with one head's part replaced; z (texts, tokens, heads, d_head)."""
    z, pool = _random(2, 50, 4, 3), _random(60, 4, 3)
    kept = z.clone()
    parts = {}
    for mode in ("zero", "mean", "resample"):
        found = _tensor(attempt(z, 1, mode, pool))
        assert torch.equal(z, kept), (
            "your function changed z itself: the next experiment would start from it. Clone first"
        )
        assert found.shape == z.shape, f"the shape {tuple(z.shape)} must stay, got {tuple(found.shape)}"
        others = [0, 2, 3]
        same = torch.equal(found[:, :, others], z[:, :, others])
        assert same, f"{mode}: other heads changed, too. Heads are dimension 2: z[:, :, head]"
        parts[mode] = found[:, :, 1]
    assert not parts["zero"].any(), "zero: the part of the head is not 0 everywhere"
    of_z = z[:, :, 1].mean((0, 1)).expand(2, 50, 3)
    assert not torch.allclose(parts["mean"], of_z, atol=1e-5), (
        "mean: of the pool, which is other data, not of these texts"
    )
    over_all = pool.mean((0, 1)).expand(2, 50, 3)
    assert not torch.allclose(parts["mean"], over_all, atol=1e-5), (
        "mean: over the tokens of the pool, for this head only"
    )
    of_each = z[:, :, 1].mean(1, keepdim=True).expand(2, 50, 3)
    assert not torch.allclose(parts["mean"], of_each, atol=1e-5), "mean: of the pool, not of each text"
    one = pool[:, 1].mean().expand(2, 50, 3)
    assert not torch.allclose(parts["mean"], one, atol=1e-5), "mean: one for each output of the head: mean(dim=0)"
    expected = pool[:, 1].mean(0).expand(2, 50, 3)
    assert torch.allclose(parts["mean"], expected, atol=1e-5), "mean: expected pool[:, head].mean(0) at every position"
    _drawn(parts["resample"], pool[:, 1])
    _other(attempt, z, pool)


def _other(attempt: Callable, z: Tensor, pool: Tensor) -> None:
    """Another head, and a pool much shorter and much longer than the texts."""
    found = _tensor(attempt(z, 3, "zero", pool))
    assert not found[:, :, 3].any() and torch.equal(found[:, :, 1], z[:, :, 1]), (
        "right for head 1, wrong for 3: use head"
    )
    short = _tensor(attempt(z, 3, "resample", pool[:5]))[:, :, 3].reshape(-1, 3)
    assert (short[:, None] == pool[None, :5, 3]).all(-1).any(-1).all(), "resample: right for a pool of 60, wrong for 5"
    long = _tensor(attempt(z, 0, "resample", pool.repeat(2, 1, 1) + torch.arange(120.0)[:, None, None]))
    assert float(long[:, :, 0].max()) > 65, (
        "resample: a part of the pool was never drawn: draw from len(pool) positions"
    )


def _drawn(part: Tensor, pool: Tensor) -> None:
    """Every position holds one whole row of the pool, and positions differ."""
    rows = part.reshape(-1, part.shape[-1])
    match = (rows[:, None] == pool[None]).all(-1)
    anywhere = (rows[:, None, 0] == pool[None, :, 0]).any(-1).all()
    assert match.any(-1).all() or not anywhere, (
        "resample: the numbers of one output were drawn apart; keep them together"
    )
    assert match.any(-1).all(), "resample: every position should hold one row of pool[:, head], as it is"
    chosen = match.float().argmax(-1).reshape(part.shape[:2])
    assert len(chosen.unique()) > 1, "resample: all positions got the same row: draw one for each"
    assert not torch.equal(chosen[0], chosen[1]), (
        "resample: all texts got the same rows: draw one for each text and token"
    )
    assert not (chosen == chosen[:, :1]).all(), (
        "resample: all tokens of a text got the same row: draw one for each token"
    )
    step = chosen.flatten().diff() % len(pool)
    assert not (step == step[0]).all(), "resample: rows were taken in their order: draw at random, with torch.randint"


def chooses_on_one_half(attempt: Callable) -> None:
    """L2.4: attempt(change, k) → (chosen heads, their mean change where chosen, and on the other half)."""
    change = torch.tensor([[0.3, -0.9], [-0.6, 0.2], [0.5, 0.5], [-0.2, -0.3], [-0.4, -0.4]]).repeat(1, 4)
    change[1, 0::2] = torch.tensor([-0.1, -0.1, -0.1, -2.1])  # mean −0.6
    heads, seen, unseen = _three(attempt(change, 2))
    assert heads != {0, 2}, "you took the heads with the largest change on even texts: the smallest change comes first"
    assert heads != {0, 4}, "you chose with all texts, or with the odd ones: choose with even texts, change[:, 0::2]"
    assert heads not in ({0, 3}, {1, 2}), (
        "that is no order by mean change: keep the sign, and one argsort gives heads in order"
    )
    assert heads == {1, 4}, f"on even texts heads 1 and 4 have the lowest mean change; you chose {sorted(heads)}"
    assert abs(seen + 0.1) > 1e-5 or abs(unseen + 0.5) > 1e-5, "second and third number are swapped: even texts first"
    assert abs(seen - 0.5) > 1e-5, "−0.5 is asked, you return 0.5: give the change as it is, a gain is negative"
    assert abs(seen + 1.0) > 1e-5, "that is a sum over the chosen heads: return their mean"
    assert abs(seen + 0.5) < 1e-5, f"on even texts their mean change is −0.5, you return {seen:.2f}"
    assert abs(unseen + 0.5) > 1e-5, "the third number is that of the even texts again: take change[:, 1::2]"
    assert abs(unseen + 0.3) > 1e-5, "the third number is over all texts: take the odd ones only"
    assert abs(unseen + 0.65) > 1e-5, "on odd texts you chose anew: the heads chosen on even texts stay"
    assert abs(unseen + 0.18) > 1e-5, "the third number is over all heads: take the chosen ones only"
    assert abs(unseen + 0.1) < 1e-5, f"on odd texts their mean change is −0.1, you return {unseen:.2f}"
    larger = _random(40, 30)
    right = larger[:, 0::2].mean(1).argsort()[:7]
    heads, *both = _three(attempt(larger, 7))
    assert heads == set(right.tolist()), "right for 2 of 5 heads, wrong for 7 of 40: use k"
    expected = [float(larger[right, start::2].mean()) for start in (0, 1)]
    assert _near(torch.tensor(both), expected), "right for 2 of 5 heads; for 7 of 40 the means are wrong"


def _three(found) -> tuple[set[int], float, float]:
    """Heads as a set and two numbers, or what is wrong with the form of an answer to L2.4."""
    assert isinstance(found, tuple | list) and len(found) == 3, (
        "return three things: heads, mean where chosen, mean on the rest"
    )
    heads, *means = (_tensor(each) for each in found)
    assert heads.ndim == 1, f"the first is a list of heads, got the shape {tuple(heads.shape)}"
    assert all(each.numel() == 1 for each in means), "each mean is one number: the mean over the chosen heads, too"
    assert torch.equal(heads, heads.round()), (
        f"the first should be numbers of heads, from argsort; these are changes: {_shown(heads)}"
    )
    return {int(each) for each in heads}, *(float(each) for each in means)


def keeps_or_drops_the_sign(attempt: Callable) -> None:
    """L2.5: attempt(gradients) → (absolute, signed), from ∂L/∂g by text and head (texts, heads)."""
    gradients = torch.tensor([[2.0, -3.0, 0.5], [-2.0, -3.0, 3.5], [2.0, -3.0, 3.0], [-1.0, -3.0, 1.0]])
    found = attempt(gradients)
    assert isinstance(found, tuple | list) and len(found) == 2, "return two scores: absolute, signed"
    absolute, signed = (_vector(each, 3, "three heads: one score a head") for each in found)
    right = torch.tensor([1.75, 3, 2])
    assert _near(absolute, right) or not _near(signed, right), "the two are swapped: absolute first"
    assert not _near(absolute, [0.25, 3, 2]), (
        "absolute: you averaged first. Head 0 pushes texts both ways, and that counts: abs, then mean"
    )
    assert not _near(absolute, 4 * right), "absolute: that is the sum over texts; take the mean"
    squares = gradients.square().mean(0)
    assert not _near(absolute, squares) and not _near(absolute, squares.sqrt()), "absolute: no squares: abs, then mean"
    assert not _near(absolute, gradients.abs().amax(0)), "absolute: that is the largest size; take the mean over texts"
    assert not _near(absolute, -right), "absolute: no minus sign: a size is not negative"
    assert _near(absolute, right), f"absolute: expected [1.75, 3, 2], got {_shown(absolute)}"
    assert not _near(signed, [0.25, -3, 2]), (
        "signed: turn the sign. Removal moves the gate from 1 to 0, by −1, so the loss changes by −∂L/∂g"
    )
    assert not _near(signed, [0.25, 3, 2]), "signed: do not take abs: head 2 harms, its removal lowers the loss"
    assert not _near(signed, [-1, 12, -8]), "signed: that is the sum over texts; take the mean"
    assert float(signed.abs().max()) > 1 + 1e-4, "signed: keep the size, too: minus the mean, not only its sign"
    assert not _near(signed, [-1.75, 3, -2]), (
        "signed: that is the absolute score with a sign. Texts that pull head 0 both ways cancel: minus the mean"
    )
    assert not _near(signed, -right), "signed: that is minus the absolute score: no abs at all here"
    assert _near(signed, [-0.25, 3, -2]), f"signed: expected [−0.25, 3, −2], got {_shown(signed)}"


def _random(*shape: int) -> Tensor:
    return normalize(torch.randn(shape, generator=torch.Generator().manual_seed(2)), dim=-1)


def _tensor(found) -> Tensor:
    return torch.as_tensor(found).detach().float()


def _vector(found, size: int, what: str) -> Tensor:
    found = _tensor(found)
    assert tuple(found.shape) == (size,), f"{what}: expected the shape ({size},), got {tuple(found.shape)}"
    return found


def _near(found: Tensor, expected) -> bool:
    return torch.allclose(found.float(), torch.as_tensor(expected, dtype=torch.float), atol=1e-4)


def _shown(found) -> str:
    return "[" + ", ".join(f"{float(each):.2f}".removesuffix(".00") for each in torch.as_tensor(found).flatten()) + "]"
