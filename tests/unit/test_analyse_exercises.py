"""The checks of the assessment "Analyse": right answers pass, and wrong ones learn what is wrong and by how much."""

from __future__ import annotations

import re

import pytest
import torch

from utils import analyse
from utils import analyse_exercises as exercises
from utils import analyse_truth as truth
from utils.analyse import FLOOR, name
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.heads import Head, heads_of
from utils.pruning import greedy_order

torch.set_num_threads(1)


def duplicates(maps, values, outputs, *, by_maps=True, by_products=True, least=0.9, size=abs):
    products = (values @ outputs).flatten(1)
    found = []
    for i in range(len(maps)):
        for j in range(i + 1, len(maps)):
            apart = (maps[i] - maps[j]).abs().sum(-1).mean() / 2
            alike = size(torch.cosine_similarity(products[i], products[j], dim=0))
            if (apart <= 0.05 or not by_maps) and (alike >= least or not by_products):
                found.append((i, j))
    return found


def signed(value):
    return value


def rank(value, output, share, *, power=2, less=0, product=True):
    matrix = value.double() @ output.double() if product is True else {"V": value, "O": output}[product].double()
    held = torch.linalg.svdvals(matrix).pow(power).cumsum(0)
    return 0 if held[-1] == 0 else int((held < share * held[-1] * (1 - 1e-12)).sum()) + 1 - less


def order(loss_without, heads):
    gone, left = [], list(heads)
    while left:
        gone.append(min(left, key=lambda head: loss_without([*gone, head])))
        left.remove(gone[-1])
    return gone


@pytest.fixture(scope="module")
def removable() -> list[Head]:
    """Heads that a search on the notes to read finds removable within the floor."""
    model, tokenizer = analyse.unknown()
    batch = analyse.batch_of(tokenizer, analyse.notes("read")[:32])
    found = greedy_order(model, lambda gated: analyse.loss(gated, batch), better="smaller")
    start = analyse.loss(model, batch)
    return found[: max(n for n in range(1, 16) if analyse.loss(model, batch, found[:n]) - start < FLOOR)]


@pytest.fixture(scope="module")
def needed(removable) -> list[Head]:
    return [head for head in heads_of(truth.model()) if truth.cost([head]) > FLOOR]


@pytest.fixture(scope="module")
def text(removable, needed) -> str:
    (one, other), *_ = truth.duplicates()
    idle = next(head for head in removable if abs(truth.cost([head])) < FLOOR / 10)
    kept, before, after = " and ".join(map(name, needed)), truth.whole(), truth.whole() + truth.cost(removable)
    return (
        f"{name(one)} and {name(other)} are duplicates: equal maps, equal products, and either may go. {kept} are "
        f"needed, because without one of them alone the loss rises by more than the floor; {name(idle)} is idle, "
        f"since nothing changes without it. On the notes to judge by the loss is {before:.2f} nats before and "
        f"{after:.2f} nats after pruning. An untrained model of the same shape has no head whose removal changes as "
        "much. A role is where a head looks, and it is no importance. The limit of all this: heads were set to zero, "
        "on notes of one kind, and other notes may need other heads; a measurement on longer notes could change what "
        "I recommend, and so could tuning after pruning."
    )


RIGHT = {
    "gives_roles_by_rule": truth.role_by_rules,
    "finds_duplicates": lambda *layer: duplicates(*layer, size=signed),
    "counts_ranks": rank,
    "orders_by_measuring_again": order,
}


