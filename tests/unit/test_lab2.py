"""The checks of Lab 2: right answers pass, stubs are no error, and each mistake gets the message that names it."""

from __future__ import annotations

import pytest
import torch

from utils import lab2, lab2_later
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.head_audit import spearman


def place(cosines, *, strict=False, first=1, ascending=False, dim=1):
    own = cosines.diagonal()
    own = own[:, None] if dim == 1 else own[None]
    nearer = cosines < own if ascending else cosines > own if strict else cosines >= own
    return nearer.sum(dim) + (first if strict or ascending else first - 1)


def added(weights, values, w_o):
    return (weights @ values @ w_o).norm(dim=-1)


def lengths_first(weights, values, w_o):
    return weights @ (values @ w_o).norm(dim=-1)


def replaced(z, head, mode, pool, *, copy=True, place=2, own=False, heads=False, drawn=None):
    z = z.clone() if copy else z
    part = z.select(place, head)
    if mode == "zero":
        part.zero_()
    elif mode == "mean":
        source = z[:, :, head].mean((0, 1)) if own else pool.mean((0, 1)) if heads else pool[:, head].mean(0)
        part.copy_(source.expand(part.shape))
    else:
        draw = torch.randint(len(pool), part.shape[:2]) if drawn is None else drawn(part.shape[:2])
        part.copy_(pool[draw, head])
    return z


def apart(z, head, mode, pool):
    z = replaced(z, head, mode, pool)
    if mode == "resample":
        draw = torch.randint(len(pool), z[:, :, head].shape)
        z[:, :, head] = pool[:, head].gather(0, draw.flatten(0, 1)).reshape(draw.shape)
    return z


def halves(change, k, *, choose=0, report=1, largest=False, whole=False):
    heads = (change if choose is None else change[:, choose::2]).mean(1).argsort(descending=largest)[:k]
    rest = change[heads] if whole else change[heads][:, report::2]
    return heads, change[heads][:, 0::2].mean(), rest.mean()


def both(gradients, *, absolute=None, sign=-1):
    first = gradients.abs().mean(0) if absolute is None else absolute(gradients)
    return first, sign * gradients.mean(0)


def interval(score, change, draws, *, draw=None, ends=(0.025, 0.975), rho=spearman):
    n = change.shape[1]
    draw = draw or (lambda: torch.randint(n, (n,)))
    values = torch.tensor([rho(score, change[:, draw()].mean(1)) for _ in range(draws)])
    return (rho(score, change.mean(1)), *(float(values.quantile(end)) for end in ends))


def interval_of_heads(score, change, draws):
    mean, values = change.mean(1), []
    for _ in range(draws):
        each = torch.randint(len(score), (len(score),))
        values.append(spearman(score[each], mean[each]))
    return spearman(score, mean), *torch.tensor(values).quantile(torch.tensor([0.025, 0.975])).tolist()


def pearson(first, second):
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1])


def surplus(single, groups, together, *, of=sum, how=lambda a, b: a - b):
    return torch.tensor([how(t, of([single[h] for h in group])) for group, t in zip(groups, together, strict=True)])


def tail(first, second, draws, *, hits=1, absolute=abs, shuffle=True):
    real, count = absolute(spearman(first, second)), 0
    for _ in range(draws):
        order = torch.randperm(len(second)) if shuffle else torch.arange(len(second))
        count += absolute(spearman(first, second[order])) >= real
    return (count + hits) / (draws + hits)


def mean(values):
    return sum(values) / len(values)


