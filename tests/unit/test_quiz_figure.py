"""The quiz-bank as text: one deterministic output, escaped, small, and readable without scripts."""

from __future__ import annotations

import re

import pytest
from figure_html import Tags, data_of

from utils.elements import script
from utils.questions import Option, Question, questions
from utils.quiz_bank import quiz_bank

GOAL = {"the five of the goal": (1, 2, 3, 5, 7)}


def made(number: int = 1, insight: int = 1, *, several: bool = False, text: str = "Which <b> W_K?") -> Question:
    options = [Option(f"</script> {i} of {number}", i == 1 or (several and i == 2), f"As {i}") for i in range(4)]
    return Question(f"Q{insight}.{number}", insight, text, tuple(options), ("C1.1",), several=several)


def test_the_whole_bank_is_far_below_the_size_of_a_page():
    assert len(quiz_bank(questions(), groups=GOAL).html().encode()) < 200_000
    assert len(script("quiz-bank").encode()) < 25_000


def test_equal_input_gives_equal_output():
    one, other = (quiz_bank(questions(), title="Quiz", groups=GOAL)._repr_mimebundle_() for _ in range(2))
    assert one == other
    assert one["text/plain"].startswith("<quiz-bank: 50 questions on 11 insights")


def test_no_ids_no_addresses_and_no_markup_from_the_data():
    html = quiz_bank([made()], title="<i>").html()
    parser = Tags()
    parser.feed(html)
    assert html.count("<script") == html.count("</script>") == 2
    assert "id" not in parser.attributes and not [name for name in parser.attributes if name.startswith("on")]
    assert not {"b", "i"} & set(parser.opened)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|import\(|fetch\(|Math\.random|Date\(", html)


def test_the_element_gets_every_question_in_the_order_of_the_bank():
    bank = questions()
    data = data_of(quiz_bank(bank, groups=GOAL))
    assert [each["question"] for each in data["questions"]] == [each.text for each in bank]
    for entry, question in zip(data["questions"], bank, strict=True):
        assert [option["text"] for option in entry["options"]] == [option.text for option in question.options]
        assert [i for i, option in enumerate(entry["options"]) if option["correct"]] == list(question.keys)
        assert entry["several"] == question.several
        assert all(claim in entry["place"] for claim in question.rests)
        assert question.section is None or entry["place"].endswith(f"chapter {question.insight}, “{question.section}”.")
    assert [each["number"] for each in data["insights"]] == list(range(1, 12))
    assert data["insights"][0]["title"] == "Self-attention is not symmetric"
    assert data["groups"] == [{"name": "the five of the goal", "insights": [1, 2, 3, 5, 7]}]


def test_without_scripts_it_is_a_list_with_folded_answers():
    bank = questions()
    html = re.sub(r"<script.*?</script>", "", quiz_bank(bank, title="Quiz").html(), flags=re.DOTALL)
    assert html.count("<details>") == len(bank)
    assert html.count("Right. ") == sum(len(question.keys) for question in bank)
    assert html.count("Insight ") >= 11 and html.count("<ol>") == 11
    before = html.split("<details>")[0]
    assert "Right." not in before and "Not this one." not in before


def test_several_keys_are_said_in_the_list():
    html = quiz_bank([made(), made(2, several=True)]).html()
    assert re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL).count("Several are right.") == 1


@pytest.mark.parametrize(
    ("bank", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one"),
        ([made(), made()], {}, ValueError, "same id"),
        (["Which?"], {}, TypeError, "got str"),
        ([made()], {"groups": {"late": (7, 8)}}, ValueError, "'late' has no question"),
    ],
)
def test_what_cannot_be_asked_is_refused(bank, options, error, message):
    with pytest.raises(error, match=message):
        quiz_bank(bank, **options)
