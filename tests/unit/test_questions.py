"""The bank of questions: what it holds, that it does not give itself away, and that what is wrong with it is said."""

from __future__ import annotations

import ast
import copy
import difflib
import re
from collections import Counter
from statistics import mean

import pytest
import yaml
from stated_numbers import numbers, of_chapter, of_claims

from utils.questions import BANK, INSIGHTS, questions, read

ROOT = BANK.parent.parent
ALL = questions()
SINGLE = [each for each in ALL if not each.several]
NAMED = pytest.mark.parametrize("question", ALL, ids=lambda question: question.id)


# ---- what it holds


def test_at_least_forty_questions_and_three_on_every_insight():
    assert len(ALL) >= 40
    counts = Counter(question.insight for question in ALL)
    assert set(counts) == set(INSIGHTS) and min(counts.values()) >= 3
    assert [q.id for q in questions(7)] == [q.id for q in ALL if q.insight == 7]


def test_ids_say_the_insight_and_count_on():
    for insight in INSIGHTS:
        assert [q.id for q in questions(insight)] == [f"Q{insight}.{i + 1}" for i in range(len(questions(insight)))]


@NAMED
def test_a_question_has_one_key_or_states_several(question):
    assert len(question.keys) == 1 or (question.several and 1 < len(question.keys) < len(question.options))


@NAMED
def test_every_option_has_feedback_of_its_own_that_does_not_repeat_it(question):
    for option in question.options:
        assert len(option.feedback) >= 20
        likeness = difflib.SequenceMatcher(None, option.text.casefold(), option.feedback.casefold()).ratio()
        assert likeness < 0.75, f"the feedback repeats the option: {option.feedback}"


def test_no_two_feedbacks_are_alike_but_for_a_word():
    texts = [option.feedback for question in ALL for option in question.options]
    words = [frozenset(re.findall(r"\w+", text.casefold())) for text in texts]
    for i, one in enumerate(words):
        for j in range(i):
            assert len(one & words[j]) / len(one | words[j]) < 0.8, f"{texts[i]!r} and {texts[j]!r}"


# ---- that it does not give itself away


def places(bank) -> Counter:
    return Counter(place for question in bank for place in question.keys)


def spread(bank) -> bool:
    """Whether keys stand in all four places about equally often (a fifth to three tenths each)."""
    counts = places(bank)
    return all(0.2 <= counts[place] / sum(counts.values()) <= 0.3 for place in range(4))


def test_keys_are_spread_over_all_places():
    assert all(len(question.options) == 4 for question in ALL)
    assert spread(SINGLE) and spread(ALL)


def test_a_bank_whose_key_is_always_first_is_refused():
    moved = []
    for question in SINGLE:
        other = copy.deepcopy(question)
        object.__setattr__(other, "options", tuple(sorted(other.options, key=lambda option: not option.correct)))
        moved.append(other)
    assert places(moved) == {0: len(SINGLE)} and not spread(moved)


def test_no_place_is_right_four_times_in_a_row_or_in_all_of_an_insight():
    row = [question.keys for question in ALL]
    assert not any(len(set(row[i : i + 4])) == 1 for i in range(len(row) - 3))
    for insight in INSIGHTS:
        assert len({question.keys for question in questions(insight)}) > 1


def length_shares(bank) -> tuple[float, float]:
    """How often the key is the longest option, and how often the shortest."""
    sizes = [([len(option.text) for option in q.options], len(q.options[q.keys[0]].text)) for q in bank]
    return mean(key == max(every) for every, key in sizes), mean(key == min(every) for every, key in sizes)


def test_length_does_not_give_the_key_away():
    longest, shortest = length_shares(SINGLE)
    assert longest <= 0.3 and shortest <= 0.35
    for question in ALL:
        sizes = [len(option.text) for option in question.options]
        assert max(sizes) <= 1.35 * min(sizes), question.id


def test_a_bank_whose_key_is_always_the_longest_is_noticed():
    grown = []
    for question in SINGLE:
        other = copy.deepcopy(question)
        for option in other.options:
            object.__setattr__(option, "text", option.text + " indeed, as shown" * option.correct)
        grown.append(other)
    assert length_shares(grown)[0] > 0.9


def test_extreme_words_are_no_mark_of_a_wrong_option():
    """“always”, “never” and the like must not be found in wrong options only."""
    pattern = re.compile(r"\b(always|never|all|every|only|none|no|any|nothing|each)\b", re.IGNORECASE)
    found = {right: [] for right in (True, False)}
    for question in ALL:
        for option in question.options:
            found[option.correct].append(bool(pattern.search(option.text)))
    assert mean(found[True]) > 0.5 * mean(found[False])


# ---- facts


@NAMED
def test_its_numbers_stand_in_the_ledger_or_the_chapter_or_are_its_own(question):
    texts = [question.text, *(text for option in question.options for text in (option.text, option.feedback))]
    known = of_claims(question.rests) | of_chapter(question.chapter) | numbers(" ".join(question.own))
    used = set().union(*map(numbers, texts))
    assert used <= known, f"{sorted(used - known)}: neither in the ledger, nor in the chapter, nor its own"
    written = " ".join(texts)
    assert [number for number in question.own if number.strip("− %") not in written] == []


