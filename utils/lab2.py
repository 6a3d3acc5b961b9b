"""What Lab 2 asks of each exercise. Every function takes an attempt and says, in an AssertionError, what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from utils.head_audit import spearman


def counts_what_is_nearer(attempt: Callable) -> None:
    """L2.1: attempt(cosines) → the place of each query's own passage (queries,), 1 is the first."""
    cosines = torch.tensor([[0.9, 0.1, 0.2, 0.3], [0.8, 0.3, 0.5, 0.1], [0.7, 0.2, 0.4, 0.1], [0.2, 0.35, 0.4, 0.1]])
    found = _vector(attempt(cosines), 4, "one place a query")
    places = [round(float(each)) for each in found]
    assert places != [0, 2, 1, 3], "the best place is 1: you counted from 0, or only what is strictly nearer"
    assert places != [4, 2, 3, 1], "the order is turned round: the largest cosine comes first"
    assert places != [0, 0, 0, 2], (
        "that is the passage at the top, or a column: asked is where passage i stands in row i"
    )
    assert places != [1, 2, 3, 4], (
        "you went down the columns: a row is a query, and its cosines with all passages compete"
    )
    assert places == [1, 3, 2, 4], f"expected the places [1, 3, 2, 4], got {places}"
    tie = _vector(attempt(torch.tensor([[0.5, 0.5], [0.1, 0.4]])), 2, "one place a query")
    assert float(tie[0]) != 1, (
        "two passages with the same cosine: a model that gives all the same must not win, so count ≥"
    )
    assert [float(each) for each in tie] == [2, 1], f"with a tie in row 0 expected [2, 1], got {tie.tolist()}"
    larger = _random(30, 30)
    expected = (larger >= larger.diagonal()[:, None]).sum(1)
    assert torch.equal(_vector(attempt(larger), 30, "one place a query").long(), expected), "right on 4, wrong on 30"


