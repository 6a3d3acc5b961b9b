"""Every interactive figure of every page answers mouse, keyboard and touch, and is readable without scripts.

Whether a figure answers is seen in what it says: the visible text in it. A new element needs a line in USES.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import unescape

import pytest
from built_site import documents, html

from utils.elements import rich

ARROWS = ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp")


@dataclass(frozen=True)
class Use:
    """How an element is used: what is clicked or tapped, one after the other; what takes the keys, and which."""

    point: tuple[str, ...]
    focus: str
    keys: tuple[str, ...] = ARROWS


ANSWER = Use(point=(".option:not(:has(:checked)) label", "[type=submit]"), focus=".option input", keys=(" ", "Enter"))
USES = {
    "attention-explorer": Use((".grid [aria-selected=false]",), ".grid button"),
    "budget-planner": Use(("tbody button",), "select"),
    "collapse-explorer": Use((".curve",), "input[type=range]"),
    "cost-explorer": Use((".chart",), "input[type=range]"),
    "cross-explorer": Use((".side.target [aria-pressed=false]",), ".side button"),
    "curve-explorer": Use((".plot svg",), ".plot"),
    "flow-explorer": Use((".side.to [aria-selected=false]",), "[role=option]"),
    "memory-explorer": Use(("label:has([type=radio]:not(:checked))",), ".arrow"),
    "phase-explorer": Use(("svg",), "input[type=range]"),
    "pruning-explorer": Use((".plot",), "input[type=range]"),
    "rank-explorer": Use(("svg",), "input[type=range]"),
    "search-explorer": Use(("select",), "select"),
    "quiz-bank": ANSWER,
    "quiz-card": ANSWER,
}
# The fallback of a question: the question, its options, and the feedback on each, folded. A picture would say nothing.
QUESTIONS = {"quiz-bank", "quiz-card"}

SAYS = "element => element.shadowRoot.querySelector('.figure').innerText"
FOCUSED = "(element, selector) => element.shadowRoot.activeElement?.matches(selector) ?? false"
FRAME = """element => ['beforebegin', 'afterend'].forEach(place => {
  const button = document.createElement('button');
  button.className = `test-${place}`;
  element.insertAdjacentElement(place, button);
})"""


def tags(path: str) -> list[str]:
    """The custom elements that the file of a page holds, in order."""
    return re.findall(r"<([a-z]+(?:-[a-z]+)+) role=", (html() / path).read_text("utf8"))


def figures(seen, path: str):
    """(tag, name, element) of every figure of an open page; there are as many as in its file."""
    assert sum(seen.page.locator(f"article {tag}").count() for tag in set(tags(path))) == len(tags(path))
    for tag in sorted(set(tags(path))):
        for number, element in enumerate(seen.page.locator(f"article {tag}").all()):
            yield tag, f"{path}: {tag} {number}", element


def pointed(element, use: Use, act: str) -> bool:
    """Click or tap, near the left and near the right: does what the figure says change?"""
    before = element.evaluate(SAYS)
    for share in (0.3, 0.7):
        for selector in use.point:
            target = element.locator(selector).first
            if target.count() == 0:
                continue  # what was chosen by the first click no longer can be
            if target.evaluate("e => e.localName") == "select":  # its list is drawn by the system, not by the page
                target.select_option(index=1 if share < 0.5 else 0)
            else:
                box = target.bounding_box()
                getattr(target, act)(position={"x": share * box["width"], "y": box["height"] / 2})
            if element.evaluate(SAYS) != before:
                return True
    return False


def typed(page, element, use: Use) -> str | None:
    """Tab into the figure, press its keys, tab out again: None, or what went wrong."""
    element.evaluate(FRAME)
    page.evaluate("document.querySelector('.test-beforebegin').focus()")
    try:
        for _ in range(60):
            page.keyboard.press("Tab")
            if element.evaluate(FOCUSED, use.focus):
                break
        else:
            return f"Tab does not reach {use.focus}"
        before, changed = element.evaluate(SAYS), False
        for key in use.keys:
            page.keyboard.press(key)
            changed = changed or element.evaluate(SAYS) != before
        for _ in range(120):
            if page.evaluate("document.activeElement.matches('.test-afterend')"):
                return None if changed else f"the keys {use.keys} change nothing"
            page.keyboard.press("Tab")
        return "the focus does not leave"
    finally:
        page.evaluate("document.querySelectorAll('[class^=test-]').forEach(e => e.remove())")


PAGES = [f"{name}.html" for name in documents()]


def test_every_element_of_the_book_is_known(site):
    found = {tag for path in PAGES for tag in tags(path)}
    assert found == set(USES), "a line in USES for every element, and none for what no page shows"


def faults(seen, path: str, check) -> list[str]:
    """What ``check(element, tag)`` finds at the figures of a page, each with the name of its figure."""
    found = ((name, check(element, tag)) for tag, name, element in figures(seen, path))
    return [f"{name}: {trouble}" for name, trouble in found if trouble]


def keys_do_nothing(element, tag: str) -> str | None:
    element.scroll_into_view_if_needed()  # a figure is built when it comes near
    element.locator(".figure").first.wait_for()
    return typed(element.page, element, USES[tag])


def clicks_do_nothing(element, tag: str) -> str | None:
    return None if pointed(element, USES[tag], "click") else "clicks change nothing"


def taps_do_nothing(element, tag: str) -> str | None:
    return None if pointed(element, USES[tag], "tap") else "taps change nothing"


@pytest.mark.parametrize("path", PAGES)
def test_figures_answer_keyboard_mouse_and_touch(visit, site, path):
    if not tags(path):
        return
    with visit(site, path, has_touch=True) as seen:
        assert faults(seen, path, keys_do_nothing) == []
        assert faults(seen, path, clicks_do_nothing) == []
        seen.page.set_viewport_size({"width": 360, "height": 760})
        assert faults(seen, path, taps_do_nothing) == []
        seen.clean()


def words(text: str) -> str:
    return " ".join(text.split())


def unmarked(text: str) -> str:
    """What is read of a text with `code` and _{sub}."""
    return words(unescape(re.sub(r"<[^>]+>", "", rich(text))))


def picture_and_table(element) -> str | None:
    """None, or what a fallback lacks: a picture that is drawn, and a table with rows of numbers or words."""
    for details in element.locator("details:not([open]) > summary").all():
        details.click()
    drawn = """e => [...e.querySelectorAll('img, svg')]
        .filter(p => p.localName === 'svg' || p.complete && p.naturalWidth)
        .map(p => p.getBoundingClientRect()).map(box => [box.width, box.height])"""
    sizes = element.evaluate(drawn)
    if not any(width >= 100 and height >= 50 for width, height in sizes):
        return f"no picture: {sizes}"
    told = """e => [...e.querySelectorAll('table tbody tr')].filter(row => row.offsetHeight)
        .map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText.trim()))"""
    cells = element.evaluate(told)
    return None if cells and all(row and all(row) for row in cells) else f"no table: {cells}"


def question_and_feedback(element) -> str | None:
    """None, or what a question lacks: its text, every option, and feedback on each that can be opened."""
    data = json.loads(element.locator("> script").inner_html())
    told = "e => [...e.children].filter(c => c.localName !== 'script').map(c => c.textContent).join(' ')"
    whole = words(element.evaluate(told))
    for question in data.get("questions", [data]):
        texts = [question["question"], *(o[part] for o in question["options"] for part in ("text", "feedback"))]
        if missing := [text for text in texts if unmarked(text) not in whole]:
            return f"missing: {missing}"
    first = element.locator("details").first
    closed = first.bounding_box()["height"]
    first.locator("summary").click()
    return None if first.bounding_box()["height"] > closed + 15 else "the feedback does not open"


def unreadable(element, tag: str) -> str | None:
    return (question_and_feedback if tag in QUESTIONS else picture_and_table)(element)


@pytest.mark.parametrize("path", PAGES)
def test_figures_are_readable_without_scripts(visit, site, path):
    if not tags(path):
        return
    with visit(site, path, java_script_enabled=False) as seen:
        assert faults(seen, path, unreadable) == []
        seen.clean()


TURN = """element => {
  const link = document.createElement('a');
  link.href = `#${element.id ||= 'figure'}`;
  document.querySelector('article').append(link);
  link.click();
  link.remove();
}"""


def test_a_figure_answers_on_its_slide(visit, site):
    path = next(path for path in PAGES if path.startswith("chapters/") and tags(path))
    with visit(site, f"{path}?present", height=720) as seen:
        seen.page.wait_for_function("document.documentElement.dataset.slides === 'ready'")
        figure = seen.page.locator(f"article {tags(path)[0]}").first
        assert not figure.is_visible()
        figure.evaluate(TURN)
        assert figure.is_visible() and figure.evaluate("e => e.offsetHeight > 150")
        assert pointed(figure, USES[tags(path)[0]], "click")
        seen.clean()