def test_a_number_that_nobody_has_is_found():
    made_up = copy.deepcopy(ALL[0])
    object.__setattr__(made_up, "text", made_up.text + " It is 73.21.")
    with pytest.raises(AssertionError, match=r"73\.21"):
        test_its_numbers_stand_in_the_ledger_or_the_chapter_or_are_its_own(made_up)


@NAMED
def test_the_chapter_and_the_section_exist(question):
    source = ROOT / "source" / "chapters" / f"{question.chapter.replace('-', '_')}.py"
    assert f"# ## {question.section}" in source.read_text("utf8").splitlines()
    assert int(question.chapter[:2]) == question.insight


@NAMED
def test_the_claims_are_of_its_insight(question):
    allowed = {str(question.insight)} | ({"3b"} if question.insight == 2 else set())
    assert {claim[1:].split(".")[0] for claim in question.rests} <= allowed


def test_every_insight_of_the_goal_is_asked_about_more_than_one_claim():
    for insight in (1, 2, 3, 5, 7):
        assert len({claim for question in questions(insight) for claim in question.rests}) >= 3


def chapter_questions() -> list[str]:
    """The questions of the quizzes of the chapters."""
    found = []
    for source in sorted((ROOT / "source" / "chapters").glob("*.py")):
        for node in ast.walk(ast.parse(source.read_text("utf8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("quiz_card"):
                found.append(ast.literal_eval(node.args[0]))
    return found


def test_no_question_is_one_of_a_chapter():
    known = chapter_questions()
    assert len(known) > 30
    for question in ALL:
        for other in known:
            matcher = difflib.SequenceMatcher(None, question.text.casefold(), other.casefold(), autojunk=False)
            near = matcher.real_quick_ratio() >= 0.7 and matcher.quick_ratio() >= 0.7 and matcher.ratio() >= 0.7
            assert not near, f"{question.id} is nearly {other!r}"


# ---- a bank that does not teach is refused


def entry(**changes) -> dict:
    options = [
        {"text": "one", "feedback": "because of one"},
        {"text": "two", "correct": True, "feedback": "because of two"},
        {"text": "three", "feedback": "because of three"},
    ]
    return {"id": "Q1.1", "insight": 1, "rests": ["C1.1"], "question": "Which?", "options": options} | changes


def refused(tmp_path, *entries) -> str:
    path = tmp_path / "bank.yaml"
    path.write_text(yaml.safe_dump(list(entries), allow_unicode=True), "utf8")
    with pytest.raises(ValueError) as found:
        read(path)
    return str(found.value)


def options(*rows) -> list[dict]:
    return [
        {"text": text, "feedback": feedback} | ({"correct": True} if right else {}) for text, right, feedback in rows
    ]


A, B, C = ("a", True, "as a"), ("b", False, "as b"), ("c", False, "as c")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": options(("a", False, "as a"), B, C)}, "Q1.1 has 0 right options: mark exactly one"),
        ({"options": options(A, ("b", True, "as b"), C)}, "Q1.1 has 2 right options"),
        ({"several": True}, "several options are right, and 1 of 3"),
        ({"options": options(A, B, C), "several": True}, "several options are right, and 1 of 3"),
        ({"options": options(A, ("b", False, " "), C)}, "option 2 needs a text and a feedback"),
        ({"options": options(A, B)}, "2 options: three to five"),
        ({"options": options(A, B, ("b", False, "once more"))}, "same option twice"),
        ({"options": options(A, B, ("c", False, "As a!"))}, "feedback stands 2 times: 'as a'"),
        ({"rests": ["C99.9"]}, "'C99.9', which the ledger does not have"),
        ({"insight": 12}, "insight 12: there are 1 to 11"),
        ({"section": "Tie the weights"}, "a section without a chapter"),
        ({"hint": "b"}, "field 'hint'"),
        ({"question": ""}, "lacks question"),
        ({"options": [{"text": "a", "feedback": "f", "right": True}] * 3}, "not 'right'"),
        ({"options": [{"text": "a", "feedback": "f", "correct": "yes"}] * 3}, "write true or leave it out"),
    ],
)
def test_a_bad_entry_is_refused_in_words(tmp_path, changes, message):
    assert message in refused(tmp_path, entry(**changes))


def test_nothing_stands_twice_in_a_bank(tmp_path):
    other = {"id": "Q1.2", "question": "Who?", "options": options(A, B, C)}
    assert "id stands 2 times" in refused(tmp_path, entry(), entry(**other | {"id": "Q1.1"}))
    assert "question stands 2 times" in refused(tmp_path, entry(), entry(**other | {"question": "which ?"}))
    shared = options(A, B, ("c", False, "Because of two."))
    assert "feedback stands 2 times" in refused(tmp_path, entry(), entry(**other | {"options": shared}))


def test_what_is_no_bank_is_refused(tmp_path):
    path = tmp_path / "bank.yaml"
    path.write_text("question: Which?", "utf8")
    with pytest.raises(ValueError, match="a list of questions is needed"):
        read(path)
    assert "a question is a mapping" in refused(tmp_path, "Which?")
    for insight in (0, 12, "1", True):
        with pytest.raises(ValueError, match="has no questions"):
            questions(insight)
