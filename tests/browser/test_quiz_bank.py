"""The quiz-bank in a browser: it asks, answers, counts, and can be used with keys, touch and without scripts."""

from __future__ import annotations

import pytest

from utils.questions import questions
from utils.quiz_bank import quiz_bank

BANK = questions()
GOAL = {"the five of the goal": (1, 2, 3, 5, 7)}
STATUS = "quiz-bank [role=status]"
SEVERAL = next(i for i, question in enumerate(BANK) if question.several)


@pytest.fixture
def bank(page):
    """bank(width=…, dark=…) opens a page that holds all questions."""
    shown = quiz_bank(BANK, title="What you understand", groups=GOAL, alt="Fifty questions")
    return lambda **options: page(shown, **options)


def choose(seen, *places: int) -> None:
    """Mark the options at these places and check."""
    for place in places:
        seen.page.locator("quiz-bank .option input").nth(place).check()
    seen.page.get_by_role("button", name="Check").click()


def go(seen, number: int) -> None:
    for _ in range(number):
        seen.page.get_by_role("button", name="Next").click()


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible_before_and_after_an_answer(bank, width, dark):
    with bank(width=width, dark=dark) as seen:
        assert seen.page.locator("quiz-bank fieldset legend").count() == 1
        assert seen.page.get_by_role("radio").count() == 4
        assert seen.axe() == []
        choose(seen, BANK[0].keys[0])
        seen.page.get_by_role("button", name="All feedback").click()
        assert seen.page.locator("quiz-bank .feedback:visible").count() == 4
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        inside = "e => { const b = e.shadowRoot.querySelector('.figure'); return b.scrollWidth - b.clientWidth; }"
        assert seen.page.locator("quiz-bank").evaluate(inside) <= 0
        assert seen.axe() == []
        seen.clean()


def test_a_wrong_answer_gets_its_own_feedback_and_a_second_try_does_not_change_the_score(bank):
    with bank() as seen:
        question = BANK[0]
        wrong = next(i for i in range(4) if i not in question.keys)
        assert seen.page.get_by_role("button", name="Check").is_disabled()
        choose(seen, wrong)
        assert question.options[wrong].feedback[:20].split("_")[0] in seen.page.locator(STATUS).text_content()
        assert seen.page.locator("quiz-bank .feedback:visible").count() == 1
        assert question.section in seen.page.locator("quiz-bank .place").inner_text()
        choose(seen, question.keys[0])
        text = seen.page.locator("quiz-bank .score").inner_text()
        assert "Right at the first try: 0 of 1." in text and "Look again at insight 1." in text
        go(seen, 1)
        choose(seen, BANK[1].keys[0])
        assert "Right at the first try: 1 of 2." in seen.page.locator("quiz-bank .score").inner_text()
        seen.page.get_by_role("button", name="Previous").click()
        assert seen.page.locator("quiz-bank .feedback:visible").count() == 2  # what was answered is still there
        seen.clean()


def test_several_keys_are_asked_for_with_boxes_and_a_missing_one_is_said(bank):
    with bank() as seen:
        go(seen, SEVERAL)
        assert seen.page.get_by_role("checkbox").count() == 4
        one, *others = BANK[SEVERAL].keys
        choose(seen, one)
        assert "not all of them" in seen.page.locator("quiz-bank .score").inner_text()
        choose(seen, one, *others)
        assert seen.page.locator(STATUS).text_content().startswith("Right.")
        seen.clean()


def test_a_filter_shows_the_questions_of_one_insight_and_the_end_is_said(bank):
    with bank(has_touch=True) as seen:
        choices = seen.page.get_by_role("combobox").locator("option").all_text_contents()
        assert choices[0] == f"all insights ({len(BANK)})"
        assert choices[1] == f"the five of the goal ({sum(q.insight in (1, 2, 3, 5, 7) for q in BANK)})"
        ninth = questions(9)
        seen.page.get_by_role("combobox").select_option(label=f"9 · Computation primitives ({len(ninth)})")
        for place, question in enumerate(ninth, start=1):
            assert f"Question {place} of {len(ninth)} · insight 9" in seen.page.locator(".where").inner_text()
            seen.page.locator("quiz-bank label").nth(1 + question.keys[0]).tap()
            seen.page.get_by_role("button", name="Check").tap()
            if place < len(ninth):
                seen.page.get_by_role("button", name="Next").tap()
        assert seen.page.get_by_role("button", name="Next").is_disabled()
        expected = f"All answered. Right at the first try: {len(ninth)} of {len(ninth)}."
        assert seen.page.locator("quiz-bank .score").inner_text() == expected
        seen.clean()


def test_it_can_be_answered_with_the_keyboard_alone(bank):
    with bank() as seen:
        seen.page.get_by_role("radio").first.focus()
        for _ in range(BANK[0].keys[0]):
            seen.page.keyboard.press("ArrowDown")
        seen.page.keyboard.press("Space")
        seen.page.keyboard.press("Enter")
        assert "Right at the first try: 1 of 1." in seen.page.locator("quiz-bank .score").inner_text()
        seen.page.get_by_role("button", name="Next").focus()
        seen.page.keyboard.press("Enter")
        focused = seen.page.locator("quiz-bank").evaluate("e => e.shadowRoot.activeElement.textContent")
        assert focused.startswith(BANK[1].text[:30])
        seen.clean()


def test_without_scripts_the_questions_are_a_list(bank):
    with bank(java_script_enabled=False) as seen:
        assert seen.page.locator("quiz-bank details").count() == len(BANK)
        assert not seen.page.locator("quiz-bank details ol").first.is_visible()
        seen.page.locator("quiz-bank summary").first.click()
        assert seen.page.locator("quiz-bank details ol").first.is_visible()
