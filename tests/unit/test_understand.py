"""The assessment "Understand": its facts, and that each likely wrong answer is refused with the mistake's name."""

from __future__ import annotations

import copy
import itertools
import re

import pytest
from stated_numbers import chapter_of, numbers, of_chapter, of_claims

from utils import claims, understand
from utils import understand_exercises as exercises
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.understand import CRITERIA, GOAL

SENTENCES, FINDINGS, EXPLAINED = understand.sentences(), understand.findings(), understand.explanations()
EACH = pytest.mark.parametrize("insight", EXPLAINED)
EXERCISES = {
    "U.1": exercises.judges_a_talk,
    "U.2": exercises.chooses_controls,
    "U.3": exercises.makes_its_points,
}


def tried(name: str, answer) -> tuple[str, str]:
    result = check(name, lambda: answer, EXERCISES[name])
    return result.status, result.message


RIGHT = {
    "U.1": {number: (each.verdict, each.reason) for number, each in SENTENCES.items()},
    "U.2": {number: each.control for number, each in FINDINGS.items()},
    "U.3": {number: each.key for number, each in EXPLAINED.items() if number in GOAL},
}


def refused(name: str, changes: dict) -> str:
    """The message for the right answer with some parts changed; None leaves a part out."""
    answer = {number: part for number, part in (RIGHT[name] | changes).items() if part is not None}
    status, message = tried(name, answer)
    assert status == NOT_YET
    return message


# ---- what is asked


def test_there_is_a_sentence_and_an_explanation_for_every_insight_and_every_reason_is_needed():
    assert list(SENTENCES) == list(EXPLAINED) == list(range(1, 12))
    assert {each.reason for each in SENTENCES.values()} == set(understand.reasons())
    assert {each.verdict for each in SENTENCES.values()} == set(claims.MEASURED)
    for each in SENTENCES.values():
        assert (each.verdict == "holds") == (each.reason == "as stated")
        assert each.reason not in each.reasons, "no message can reach whoever gives the right reason"


def test_the_goal_is_the_five_that_the_objectives_name():
    assert GOAL == (1, 2, 3, 5, 7) and set(GOAL) <= set(EXPLAINED)
    assert {1, 2, 3, 5} <= set(FINDINGS)


def test_two_controls_are_not_needed_and_no_control_serves_two_findings():
    used = [each.control for each in FINDINGS.values()]
    assert len(set(used)) == len(used) == len(understand.controls()) - 2


@EACH
def test_points_are_mixed_and_no_two_insights_are_answered_alike_by_habit(insight):
    key = EXPLAINED[insight].key
    assert len(EXPLAINED[insight].points) == 6 and 2 <= len(key) <= 4
    habits = [each.key for each in EXPLAINED.values()]
    assert habits.count(key) <= 3


@EACH
def test_a_model_answer_is_four_to_six_sentences_with_a_number_and_a_source(insight):
    answer = EXPLAINED[insight].answer
    whole = re.sub(r"et al\.|e\.g\.|\([^)]*\)", " ", answer)
    sentences = [each for each in re.split(r"(?<=[.!?])\s+", whole) if each.strip(" .")]
    assert 4 <= len(sentences) <= 6, sentences
    assert len(answer.split()) <= 180 and re.search(r"\d", answer)
    assert re.search(r"20\d\d|algebra", answer), "no source is named"


@EACH
def test_numbers_stand_in_the_ledger_or_in_the_chapter(insight):
    each = EXPLAINED[insight]
    assert {claim[1:].split(".")[0] for claim in each.rests} == {str(insight)}
    texts = [each.answer, *each.full.values(), *each.errors]
    texts += [text for point in each.points for text in (point.text, point.needed, point.wrong)]
    sentence, finding = SENTENCES[insight], FINDINGS.get(insight)
    texts += [sentence.text, sentence.why, *sentence.reasons.values()]
    texts += [finding.text] if finding else []
    known = of_claims(each.rests) | of_chapter(chapter_of(insight)) | numbers(" ".join(each.own))
    used = set().union(*map(numbers, texts))
    years = {number for number in used if re.fullmatch(r"19\d\d|20[0-2]\d", number)}
    assert used - years <= known, f"{sorted(used - years - known)}: neither in the ledger nor in the chapter"
    labels = " ".join(source["label"] for source in claims.load()["sources"].values())
    assert all(year in labels or year in of_claims(each.rests) for year in years)


def test_a_number_of_nobody_is_found():
    each = copy.deepcopy(EXPLAINED[1])
    object.__setattr__(each, "answer", each.answer + " It is 73.21.")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=r"73\.21"):
        patch.setitem(EXPLAINED, 1, each)
        test_numbers_stand_in_the_ledger_or_in_the_chapter(1)