RIGHT = {
    "counts_what_is_nearer": place,
    "measures_what_is_added": added,
    "silences_one_head": replaced,
    "chooses_on_one_half": halves,
    "keeps_or_drops_the_sign": both,
    "draws_texts_again": interval,
    "compares_with_the_sum": surplus,
    "shuffles_one_side": tail,
}
WRONG = [
    ("counts_what_is_nearer", lambda c: place(c, strict=True, first=0), "best place is 1"),
    ("counts_what_is_nearer", lambda c: place(c, ascending=True), "turned round"),
    ("counts_what_is_nearer", lambda c: place(c, dim=0), "down the columns"),
    ("counts_what_is_nearer", lambda c: place(c, strict=True), "count ≥"),
    ("counts_what_is_nearer", lambda c: c.argmax(1), "passage at the top"),
    ("counts_what_is_nearer", lambda c: place(c).float().mean(), "one place a query"),
    ("measures_what_is_added", lengths_first, "add the messages first"),
    ("measures_what_is_added", lambda w, v, o: (w @ v).norm(dim=-1), "before the output projection"),
    ("measures_what_is_added", lambda w, v, o: w.amax(-1), "largest weight"),
    ("measures_what_is_added", lambda w, v, o: (w @ v @ o).norm(dim=0), "along the width"),
    ("measures_what_is_added", lambda w, v, o: (w @ v @ o).norm(), "one length a query"),
    ("silences_one_head", lambda *a: replaced(*a, copy=False), "changed z itself"),
    ("silences_one_head", lambda *a: replaced(*a, place=1), "Heads are dimension 2"),
    ("silences_one_head", lambda *a: replaced(*a, own=True), "which is other data"),
    ("silences_one_head", lambda *a: replaced(*a, heads=True), "for this head only"),
    ("silences_one_head", lambda *a: replaced(*a, drawn=lambda s: torch.full(s, 7)), "same row"),
    ("silences_one_head", lambda *a: replaced(*a, drawn=lambda s: torch.randperm(60)[: s[1]].expand(s)), "same rows"),
    ("silences_one_head", lambda *a: replaced(*a, drawn=lambda s: torch.arange(100).reshape(s) % 60), "at random"),
    ("silences_one_head", apart, "drawn apart"),
    ("silences_one_head", lambda z, *a: z.clone(), "zero: the part"),
    ("silences_one_head", lambda z, h, m, p: replaced(z, h, m, p)[:, :, h], "must stay"),
    ("chooses_on_one_half", lambda c, k: halves(c, k, largest=True), "smallest change comes first"),
    ("chooses_on_one_half", lambda c, k: halves(c, k, choose=None), "choose with even texts"),
    ("chooses_on_one_half", lambda c, k: halves(c, k, choose=1), "choose with even texts"),
    ("chooses_on_one_half", lambda c, k: halves(c, k, report=0), "even texts again"),
    ("chooses_on_one_half", lambda c, k: halves(c, k, whole=True), "over all texts"),
    ("chooses_on_one_half", lambda c, k: halves(c, 2), "use k"),
    ("chooses_on_one_half", lambda c, k: halves(c, k)[0], "three things"),
    ("keeps_or_drops_the_sign", lambda g: both(g, sign=1), "turn the sign"),
    ("keeps_or_drops_the_sign", lambda g: both(g, absolute=lambda g: g.mean(0).abs()), "averaged first"),
    ("keeps_or_drops_the_sign", lambda g: both(g, absolute=lambda g: g.abs().sum(0)), "sum over texts"),
    ("keeps_or_drops_the_sign", lambda g: (g.abs().mean(0), g.mean(0).abs()), "do not take abs"),
    ("keeps_or_drops_the_sign", lambda g: both(g)[::-1], "swapped"),
    ("keeps_or_drops_the_sign", lambda g: (g.abs().mean(1), g.mean(1)), "one score a head"),
    ("draws_texts_again", interval_of_heads, "draw columns"),
    ("draws_texts_again", lambda *a: interval(*a, rho=pearson), "Pearson"),
    ("draws_texts_again", lambda s, c, n: interval(s, c, n, draw=lambda: torch.randperm(60)), "WITH replacement"),
    ("draws_texts_again", lambda *a: interval(*a, ends=(0.16, 0.84)), "0.025 and 0.975"),
    ("draws_texts_again", lambda s, c, n: interval(s, c, n, draw=lambda: torch.randint(60, (10,))), ""),
    ("draws_texts_again", lambda *a: interval(*a)[0], "three numbers"),
    ("compares_with_the_sum", lambda *a: surplus(*a, how=lambda t, s: s - t), "turned round"),
    ("compares_with_the_sum", lambda *a: surplus(*a, of=mean), "not with their mean"),
    ("compares_with_the_sum", lambda *a: surplus(*a, how=lambda t, s: t / s), "not a ratio"),
    ("compares_with_the_sum", lambda *a: surplus(*a).sum(), "one number a group"),
    ("shuffles_one_side", lambda a, b, n: tail(a, b, n, hits=0), "count the real order in"),
    ("shuffles_one_side", lambda a, b, n: tail(a, b, n, shuffle=False), "shuffle both sides"),
    ("shuffles_one_side", lambda a, b, n: tail(a, b, n, absolute=float), "turned round"),
    ("shuffles_one_side", lambda a, b, n: tail(a, b, n) / 2, "as many draws as asked"),
]


def of(name):
    return getattr(lab2, name, None) or getattr(lab2_later, name)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(name):
    result = check("L2", RIGHT[name], of(name))
    assert result.status == PASSED, result.message


@pytest.mark.parametrize("name", RIGHT)
def test_a_stub_is_not_attempted_yet(name):
    def stub(*_args, **_kwargs):
        """Only words."""

    assert check("L2", stub, of(name)).status == NOT_ATTEMPTED


@pytest.mark.parametrize("name, attempt, words", WRONG)
def test_a_mistake_is_named(name, attempt, words):
    result = check("L2", attempt, of(name))
    assert result.status == NOT_YET
    assert words in result.message


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_of_another_kind_is_reported_and_not_raised(name):
    for value in ("text", 3.0, [[1, 2], [3]], torch.zeros(2, 2)):
        result = check("L2", lambda *_, value=value, **__: value, of(name))
        assert result.status == NOT_YET and result.message


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes_as_array(name):
    def as_arrays(found):
        if isinstance(found, tuple):
            return [as_arrays(each) for each in found]
        return found.double().numpy() if isinstance(found, torch.Tensor) else found

    result = check("L2", lambda *a: as_arrays(RIGHT[name](*a)), of(name))
    assert result.status == PASSED, result.message


@pytest.mark.parametrize("seed", range(5))
def test_right_answers_that_draw_pass_with_any_seed(seed):
    torch.manual_seed(seed)
    for name in ("silences_one_head", "draws_texts_again", "shuffles_one_side"):
        result = check("L2", RIGHT[name], of(name))
        assert result.status == PASSED, result.message


def test_every_check_of_the_module_is_tested_with_three_mistakes_or_more():
    checks = [
        name
        for name, each in (vars(lab2) | vars(lab2_later)).items()
        if getattr(each, "__doc__", None) and (each.__doc__ or "")[:3] == "L2."
    ]
    assert set(checks) == set(RIGHT)
    assert all(sum(name == each for each, *_ in WRONG) >= 3 for name in RIGHT)
