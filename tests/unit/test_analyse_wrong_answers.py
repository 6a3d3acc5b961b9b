"""Wrong answers as students give them to the assessment "Analyse": refused, with a message that names the mistake."""

from __future__ import annotations

import pytest
import torch

from utils import analyse_exercises as exercises
from utils import analyse_truth as truth
from utils.analyse import FLOOR, name
from utils.analyse_text import claims_of
from utils.exercises import NOT_YET, PASSED, check
from utils.heads import heads_of

torch.set_num_threads(1)
CHECKS = {
    "N.1": exercises.gives_roles_by_rule,
    "N.2": exercises.finds_duplicates,
    "N.3": exercises.counts_ranks,
    "N.4": exercises.orders_by_measuring_again,
}


def said(number, change):
    """The right role, changed as a text."""
    return lambda maps: change(truth.role_by_rules(maps[:number]))


def any_distance(maps):
    """The rules without a limit for k: few rows have a key far back."""
    n = maps.shape[-1]
    right = truth.role_by_rules(maps)
    back = maps.argmax(-1) - torch.arange(n)
    far = [k for k in range(n) if (back[:, k:] == -k).float().mean() >= 0.9]
    return f"offset -{far[0]}" if far and right != "first token" else right


def entropy_first(maps):
    even = torch.special.entr(maps[:, 1:]).sum(-1) / torch.arange(2, maps.shape[-1] + 1).log()
    return "diffuse" if even.mean() >= 0.9 else truth.role_by_rules(maps)


def pairs(maps, values, outputs, distance=None):
    """Duplicates, with another distance of maps (texts, n, n)."""
    distance = distance or (lambda a, b: (a - b).abs().sum(-1).mean() / 2)
    products = (values @ outputs).flatten(1)
    return [
        (i, j)
        for i in range(len(maps))
        for j in range(i + 1, len(maps))
        if distance(maps[i], maps[j]) <= 0.05 and torch.cosine_similarity(products[i], products[j], dim=0) >= 0.9
    ]


def rows_apart(a, b):
    return (a - b).abs().sum(-1).mean() / 2


def rank(value, output, share):
    held = torch.linalg.svdvals(value.double() @ output.double()).square().cumsum(0)
    return int((held < share * held[-1] * (1 - 1e-12)).sum()) + 1 if held[-1] > 0 else 0


def backward(loss_without, heads):
    """Heads put back one by one, in the order of what each of them repairs, read from the end."""
    gone, order = list(heads), []
    while gone:
        best = min(gone, key=lambda head: loss_without([each for each in gone if each != head]))
        gone.remove(best)
        order.append(best)
    return order