def test_a_source_of_a_full_answer_is_one_of_the_ledger_for_the_insight():
    known = {insight["id"]: insight for insight in claims.load()["insights"]}
    sources = claims.load()["sources"]
    for number, each in EXPLAINED.items():
        named = re.findall(r"([A-Z][a-z]+)(?:, \w+| and \w+| et al\.)* (\d{4})", each.full["source"])
        keys = [source["key"] for claim in known[number]["claims"] for source in claim.get("sources", [])]
        keys += [later["key"] for later in known[number].get("later", [])]
        for name, year in named:
            assert any(sources[key]["label"].startswith(name) and year in sources[key]["label"] for key in keys), name


# ---- what is shown


def test_what_is_shown_has_every_text_and_no_mark_of_the_right_ones():
    shown = understand.talk()
    assert all(each.text in shown.text for each in SENTENCES.values())
    assert "W<sub>Q</sub>" in shown.html and "W_Q" in shown.text
    points = understand.points()
    for each in EXPLAINED.values():
        for point in each.points:
            assert point.text in points.text
            assert (point.needed or point.wrong) not in points.text + points.html
    evidence = understand.evidence()
    assert all(each.text in evidence.text and each.asked in evidence.text for each in FINDINGS.values())
    assert all(f'"{name}"' in evidence.text for name in understand.controls())


def test_model_answers_are_folded_and_say_what_full_marks_need():
    shown = understand.answers()
    assert shown.html.count("<details>") == 11 and "<details open" not in shown.html
    for each in EXPLAINED.values():
        assert all(each.full[name] in shown.text for name in CRITERIA)
    assert not re.search(r"<script|\bid=|https?:", shown.html)


# ---- the exercises


@pytest.mark.parametrize("name", EXERCISES)
def test_the_right_answer_passes_and_a_stub_is_no_error(name):
    assert tried(name, RIGHT[name]) == (PASSED, "")
    assert check(name, lambda: None, EXERCISES[name]).status == NOT_ATTEMPTED


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(("answer", "message"), [("abc", "return a dictionary"), ([1, 2], "return a dictionary")])
def test_another_kind_of_answer_is_refused_in_words(name, answer, message):
    status, found = tried(name, answer)
    assert status == NOT_YET and message in found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({5: ("holds", "as stated")}, "0.97"),
        ({5: ("does not hold", "another quantity")}, "Σσ or Σσ² has to be said, and it is said"),
        ({2: ("holds", "as stated")}, "Weight times value is what arrives"),
        ({3: ("does not hold", "no null model")}, "were not tuned"),
        ({8: ("holds", "as stated")}, "At its own best rate"),
        ({7: ("holds with conditions", "condition missing")}, "rank is not what was measured"),
        ({1: ("does not hold", "another quantity")}, "scores are x_i M x_jᵀ"),
        ({10: ("holds with conditions", "condition missing")}, "does not speak of time"),
        ({9: ("does not hold", "no null model")}, "the sentence is about examples"),
        ({4: ("holds", "as stated")}, "the bend of one curve"),
        ({6: ("does not hold", "another quantity")}, "What must be said is when"),
        ({11: ("does not hold", "unequal sides")}, "too few initialisations"),
        ({4: ("does not hold", "one case")}, "As a direction it is right"),
        ({2: ("holds", "one case")}, "contradict each other"),
        ({2: ("wrong", "one case")}, "'wrong' is no verdict"),
        ({2: ("does not hold", "because")}, "'because' is no reason"),
        ({2: "does not hold"}, "give a verdict and a reason"),
        ({2: None}, "sentence 2 has no answer"),
        ({12: ("holds", "as stated")}, "there is no sentence 12"),
        ({n: ("does not hold", "one case") for n in range(1, 12)}, "every sentence “does not hold”"),
    ],
)
def test_a_wrong_judgement_of_a_sentence_is_named(changes, message):
    assert message in refused("U.1", changes)


def test_a_reason_that_is_as_good_is_accepted():
    changed = RIGHT["U.1"] | {11: ("does not hold", "no null model"), 4: ("holds with conditions", "condition missing")}
    assert tried("U.1", changed)[0] == PASSED


def test_no_wrong_judgement_passes_and_each_message_says_something_of_the_sentence():
    for number, sentence in SENTENCES.items():
        for verdict, reason in itertools.product(claims.MEASURED, understand.reasons()):
            if verdict == sentence.verdict and reason in (sentence.reason, *sentence.also):
                continue
            message = refused("U.1", {number: (verdict, reason)})
            assert f"entence {number}: " in message and len(message) > 60


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({3: "random heads, untuned"}, "what a choice is worth before any tuning"),
        ({5: "fresh weights"}, "what the architecture does without training, and asked is whether more than sharpness"),
        ({2: "uniform"}, "and asked is whether the width is to blame"),
        ({8: "fresh weights"}, "and asked is whether pretraining has done this"),
        ({11: "another sentence"}, "no accident of one text"),
        ({1: "same sharpness"}, "Finding 1"),
        ({1: "random"}, "'random' is no control"),
        ({1: None}, "finding 1 has no answer"),
        ({4: "uniform"}, "there is no finding 4"),
    ],
)
def test_a_wrong_control_is_told_what_it_shows(changes, message):
    assert message in refused("U.2", changes)


