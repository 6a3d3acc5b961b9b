"""What the assessment "Analyse" asks of each exercise: an AssertionError says what went wrong, and by how much.

Nothing about the unknown model is stored here: its duplicates and effects are measured when a check runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import torch

from utils import analyse_truth as truth
from utils.analyse import FLOOR, SHARE, factors, name
from utils.analyse_cases import SPECTRA, head_with, heads_by_role, layer_with_twins, loss_by_cover, loss_with_twins
from utils.analyse_text import NATS, heads_in, holds
from utils.heads import Head, heads_of
from utils.measures import Spectrum, needed_rank

WORDS = range(80, 301)
LISTS = list | set | tuple | frozenset


def gives_roles_by_rule(attempt: Callable) -> None:
    """N.1: attempt(maps (texts, n, n)) → "first token", "offset -k", "diffuse" or "content"."""
    for what, (maps, role) in heads_by_role().items():
        found = attempt(maps.clone())
        if (found := _role(found)) != role:
            _explain_role(what + ": ", found, role, maps.shape[-1])
    for each in heads_of(truth.model()):
        found, role = _role(attempt(truth.maps()[each.layer, each.head].clone())), truth.role(each)
        assert found == role, (
            f"right on the maps made up; on 96 notes that you have not seen {name(each)} is {role!r} by the rules, and "
            f"you say {found!r}"
        )


def _role(found: object) -> str:
    assert isinstance(found, str), f"return the role as a text, not {type(found).__name__}"
    found = found.replace("−", "-")
    named = re.fullmatch(r"first token|diffuse|content|offset [+-]?\d+", found)
    assert named, f"{found!r} is none of the four roles: name them 'first token', 'offset -2', 'diffuse', 'content'"
    return "offset 0" if found in ("offset -0", "offset +0") else found


def _explain_role(case: str, found: str, role: str, n: int) -> None:
    far = found.startswith("offset -") and int(found[8:]) > n // 2
    assert not far, f"{case}you say {found!r}, and few of {n} queries have a key that far back: try k up to n/2"
    if role.startswith("offset"):
        turned = found.replace("+", "") == role.replace("-", "")
        assert not turned, case + f"offset = key − query, so what lies before has a minus: {role!r}, not {found!r}"
        assert found != "first token", case + "only the first rows read token 0: average over all queries from 1 on"
        assert "10 %" not in case, case + "count rows by their greatest weight, and ask that before you ask for entropy"
        left_out = found == "content" and role == "offset -3"
        assert not left_out, case + "leave out the queries that have no key at the offset, which cannot read it"
    if role == "diffuse":
        assert found != "content", case + "row i can have an entropy of ln(i + 1), not of ln n: divide by that"
        assert found != "first token", case + "argmax takes the first of equals: take the mean weight on token 0"
    if role == "content":
        assert "89.7" not in case or found != "first token", case + "query 0 has no choice: begin at query 1"
        assert found != "first token", case + f"the mean weight there is 0.6, below {SHARE}: do not count rows here"
        assert not found.startswith("offset"), case + "an offset must hold over the rows of all texts, not of one"
    raise AssertionError(case + f"the role is {role!r}, you say {found!r}")


def finds_duplicates(attempt: Callable) -> None:
    """N.2: attempt(maps (heads, texts, n, n), values (heads, width, d), outputs (heads, d, width)) → pairs (i, j)."""
    found = _pairs(attempt(*layer_with_twins()))
    assert (0, 2) not in found, (
        "of the layer made up, (0, 2) have equal maps and other values: they read the same tokens and say other "
        "things, so neither replaces the other. Compare W_V W_O as well"
    )
    assert (0, 3) not in found, "(0, 3) have the same W_V W_O and other maps: compare the maps as well"
    assert (0, 5) not in found, "(0, 5) have products of cosine −1: one takes away what the other says"
    assert (0, 1) in found, (
        "(0, 1) are missing: the same head in another basis and half as loud. W_V alone depends on the basis, and a "
        "distance of products on their size: take the cosine of the products W_V W_O"
    )
    assert (6, 7) in found, "(6, 7) are missing: W_V and W_O have both turned their sign, so the product is the same"
    assert (4, 8) not in found, "(4, 8) have equal maps in two of three texts only: take the mean over all texts"
    assert (4, 9) not in found, "(4, 9) have equal maps in the mean only: compare text by text, then take the mean"
    assert (4, 11) not in found, "(4, 11) have the same greatest weights and other maps: compare all weights of a row"
    assert (4, 10) in found, "(4, 10) are missing: their maps differ by 0.04. The total variation has a factor ½"
    right = [(0, 1), (4, 10), (6, 7)]
    assert sorted(found) == right, f"of the layer made up {right} are duplicates, you say {sorted(found)}"
    for layer, (a, b) in enumerate(factors(truth.model(), "value-output")):
        found = {_pair(layer, *pair) for pair in _pairs(attempt(truth.maps()[layer], a, b.mT))}
        for pair in sorted(found ^ {each for each in truth.duplicates() if each[0].layer == layer}):
            distance, cosine = truth.compared()[pair]
            raise AssertionError(
                f"{name(pair[0])} and {name(pair[1])}: their maps differ by {distance:.2f}, their W_V W_O have cosine "
                f"{cosine:.2f}, so they are {'no duplicates' if pair in found else 'duplicates, which you miss'}"
            )


def _pair(layer: int, one: int, other: int) -> tuple[Head, Head]:
    return Head(layer, one, "decoder"), Head(layer, other, "decoder")


def _pairs(found: object) -> set[tuple[int, int]]:
    assert isinstance(found, LISTS), f"return a list of pairs (i, j), not {type(found).__name__}"
    pairs = [tuple(pair) if isinstance(pair, LISTS) else (pair,) for pair in found]
    whole = all(_whole(each) for pair in pairs for each in pair)
    assert whole and all(len(pair) == 2 for pair in pairs), "return pairs of heads, (i, j): two whole numbers each"
    pairs = [(int(i), int(j)) for i, j in pairs]
    assert all(i != j for i, j in pairs), "a head is no duplicate of itself: leave out pairs (i, i)"
    return {(min(pair), max(pair)) for pair in pairs}


def _whole(number: object) -> bool:
    return hasattr(number, "__index__") and not isinstance(number, bool)


def counts_ranks(attempt: Callable) -> None:
    """N.3: attempt(value (width, d), output (d, width), share) → least rank of W_V W_O that holds the share of Σσ²."""
    heads = {values: head_with(values) for values in SPECTRA}
    found = [attempt(*heads[values], share) for values, share in SPECTRA.items()]
    for each in found:
        assert _whole(each), f"return a whole number, not {each!r}"
    spectra = {values: Spectrum(torch.tensor(values)) for values in SPECTRA}
    right = [_rank(spectra[values], share) for values, share in SPECTRA.items()]
    mistakes = {
        "these hold the share of Σσ, not of Σσ²": [_rank(spectra[v], share, 1) for v, share in SPECTRA.items()],
        "these hold 0.9, whatever the share: use the one given": [_rank(each, 0.9) for each in spectra.values()],
        "these hold 0.99, whatever the share: use the one given": [_rank(each, 0.99) for each in spectra.values()],
        "these count all values that are not zero": [sum(value > 0 for value in values) for values in SPECTRA],
        "these are right for W_V alone: take the product W_V W_O": [_rank(heads[v][0], s) for v, s in SPECTRA.items()],
        "these are right for W_O alone: take the product W_V W_O": [_rank(heads[v][1], s) for v, s in SPECTRA.items()],
        "these values hold less than the share: one more": [each - 1 for each in right],
        "these are more than needed: one less": [each + 1 for each in right],
    }
    for words, wrong in mistakes.items():
        assert found != wrong or found == right, f"for four heads you find the ranks {found}: {words}"
    for each, expected, (values, share) in zip(found, right, SPECTRA.items(), strict=True):
        case = f"σ = {', '.join(f'{value:g}' for value in values)}, share {share:g}"
        assert each == expected, f"{case}: expected {expected}, got {each}"
    value, output = heads[values]
    found = attempt(value, torch.zeros_like(output), 0.9)
    assert found == 0, f"a head whose W_O is zero needs rank 0, you say {found}"


def _rank(matrix: torch.Tensor | Spectrum, share: float, power: int = 2) -> int:
    return int(needed_rank(matrix, share, power))


def orders_by_measuring_again(attempt: Callable) -> None:
    """N.4: attempt(loss_without, heads) → heads in the order of removal, measured again after each."""
    found = _order(attempt, loss_with_twins, list("abcde"))
    shown = ", ".join(found)
    turned = found[::-1] in (list("daceb"), list("dbcea"))
    assert not turned, f"{shown} is the right order turned round: the head that goes first comes first"
    assert found[0] != "e", "the head that costs most goes first in your order: the cheapest goes first"
    assert found[:3] not in (list("dab"), list("dba")), (
        "you sorted by what each head costs alone. a and b are twins: each alone costs 0.02, both cost 2.04. Measure "
        "again after each removal"
    )
    assert found in (list("daceb"), list("dbcea")), (
        f"expected d, a, c, e, b (or b for a): each time the head without which the loss is least; you: {shown}"
    )
    found = _order(attempt, loss_by_cover, list("rqust"))
    assert found == list("tsurq"), (
        "right for five heads, and of five others, where two together do what a third does, expected t, s, u, r, q; "
        f"you: {', '.join(found)}. Begin with no head removed, and remove the cheapest of those that are left"
    )


def _order(attempt: Callable, loss: Callable, heads: list[str]) -> list[str]:
    def loss_without(gone: Iterable) -> float:
        gone = set(gone)
        assert gone <= set(heads), f"loss_without was asked for {sorted(map(str, gone))}: give a list of heads"
        return loss(gone)

    found = attempt(loss_without, list(heads))
    assert isinstance(found, list | tuple), f"return the heads as a list, not {type(found).__name__}"
    shown = [str(each) for each in found]
    assert sorted(shown) == sorted(heads), f"every head once: of {', '.join(heads)} you return {', '.join(shown)}"
    return shown


def recommends_within_the_floor(attempt: Callable) -> None:
    """N.5: attempt() → heads to prune. They are pruned, and the loss on the notes to judge by is measured."""
    gone = _heads(attempt())
    rise = truth.cost(gone)
    if rise > FLOOR:
        _explain_loss(gone, rise)
    left = [each for each in heads_of(truth.model()) if each not in gone]
    more = {each: truth.cost([*gone, each]) for each in left}
    best = min(more, key=more.__getitem__)
    assert more[best] > FLOOR, (
        f"it costs {rise:z.3f} nats, within the floor, and {name(best)} may go as well: then it costs {more[best]:z.3f}"
    )


def _explain_loss(gone: list[Head], rise: float) -> None:
    words = f"pruned, the model loses {rise:.3f} nats a token, {rise - FLOOR:.3f} more than the {FLOOR} allowed. "
    for one, other in truth.duplicates():
        if {one, other} <= set(gone):
            again = truth.cost([each for each in gone if each != one])
            assert again > rise - FLOOR, (
                f"{words}{name(one)} and {name(other)} are duplicates: either may go, not both (with one of them back "
                f"it loses {again:.3f})"
            )
    worst = max(gone, key=lambda each: truth.cost([each]))
    alone, role = truth.cost([worst]), truth.role(worst)
    assert alone <= FLOOR, words + {
        "first token": f"{name(worst)} looks like a sink, and what it reads there counts: {alone:.3f} without it alone",
        "diffuse": f"{name(worst)} reads all tokens alike, and its mean counts: {alone:.3f} without it alone",
    }.get(role, f"{name(worst)} ({role}) counts: {alone:.3f} without it alone")
    raise AssertionError(words + "No head does it alone, and no pair of duplicates: put some back, one by one")


def _heads(found: object) -> list[Head]:
    assert isinstance(found, LISTS), f"return a list of (layer, head), not {type(found).__name__}"
    heads = []
    for each in found:
        assert isinstance(each, tuple | list) and len(each) in (2, 3), f"a head is (layer, head), not {each!r}"
        numbers = _whole(each[0]) and _whole(each[1])
        assert numbers, f"a head is (layer, head), two whole numbers, not {each!r}"
        heads.append(Head(int(each[0]), int(each[1]), "decoder"))
        assert heads[-1] in heads_of(truth.model()), f"{each!r} does not exist: layers 0 and 1 have heads 0 to 7"
    return list(dict.fromkeys(heads))


def says_what_was_measured(attempt: Callable) -> None:
    """N.6: attempt() → (heads pruned, text). What the text says of heads agrees with the model, and both losses."""
    found = attempt()
    assert isinstance(found, tuple | list) and len(found) == 2, "return two things: the heads that you prune, the text"
    gone, text = _heads(found[0]), found[1]
    assert isinstance(text, str), f"the text is of type {type(text).__name__}: write sentences"
    words = len(text.split())
    assert words in WORDS, f"your text has {words} words: between {WORDS.start} and {WORDS.stop - 1}, please"
    rise = truth.cost(gone)
    assert rise <= FLOOR, f"your heads cost {rise:.3f} nats, more than {FLOOR}: use what passed Exercise N.5"
    named = set(heads_in(text))
    assert named, "name heads as L0H3 (layer 0, head 3)"
    strange = sorted(named - set(heads_of(truth.model())))
    assert not strange, f"your text names {name(strange[0]) if strange else ''}, which does not exist"
    holds(text, gone)
    assert any(truth.cost([each]) < FLOOR / 10 for each in named & set(gone)), "name a head that you prune, and why"
    said = [float(number) for number in NATS.findall(text)]
    for what, value in {"whole": truth.whole(), "pruned": truth.whole() + rise}.items():
        assert any(abs(each - value) < 0.006 for each in said), (
            f"the loss of the {what} model on the notes to judge by is {value:.2f} nats: your text does not say it"
        )
    assert re.search(r"untrained|random|null|chance", text, re.IGNORECASE), (
        "say beside one of your numbers what a model with random weights, or chance, gives"
    )