def measures_what_is_added(attempt: Callable) -> None:
    """L2.2: attempt(weights, values, w_o) → length of what the head adds at each query (queries,)."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    values = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
    w_o = torch.tensor([[3.0, 0.0, 4.0], [0.0, 0.5, 0.0]])
    found = _vector(attempt(weights, values, w_o), 3, "one length a query")
    shown = [round(float(each), 2) for each in found]
    assert shown != [5.0, 5.0, 1.0], (
        "query 1 reads two opposite messages, and they cancel: add the messages first, then take the length"
    )
    assert shown != [1.0, 0.0, 2.0], "that is the length before the output projection: multiply by w_o, too"
    assert shown != [1.0, 0.5, 1.0], "that is the largest weight: what is handed over has a part, too"
    assert shown == [5.0, 0.0, 1.0], f"expected the lengths [5, 0, 1], got {shown}"
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
    expected = pool[:, 1].mean(0).expand(2, 50, 3)
    assert torch.allclose(parts["mean"], expected, atol=1e-5), "mean: expected pool[:, head].mean(0) at every position"
    _drawn(parts["resample"], pool[:, 1])


def _drawn(part: Tensor, pool: Tensor) -> None:
    """Every position holds one whole row of the pool, and positions differ."""
    rows = part.reshape(-1, part.shape[-1])
    match = (rows[:, None] == pool[None]).all(-1)
    anywhere = (rows[:, None, 0] == pool[None, :, 0]).any(-1).all()
    assert match.any(-1).all() or not anywhere, (
        "resample: the numbers of one output were drawn apart; keep them together"
    )
    assert match.any(-1).all(), "resample: every position should hold one row of pool[:, head]"
    chosen = match.float().argmax(-1).reshape(part.shape[:2])
    assert len(chosen.unique()) > 1, "resample: all positions got the same row: draw one for each"
    assert not torch.equal(chosen[0], chosen[1]), (
        "resample: all texts got the same rows: draw one for each text and token"
    )
    step = chosen.flatten().diff() % len(pool)
    assert not (step == step[0]).all(), "resample: rows were taken in their order: draw at random, with torch.randint"


def chooses_on_one_half(attempt: Callable) -> None:
    """L2.4: attempt(change, k) → (chosen heads, their mean change where chosen, and on the other half)."""
    change = torch.zeros(5, 8)
    change[0, 0::2], change[0, 1::2] = -0.6, 0.2  # helps to remove on even texts only
    change[1, 0::2], change[1, 1::2] = -0.4, -0.4
    change[2, 0::2], change[2, 1::2] = 0.3, -0.9
    change[3] = 0.5
    change[4, 0::2], change[4, 1::2] = -0.1, -0.2
    found = attempt(change, 2)
    assert isinstance(found, tuple | list) and len(found) == 3, (
        "return three things: heads, mean where chosen, mean on the rest"
    )
    heads, seen, unseen = {int(each) for each in found[0]}, float(found[1]), float(found[2])
    assert heads != {2, 3}, (
        "you took the heads whose removal harms most, on even texts: the smallest change comes first"
    )
    assert heads not in ({1, 2}, {2, 4}), (
        "you chose with all texts, or with the odd ones: choose with even texts, change[:, 0::2]"
    )
    assert heads == {0, 1}, f"on even texts heads 0 and 1 have the lowest change; you chose {sorted(heads)}"
    assert abs(seen + 0.5) < 1e-5, f"on even texts their mean change is −0.5, you return {seen:.2f}"
    assert abs(unseen + 0.5) > 1e-5, "the third number is that of the even texts again: take change[:, 1::2]"
    assert abs(unseen + 0.3) > 1e-5, "the third number is over all texts: take the odd ones only"
    assert abs(unseen + 0.1) < 1e-5, f"on odd texts their mean change is −0.1, you return {unseen:.2f}"
    larger = _random(40, 30)
    heads = larger[:, 0::2].mean(1).argsort()[:7]
    found = {int(each) for each in attempt(larger, 7)[0]}
    assert found == set(heads.tolist()), "right for 2 of 5 heads, wrong for 7 of 40: use k"


def keeps_or_drops_the_sign(attempt: Callable) -> None:
    """L2.5: attempt(gradients) → (absolute, signed), from ∂L/∂g by text and head (texts, heads)."""
    gradients = torch.tensor([[2.0, -1.0, 0.5], [-2.0, -1.0, 1.5], [2.0, -1.0, 1.0], [-2.0, -1.0, 1.0]])
    found = attempt(gradients)
    assert isinstance(found, tuple | list) and len(found) == 2, "return two scores: absolute, signed"
    absolute, signed = (_vector(each, 3, "three heads: one score a head") for each in found)
    assert _near(absolute, [2, 1, 1]) or not _near(signed, [2, 1, 1]), "the two are swapped: absolute first"
    assert not _near(absolute, [0, 1, 1]), (
        "absolute: you averaged first. Head 0 pushes texts both ways, and that counts: abs, then mean"
    )
    assert not _near(absolute, [8, 4, 4]), "absolute: that is the sum over texts; take the mean"
    assert _near(absolute, [2, 1, 1]), f"absolute: expected [2, 1, 1], got {_shown(absolute)}"
    assert not _near(signed, [0, -1, 1]), (
        "signed: turn the sign. Removal moves the gate from 1 to 0, by −1, so the loss changes by −∂L/∂g"
    )
    assert not _near(signed, [0, 1, 1]), "signed: do not take abs: head 2 harms, its removal lowers the loss"
    assert _near(signed, [0, 1, -1]), f"signed: expected [0, 1, −1], got {_shown(signed)}"


def draws_texts_again(attempt: Callable) -> None:
    """L2.6: attempt(score, change, draws) → (rank correlation, low, high), texts drawn with replacement."""
    generator = torch.Generator().manual_seed(0)
    score = torch.linspace(-1, 1, 40).exp()
    noise = torch.randn(40, 60, generator=generator)
    change = score[:, None] ** 3 / 6 + 2 * noise
    found = attempt(score, change, 300)
    assert isinstance(found, tuple | list) and len(found) == 3, "return three numbers: correlation, low, high"
    rho, low, high = (float(each) for each in found)
    right = spearman(score, change.mean(1))
    pearson = float(torch.corrcoef(torch.stack([score, change.mean(1)]))[0, 1])
    assert abs(rho - pearson) > 1e-4, f"{rho:.3f} is Pearson's: rank both lists first, or call spearman"
    assert abs(rho - right) < 1e-4, (
        f"the correlation of the score with the mean over texts is {right:.3f}, you return {rho:.3f}"
    )
    assert high > low, "low and high are the same, or turned round: draw WITH replacement, then take two quantiles"
    same = [float(each) for each in attempt(score, change.mean(1, keepdim=True).expand(40, 60), 50)]
    assert same[2] - same[1] < 1e-6, "all texts alike, and still an interval: draw columns (texts), not rows (heads)"
    expected, drawn = _width(score, change), high - low
    seen = f"{drawn:.2f} against {expected:.2f}"
    assert drawn < 1.35 * expected, f"the interval is too wide, {seen}: one draw has as many texts as there are"
    assert drawn > 0.75 * expected, f"the interval is narrow, {seen}: the middle 95 %, quantiles 0.025 and 0.975"


def _width(score: Tensor, change: Tensor, draws: int = 500) -> float:
    generator, n = torch.Generator().manual_seed(0), change.shape[1]
    chosen = torch.randint(n, (draws, n), generator=generator)
    values = torch.tensor([spearman(score, change[:, each].mean(1)) for each in chosen])
    return float(values.quantile(0.975) - values.quantile(0.025))


def compares_with_the_sum(attempt: Callable) -> None:
    """L2.7: attempt(single, groups, together) → what each group costs beyond the sum of its heads (groups,)."""
    single = {(0, 0): 0.2, (0, 1): 0.1, (1, 0): -0.05, (2, 3): 0.4}
    groups = [[(0, 0), (0, 1)], [(0, 0), (1, 0), (2, 3)], [(1, 0), (2, 3)]]
    together = [0.9, 0.55, 0.1]
    found = _vector(attempt(single, groups, together), 3, "one number a group")
    assert not _near(found, [-0.6, 0.0, 0.25]), "the sign is turned round: positive means that together they cost more"
    assert not _near(found, [0.75, 0.55 - 0.55 / 3, 0.1 - 0.35 / 2]), (
        "compare with the sum of the single effects, not with their mean"
    )
    assert not _near(found, [3.0, 1.0, 0.1 / 0.35]), "a difference, not a ratio: sums can be near 0"
    assert _near(found, [0.6, 0.0, -0.25]), f"expected [0.6, 0, −0.25], got {_shown(found)}"


def shuffles_one_side(attempt: Callable) -> None:
    """L2.8: attempt(first, second, draws) → share of shuffles whose |rank correlation| is at least the real one's."""
    first = torch.arange(12.0)
    alike = first.clone()
    alike[[3, 7]] = alike[[7, 3]]
    found = float(attempt(first, alike, 300))
    assert found > 0, (
        "a share of exactly 0 promises more than 300 draws can show: count the real order in, (hits + 1) / (draws + 1)"
    )
    assert found < 0.9, (
        f"a strong agreement gave {found:.2f}: did you shuffle both sides alike, or count the wrong way round?"
    )
    assert found < 0.02, f"no shuffle should reach this agreement: expected about 1 in 301, got {found:.3f}"
    found = float(attempt(first, -alike, 300))
    assert found < 0.02, "an order turned round is no accident either: compare absolute values"
    weak = _random(12)
    right = _tail(first, weak)
    found = float(attempt(first, weak, 2000))
    assert abs(found - right) < 0.06, f"for an order drawn at random expected about {right:.2f}, got {found:.2f}"


def _tail(first: Tensor, second: Tensor) -> float:
    generator = torch.Generator().manual_seed(3)
    real = abs(spearman(first, second))
    draws = [abs(spearman(first, second[torch.randperm(len(second), generator=generator)])) for _ in range(3000)]
    return sum(each >= real - 1e-12 for each in draws) / len(draws)


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


def _shown(found: Tensor) -> str:
    return "[" + ", ".join(f"{float(each):.2f}" for each in found.flatten()) + "]"