def test_no_wrong_control_passes():
    for number, finding in FINDINGS.items():
        for control in understand.controls():
            if control != finding.control:
                assert f"Finding {number}: “{control}” shows" in refused("U.2", {number: control})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({1: "abde"}, "they differ is not enough: with W_K = −W_Q"),
        ({1: "acde"}, "divided by a sum of its own"),
        ({1: "adef"}, "content moves from j to i"),
        ({1: "ad"}, "give a measured number with its null model"),
        ({2: "ab"}, "0.53 of a row's weight"),
        ({2: "be"}, "a head is only 32 numbers wide"),
        ({3: "abcf"}, "BLEU has no 100 %"),
        ({3: "af"}, "name the row that is missing"),
        ({5: "abce"}, "768 is the width"),
        ({5: "bcde"}, "a decomposition needs P"),
        ({5: "ce"}, "name the null model"),
        ({7: "bcf"}, "a distance falls, not a rank"),
        ({7: "acdf"}, "the line without skip has the MLP and collapses"),
        ({7: "ac"}, "what surgery on a trained model does not show"),
        ({7: None}, "missing: 7, Rank collapse"),
        ({4: "bcf", 2: None}, "missing: 2, Attention as routing"),
        ({4: "abcf"}, "the mask is a fixed pattern"),
        ({12: "a"}, "insight 12 is not there"),
        ({1: "abcdef"}, "all points at once"),
        ({1: "adx"}, "has no point 'x'"),
        ({1: ""}, "no point is chosen"),
        ({1: 3}, "give the letters of points"),
    ],
)
def test_a_mistaken_or_missing_point_is_named(changes, message):
    assert message in refused("U.3", changes)


def test_letters_may_come_as_a_list_and_more_than_five_may_be_explained():
    answer = {number: list(each.key) for number, each in EXPLAINED.items()}
    assert tried("U.3", answer) == (PASSED, "")


@EACH
def test_only_the_whole_key_passes(insight):
    six = "abcdef"
    for size in range(1, 6):
        for letters in itertools.combinations(six, size):
            if "".join(letters) != EXPLAINED[insight].key:
                assert refused("U.3", {insight: "".join(letters)}).count(f"Insight {insight}: ") == 1


# ---- the goal


def test_the_goal_is_reached_with_six_of_eight_points_for_each_of_the_five():
    fair = (2, 2, 1, 1)
    assert understand.result({number: fair for number in GOAL}).attrs == {"missing": [], "reached": True}
    for number in GOAL:
        others = {each: fair for each in (*GOAL, 4, 6) if each != number}
        assert understand.result(others).attrs == {"missing": [number], "reached": False}
        for low in ((2, 2, 1, 0), (0, 2, 2, 2)):
            assert understand.result(others | {number: low}).attrs["missing"] == [number]


@pytest.mark.parametrize("marks", [(2, 2, 2), (2, 2, 2, 3), (2, 2, 2, -1), "2222", 8])
def test_marks_outside_the_rubric_are_refused(marks):
    with pytest.raises(ValueError, match="no four marks from 0 to 2"):
        understand.result({1: marks})
    with pytest.raises(ValueError, match="insight 12"):
        understand.result({12: (2, 2, 2, 2)})


# ---- content that does not hold together is refused


def content() -> dict:
    return copy.deepcopy(understand._content())


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda c: c.pop("controls"), "lacks controls"),
        (lambda c: c["sentences"][0].update(reason="luck"), "sentence 1: no reason is called 'luck'"),
        (lambda c: c["sentences"][1].update(verdict="false"), "'false' is no verdict"),
        (lambda c: c["findings"][0].update(control="luck"), "finding 1: no control is called 'luck'"),
        (lambda c: c["explanations"][0]["full"].pop("limit"), "full marks are said for"),
        (lambda c: c["explanations"][0]["points"][1].update(needed="x"), "insight 1, point b: say needed or wrong"),
        (lambda c: c["explanations"][0]["points"][2].pop("wrong"), "point c: say needed or wrong"),
    ],
)
def test_content_that_contradicts_itself_is_refused(break_it, message):
    broken = content()
    break_it(broken)
    with pytest.raises(ValueError, match=re.escape(message)):
        understand.checked(broken)
