"""Wrong answers as students give them to "Understand": each is refused, and the message names its mistake."""

from __future__ import annotations

import pytest

from utils import understand
from utils import understand_exercises as exercises
from utils.exercises import NOT_YET, PASSED, check
from utils.questions import questions

CHECKS = {"U.1": exercises.judges_a_talk, "U.2": exercises.chooses_controls, "U.3": exercises.makes_its_points}
JUDGED = {number: (each.verdict, each.reason) for number, each in understand.sentences().items()}
CHOSEN = {number: each.control for number, each in understand.findings().items()}
POINTS = {number: understand.explanations()[number].key for number in understand.GOAL}
REST = {number: set("abcdef") - set(letters) for number, letters in POINTS.items()}


def in_quotes(answer):
    return {str(number): part for number, part in answer.items()}


WRONG = [
    # U.1: keys, order of the pair, other spellings, one verdict for all
    ("U.1", in_quotes(JUDGED), "as numbers: 1, not '1'"),
    ("U.1", {f"sentence {number}": part for number, part in JUDGED.items()}, "there is no sentence 'sentence 1'"),
    ("U.1", {number - 1: part for number, part in JUDGED.items()}, "there is no sentence 0: asked are 1, 2, 3"),
    ("U.1", {number: pair[::-1] for number, pair in JUDGED.items()}, "first the verdict, then the reason: ('holds', "),
    ("U.1", JUDGED | {1: ("Holds", "as stated")}, """'Holds' is no verdict: use "holds", """),
    ("U.1", JUDGED | {1: ("holds", ["as stated"])}, "['as stated'] is no reason"),
    ("U.1", JUDGED | {1: (["holds"], "as stated")}, "['holds'] is no verdict"),
    ("U.1", JUDGED | {3: None}, "sentence 3: give a verdict and a reason"),
    ("U.1", {number: verdict for number, (verdict, _) in JUDGED.items()}, "give a verdict and a reason"),
    ("U.1", {number: ("holds", "as stated") for number in JUDGED}, "every sentence “holds”"),
    ("U.1", list(JUDGED.values()), "return a dictionary, sentence → answer, not list"),
    ("U.1", {}, "sentence 1 has no answer"),
    ("U.1", JUDGED | {4: ("does not hold", "another quantity")}, "As a direction it is right"),
    ("U.1", JUDGED | {9: ("holds with conditions", "condition missing")}, "No condition makes steps into examples"),
    # U.2: numbered 1 to 7, turned round, shifted by one, the text for the name
    ("U.2", in_quotes(CHOSEN), "as numbers: 1, not '1'"),
    ("U.2", dict(zip(range(1, 8), CHOSEN.values(), strict=True)), "there is no finding 4: asked are 1, 2, 3, 5, 8"),
    ("U.2", {control: number for number, control in CHOSEN.items()}, "there is no finding 'fresh weights'"),
    ("U.2", CHOSEN | {1: ["fresh weights"]}, "['fresh weights'] is no control"),
    ("U.2", CHOSEN | {1: understand.controls()["fresh weights"]}, '''is no control: use one of "fresh weights"'''),
    ("U.2", CHOSEN | {1: "fresh weights, same scale"}, '''"random heads, tuned", "random heads, untuned"'''),
    ("U.2", {number: "fresh weights" for number in CHOSEN}, "6 not right yet. Finding 2: “fresh weights” shows"),
    ("U.2", dict(zip(CHOSEN, [*CHOSEN.values()][1:] + ["fresh weights"], strict=True)), "7 not right yet"),
    ("U.2", {}, "finding 1 has no answer"),
    # U.3: other ways to write letters, the points that do not belong, one point each
    ("U.3", in_quotes(POINTS), "as numbers: 1, not '1'"),
    (
        "U.3",
        {number: letters.upper() for number, letters in POINTS.items()},
        "no point 'A': there are a to f; write small",
    ),
    ("U.3", {number: ", ".join(letters) for number, letters in POINTS.items()}, "nothing between them, such as"),
    ("U.3", {number: f"({letters})" for number, letters in POINTS.items()}, "nothing between them, such as"),
    ("U.3", {number: [1, 2] for number in POINTS}, "give the letters of points"),
    ("U.3", REST, "5 not right yet. Insight 1: point b does not hold"),
    ("U.3", {number: letters[0] for number, letters in POINTS.items()}, "something is missing"),
    ("U.3", dict(zip(range(1, 6), POINTS.values(), strict=True)), "missing: 7, Rank collapse"),
    ("U.3", list(POINTS.values()), "return a dictionary, insight → letters, not list"),
    ("U.3", {}, "5 of them are missing"),
    ("U.3", POINTS | {1: None}, "give the letters of points"),
]


@pytest.mark.parametrize(("name", "answer", "words"), WRONG)
def test_a_students_wrong_answer_is_refused_and_its_mistake_named(name, answer, words):
    result = check(name, lambda: answer, CHECKS[name])
    assert result.status == NOT_YET and words in result.message, result


def test_an_error_in_the_answer_is_reported_with_its_line():
    for name, test in CHECKS.items():
        result = check(name, lambda: {}[1], test)
        assert result.status == NOT_YET and "stopped with KeyError" in result.message


def test_the_answers_that_are_changed_here_are_right_before_and_stay_as_they_are():
    for name, answer in {"U.1": JUDGED, "U.2": CHOSEN, "U.3": POINTS}.items():
        before = dict(answer)
        assert check(name, lambda answer=answer: answer, CHECKS[name]).status == PASSED
        assert answer == before


def test_every_exercise_has_six_wrong_answers():
    assert all(sum(each == name for each, *_ in WRONG) >= 6 for name in CHECKS)


@pytest.mark.parametrize("marks", [{1: ([2], 2, 2, 2)}, {1: (2, 2, 1.5, 1)}, {"1": (2, 2, 2, 2)}])
def test_marks_that_are_none_are_refused_in_words(marks):
    with pytest.raises(ValueError, match="insight"):
        understand.result(marks)


def test_marks_without_their_insights_are_refused():
    with pytest.raises(TypeError, match="marks are a dictionary, insight → four marks, not list"):
        understand.result([(2, 2, 2, 2)])


def test_examples_are_saved_where_fewer_give_the_same_accuracy():
    """Parallel curves save examples when read across, as chapter 9 does: the feedback must not deny it."""
    asked = next(each for each in questions(9) if each.id == "Q9.4")
    feedback = next(option.feedback for option in asked.options if option.correct)
    assert "same accuracy" in feedback and "apart" not in feedback


def test_the_sentence_on_cross_attention_sets_an_upper_limit():
    """“More than 60 % cannot be removed” may be read as 60 % that must stay; the curve's bend is meant."""
    assert "no more than 60 % can be removed" in understand.sentences()[4].text