def role_of(maps, *, rows_from_k=True, sign=-1, per_text=False, by_argmax=False, most="row", entropy_first=False):
    """The rules with one mistake each."""
    maps = maps.double()[:1] if per_text else maps.double()
    n = maps.shape[-1]
    limit = torch.arange(2, n + 1).log() if most == "row" else torch.tensor(n).log()
    diffuse = bool((torch.special.entr(maps[:, 1:]).sum(-1) / limit).mean() >= 0.9)
    first = (maps.argmax(-1) == 0).double().mean() if by_argmax else maps[:, 1:, 0].mean()
    if first >= (0.5 if by_argmax else 0.9):
        return "first token"
    if entropy_first and (torch.special.entr(maps[:, 1:]).sum(-1) / limit).mean() >= 0.8:
        return "diffuse"
    for k in range(n // 2):
        rows = (maps.argmax(-1) - torch.arange(n))[:, k if rows_from_k else 0 :]
        if (rows == -k).double().mean() >= 0.9:
            return f"offset {sign * k}"
    return "diffuse" if diffuse else "content"


WRONG = [
    ("gives_roles_by_rule", lambda maps: role_of(maps, sign=1), "what lies before has a minus"),
    ("gives_roles_by_rule", lambda maps: role_of(maps, rows_from_k=False), "no key at the offset"),
    ("gives_roles_by_rule", lambda maps: role_of(maps, entropy_first=True), "before you ask for entropy"),
    ("gives_roles_by_rule", lambda maps: role_of(maps, most="n"), "not of ln n"),
    ("gives_roles_by_rule", lambda maps: role_of(maps, by_argmax=True), "do not count rows"),
    ("gives_roles_by_rule", lambda maps: role_of(maps, per_text=True), "of all texts, not of one"),
    ("gives_roles_by_rule", lambda maps: role_of(maps) if maps.shape[-1] < 50 else "content", "that you have not seen"),
    ("gives_roles_by_rule", lambda maps: -1, "as a text, not int"),
    ("finds_duplicates", lambda *x: duplicates(*x, by_products=False), "say other things"),
    ("finds_duplicates", lambda *x: duplicates(*x, by_maps=False, size=signed), "compare the maps as well"),
    ("finds_duplicates", lambda *x: duplicates(*x), "takes away what the other says"),
    ("finds_duplicates", lambda m, v, o: duplicates(m, v, torch.eye(v.shape[-1]), size=signed), "(0, 1) are missing"),
    ("finds_duplicates", lambda *x: [], "(0, 1) are missing"),
    ("finds_duplicates", lambda *x: [(0, 1), (4, 10), (6, 7)], "no duplicates"),
    ("finds_duplicates", lambda *x: [(0, 0)], "no duplicate of itself"),
    ("finds_duplicates", lambda m, *x: duplicates(m, *x, size=signed) if len(m[0]) < 9 else [], "which you miss"),
    ("finds_duplicates", lambda *x: 3, "a list of pairs"),
    ("counts_ranks", lambda *x: rank(*x, power=1), "of Σσ, not of Σσ²"),
    ("counts_ranks", lambda *x: rank(*x, product="V"), "right for W_V alone"),
    ("counts_ranks", lambda *x: rank(*x, product="O"), "right for W_O alone"),
    ("counts_ranks", lambda *x: rank(*x, less=1), "one more"),
    ("counts_ranks", lambda v, o, s: rank(v, o, s) or 1, "needs rank 0"),
    ("counts_ranks", lambda *x: 7, "expected"),
    ("counts_ranks", lambda *x: 0.5, "a whole number"),
    ("orders_by_measuring_again", lambda f, heads: sorted(heads, key=lambda h: f([h])), "costs alone"),
    ("orders_by_measuring_again", lambda f, heads: sorted(heads, key=lambda h: -f([h])), "the cheapest goes first"),
    ("orders_by_measuring_again", lambda f, heads: order(f, heads)[:3], "every head once"),
    ("orders_by_measuring_again", lambda f, heads: ["d", "c", "a", "b", "e"], "expected d, a, c, e, b"),
    ("orders_by_measuring_again", lambda f, heads: f("z"), "give a list of heads"),
]


def refused(attempt, name_of_check: str) -> str:
    result = check("N", attempt, getattr(exercises, name_of_check))
    assert result.status == NOT_YET, result
    return result.message


@pytest.mark.parametrize("name_of_check", RIGHT)
def test_a_right_answer_passes_and_a_stub_is_not_attempted(name_of_check):
    result = check("N", RIGHT[name_of_check], getattr(exercises, name_of_check))
    assert result.status == PASSED, result.message
    assert check("N", lambda *_: None, getattr(exercises, name_of_check)).status == NOT_ATTEMPTED


@pytest.mark.parametrize(("name_of_check", "attempt", "words"), WRONG)
def test_a_wrong_answer_learns_what_is_wrong(name_of_check, attempt, words):
    assert words in refused(attempt, name_of_check)


def test_every_function_has_at_least_two_wrong_answers():
    assert all(sum(each == name_of_check for each, *_ in WRONG) >= 2 for name_of_check in RIGHT)


# The recommendation and the diagnosis: wrong answers are made from what is measured.


def test_what_a_search_finds_passes_as_a_recommendation_in_either_form(removable):
    for answer in (removable, [each[:2] for each in removable], {each[:2] for each in removable}):
        assert check("N", lambda answer=answer: answer, exercises.recommends_within_the_floor).status == PASSED
    assert check("N", lambda: None, exercises.recommends_within_the_floor).status == NOT_ATTEMPTED


def test_the_other_twin_may_go_in_its_place(removable):
    for pair in truth.duplicates():
        gone = [each for each in pair if each in removable]
        if len(gone) == 1:
            swapped = [each for each in removable if each not in gone] + [each for each in pair if each not in gone]
            assert check("N", lambda swapped=swapped: swapped, exercises.recommends_within_the_floor).status == PASSED


def test_both_twins_are_too_many_and_the_message_names_them_and_says_by_how_much(removable):
    for one, other in truth.duplicates():
        message = refused(lambda one=one, other=other: [one, other], "recommends_within_the_floor")
        assert f"{name(one)} and {name(other)} are duplicates: either may go, not both" in message
        assert f"{truth.cost([one, other]) - FLOOR:.3f} more than the 0.05 allowed" in message


def test_a_needed_head_is_named_with_its_role_and_what_it_costs_alone(removable, needed):
    for head in needed:
        message = refused(lambda head=head: [*removable, head], "recommends_within_the_floor")
        assert name(head) in message and f"{truth.cost([head]):.3f} without it alone" in message
    said = [refused(lambda head=head: [head], "recommends_within_the_floor") for head in needed]
    assert any("looks like a sink" in each for each in said)
    assert any("reads all tokens alike" in each for each in said)
    assert any("(offset -3) counts" in each for each in said)


def test_too_few_are_told_which_head_may_go_as_well(removable):
    assert "may go as well" in refused(lambda: removable[:-2], "recommends_within_the_floor")
    assert "may go as well" in refused(lambda: [], "recommends_within_the_floor")


@pytest.mark.parametrize(
    ("answer", "words"),
    [("all", "list of (layer, head)"), ([3], "a head is (layer, head), not 3"), ([(2, 0)], "heads 0 to 7")],
)
def test_a_recommendation_of_another_kind_is_refused(answer, words):
    assert words in refused(lambda: answer, "recommends_within_the_floor")


def test_a_diagnosis_with_its_numbers_passes(removable, text):
    result = check("N", lambda: (removable, text), exercises.says_what_was_measured)
    assert result.status == PASSED, result.message
    assert check("N", lambda: None, exercises.says_what_was_measured).status == NOT_ATTEMPTED


def test_a_diagnosis_says_the_loss_of_the_pruned_model(removable, text, monkeypatch):
    measured = truth.cost
    monkeypatch.setattr(truth, "cost", lambda gone: 0.04 if len(list(gone)) == len(removable) else measured(gone))
    message = refused(lambda: (removable, text), "says_what_was_measured")
    assert f"the loss of the pruned model on the notes to judge by is {truth.whole() + 0.04:.2f} nats" in message


def test_a_diagnosis_learns_what_is_missing(removable, needed, text):
    one, other = truth.duplicates()[0]
    without_needed = text
    for head in needed:
        without_needed = without_needed.replace(name(head), "it")
    for changed, words in (
        (re.sub(r"[0-9.]+ nats", "9.99 nats", text), "the loss of the whole model"),
        (
            text.replace(name(one), "one head").replace(name(other), "another"),
            "no sentence says which heads are duplicates",
        ),
        (text.replace("untrained", "other"), "random weights, or chance"),
        (without_needed, "no sentence says which heads are needed"),
        (text.replace(name(one), "L7H7"), "L7H7, which does not exist"),
        ("We prune. " * 50, "name heads as L0H3"),
        (text[:100], "words: between 80 and 300"),
    ):
        assert words in refused(lambda changed=changed: (removable, changed), "says_what_was_measured")
    assert "more than 0.05" in refused(lambda: ([*removable, *needed], text), "says_what_was_measured")
    assert "two things" in refused(lambda: text, "says_what_was_measured")


@pytest.mark.parametrize("name_of_check", [*RIGHT, "recommends_within_the_floor", "says_what_was_measured"])
def test_an_answer_of_another_kind_is_reported_and_not_raised(name_of_check):
    for value in ("text", 3.5, [[1, 2], [3]], {"a": 1}):
        assert refused(lambda *_, value=value: value, name_of_check)