WRONG = [
    ("N.1", any_distance, "few of 24 queries have a key that far back"),
    ("N.1", entropy_first, "before you ask for entropy"),
    ("N.1", lambda m: "first token" if m[..., 0].mean() >= 0.9 else truth.role_by_rules(m), "begin at query 1"),
    ("N.1", said(None, lambda role: role.replace("first token", "sink")), "'sink' is none of the four roles"),
    ("N.1", said(None, str.capitalize), "'Offset -1' is none of the four roles"),
    ("N.1", lambda maps: "content", "the role is 'offset -1', you say 'content'"),
    ("N.1", said(1, str), "of all texts, not of one"),
    ("N.1", lambda maps: 3 if len(maps) > 2 else truth.role_by_rules(maps), "as a text, not int"),
    ("N.2", lambda m, *x: pairs(m[:, :1], *x), "two of three texts only"),
    ("N.2", lambda m, *x: pairs(m[:, : max(1, m.shape[1] // 2)], *x), "two of three texts only"),
    ("N.2", lambda m, *x: pairs(m.mean(1, keepdim=True), *x), "compare text by text"),
    ("N.2", lambda *x: pairs(*x, lambda a, b: 2 * rows_apart(a, b)), "a factor ½"),
    ("N.2", lambda *x: pairs(*x, lambda a, b: (a.argmax(-1) != b.argmax(-1)).float().mean()), "all weights of a row"),
    ("N.2", lambda m, v, o: pairs(m, v, torch.eye(v.shape[-1]).expand(len(v), -1, -1)), "depends on the basis"),
    ("N.2", lambda *x: [(i + 0.5, j) for i, j in pairs(*x)], "two whole numbers each"),
    ("N.2", lambda *x: ["L0H0", "L0H1"], "two whole numbers each"),
    ("N.3", lambda v, o, share: rank(v, o, 0.9), "hold 0.9, whatever the share"),
    ("N.3", lambda v, o, share: rank(v, o, 0.99), "hold 0.99, whatever the share"),
    ("N.3", lambda v, o, share: int(torch.linalg.matrix_rank(v @ o)), "all values that are not zero"),
    ("N.3", lambda *x: rank(*x) + 1, "one less"),
    ("N.3", lambda *x: float(rank(*x)), "a whole number, not 1.0"),
    ("N.3", lambda *x: 2, "expected 1, got 2"),
    ("N.4", lambda loss, heads: list("daceb"), "every head once: of r, q, u, s, t"),
    ("N.4", lambda loss, heads: backward(loss, heads)[::-1], "Begin with no head removed"),
    ("N.4", backward, "the right order turned round"),
    ("N.4", lambda loss, heads: sorted(heads, key=lambda h: loss([h])), "you sorted by what each head costs alone"),
    ("N.4", lambda loss, heads: [loss([h]) for h in heads], "every head once"),
    ("N.4", lambda loss, heads: set(heads), "as a list, not set"),
]


def refused(attempt, number: str, checked=None) -> str:
    result = check(number, attempt, checked or CHECKS[number])
    assert result.status == NOT_YET, result
    return result.message


@pytest.mark.parametrize(("number", "attempt", "words"), WRONG)
def test_a_wrong_answer_learns_its_mistake(number, attempt, words):
    assert words in refused(attempt, number)


def test_what_the_wrong_answers_are_made_of_is_right():
    right = {"N.1": said(None, str), "N.2": pairs, "N.3": rank}
    assert [check(number, attempt, CHECKS[number]).status for number, attempt in right.items()] == [PASSED] * 3


def test_offset_0_may_have_a_sign_and_a_pair_may_be_named_from_either_end():
    for zero in ("-0", "+0", "−0"):
        answer = said(None, lambda role, zero=zero: role.replace("offset 0", f"offset {zero}"))
        assert check("N.1", answer, CHECKS["N.1"]).status == PASSED
    assert check("N.2", lambda *x: [(j, i) for i, j in pairs(*x)], CHECKS["N.2"]).status == PASSED


# N.5: rules of thumb, measured.


def sharpness(head) -> float:
    return float(truth.maps()[head.layer, head.head].max(-1).values.mean())


def alone(head) -> float:
    return truth.cost([head])


def thumb(rule: str) -> list:
    heads = heads_of(truth.model())
    return {
        "all": heads,
        "none": [],
        "the least sharp": sorted(heads, key=sharpness)[:8],
        "the sharpest": sorted(heads, key=sharpness)[8:],
        "every sink": [each for each in heads if truth.role(each) == "first token"],
        "every even head": [each for each in heads if truth.role(each) == "diffuse"],
        "cheap alone": [each for each in heads if alone(each) < FLOOR],
        "one of each pair": [pair[0] for pair in truth.duplicates()],
        "both of each pair": [each for pair in truth.duplicates() for each in pair],
        "those to keep": [each for each in heads if alone(each) >= FLOOR],
    }[rule]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("all", "either may go, not both"),
        ("none", "may go as well"),
        ("the least sharp", "more than the 0.05 allowed"),
        ("the sharpest", "either may go, not both"),
        ("every sink", "looks like a sink, and what it reads there counts"),
        ("every even head", "reads all tokens alike, and its mean counts"),
        ("cheap alone", "either may go, not both"),
        ("one of each pair", "may go as well"),
        ("both of each pair", "either may go, not both"),
        ("those to keep", "without it alone"),
    ],
)
def test_a_rule_of_thumb_does_not_make_a_recommendation(rule, words):
    message = refused(lambda: [each[:2] for each in thumb(rule)], "N.5", exercises.recommends_within_the_floor)
    assert words in message and "-0.000" not in message


@pytest.mark.parametrize("answer", [[("0", "3")], [(0.7, 3.2)], [(True, False)], [(0, 1), (0, None)]])
def test_a_head_is_two_whole_numbers(answer):
    message = refused(lambda: answer, "N.5", exercises.recommends_within_the_floor)
    assert "two whole numbers" in message and str(answer[-1]) in message


# N.6: what the text says of heads has to be so.


@pytest.fixture(scope="module")
def parts() -> dict:
    """What a right text is made of, measured."""
    heads, pruned = heads_of(truth.model()), []
    for each in sorted(heads, key=alone):
        if truth.cost([*pruned, each]) <= FLOOR:
            pruned.append(each)
    needed = [each for each in heads if alone(each) > FLOOR]
    idle = [each for each in pruned if alone(each) < FLOOR / 10 and not any(each in p for p in truth.duplicates())]
    return {"pruned": pruned, "needed": needed, "idle": idle, "twins": list(truth.duplicates()[0])}


def named(heads) -> str:
    return " and ".join(map(name, heads)) + (" are" if len(heads) > 1 else " is")


def diagnosis(parts, needed=None, idle=None, twins=None, rest="", null="An untrained model has no such head."):
    losses = f"The loss is {truth.whole():.2f} nats, pruned {truth.whole() + truth.cost(parts['pruned']):.2f} nats."
    sentences = [
        f"{named(needed or parts['needed'])} needed.",
        f"{named(idle or parts['idle'])} idle.",
        f"{named(twins or parts['twins'])} duplicates.",
    ]
    return lambda: (parts["pruned"], " ".join([*sentences, rest, losses, null, "We have measured each of them." * 20]))


def test_a_text_that_is_so_passes(parts):
    result = check("N.6", diagnosis(parts), exercises.says_what_was_measured)
    assert result.status == PASSED, result.message


def test_a_text_that_is_not_so_is_refused_and_learns_what_was_measured(parts):
    twins, needed, idle = parts["twins"], parts["needed"], parts["idle"]
    kept = next(each for each in twins if each not in parts["pruned"])
    other_layer = next(each for each in idle if each.layer != twins[0].layer)
    for answer, words in (
        (diagnosis(parts, needed=idle[:1]), f"{name(idle[0])} is needed, and prune it"),
        (diagnosis(parts, idle=needed[:1]), f"{name(needed[0])} is idle: without it alone the loss rises by"),
        (diagnosis(parts, idle=[kept]), "without it and the heads that you prune"),
        (diagnosis(parts, twins=[twins[0], needed[0]]), "their maps differ by"),
        (diagnosis(parts, twins=[*twins, other_layer]), "they lie in two layers"),
        (diagnosis(parts, twins=twins[:1]), "name both heads of the pair"),
        (diagnosis(parts, null=""), "random weights, or chance"),
        (diagnosis(parts, rest=f"But {name(needed[-1])} is idle."), f"{name(needed[-1])} is idle"),
        (diagnosis(parts, rest="And L5H0 is idle."), "L5H0, which does not exist"),
    ):
        assert words in refused(answer, "N.6", exercises.says_what_was_measured)


def test_sentences_are_read_as_they_are_meant():
    def read(text):
        return [([name(each) for each in heads], kind) for heads, kind in claims_of(text)]

    assert read("L0H1, L0H2,\nand L1H3 are all needed.") == [(["L0H1", "L0H2", "L1H3"], "needed")]
    assert read("It looks like L0H1, and L0H2 is idle.") == [(["L0H2"], "idle")]
    assert read("L0H1 is not needed. Neither L0H1 nor L0H2 is needed. Who knows whether L0H3 is idle?") == []
