"""The memory-explorer in a browser: it draws, agrees with Python, answers mouse, touch and keys, is accessible."""

from __future__ import annotations

import pytest

from utils.memory_explorer import memory_explorer, read_back

PAIRS = {"A": (0, (1, -1, 0)), "B": (90, (0, 1, 1)), "C": (45, (-1, 0, 1)), "D": (180, (1, 1, -1))}


@pytest.fixture
def memory(page):
    """memory(width=…, dark=…, settings=…) opens a page that holds the figure."""
    usual = {"written": 3, "title": "Three keys in two dimensions", "alt": "Keys on a circle."}
    return lambda *, settings=None, **options: page(memory_explorer(PAIRS, **usual | (settings or {})), **options)


def state(figure) -> dict:
    return figure.evaluate("e => ({ ...e.state(), angles: e.angles, written: e.written, rule: e.rule })")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(memory, width, dark):
    with memory(width=width, dark=dark) as seen:
        figure = seen.page.locator("memory-explorer")
        assert figure.locator(".arrow:visible").count() == 3 and figure.locator(".grid td").count() == 6
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert figure.locator(".list").evaluate("e => e.scrollWidth - e.clientWidth") <= 0, "the table is cut off"
        assert seen.axe() == []
        seen.clean()


@pytest.mark.parametrize("rule", ["sum", "delta", "softmax"])
def test_what_is_read_equals_python(memory, rule):
    with memory(settings={"rule": rule, "written": 4}) as seen:
        figure = seen.page.locator("memory-explorer")
        found = state(figure)
        back, errors = read_back(found["angles"], [value for _, value in PAIRS.values()], rule)
        for row, expected in zip(found["found"], back, strict=True):
            assert row == pytest.approx(expected, abs=1e-9)
        assert found["errors"] == pytest.approx(errors, abs=1e-9)
        shown = figure.locator(".pairs tbody tr").nth(2).locator("td").last.inner_text()
        assert float(shown) == pytest.approx(errors[2], abs=0.006)


def test_mouse_turns_a_key_and_chooses_rule_and_pairs(memory):
    with memory() as seen:
        figure = seen.page.locator("memory-explorer")
        box = figure.locator(".dial").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        seen.page.mouse.move(x + 50, y - 50)
        seen.page.mouse.down()
        seen.page.mouse.move(x + 5, y + 60, steps=4)
        seen.page.mouse.up()
        assert state(figure)["angles"][:3] == [0, 90, 275]
        seen.page.mouse.move(x - 60, y)
        assert state(figure)["angles"][:3] == [0, 90, 275]
        figure.get_by_role("radio", name="delta").check()
        assert "exact" in figure.locator(".readout").inner_text()
        figure.get_by_role("radio", name="sum").check()
        figure.get_by_role("slider", name="pairs written").fill("2")
        assert "relative error 0.00" in figure.locator(".readout").inner_text()
        seen.clean()


def test_keyboard_turns_a_key(memory):
    with memory(settings={"written": 2}) as seen:
        figure = seen.page.locator("memory-explorer")
        key = figure.get_by_role("slider", name="key B, angle")
        key.focus()
        for press in ("ArrowRight", "ArrowRight", "PageUp", "ArrowLeft"):
            seen.page.keyboard.press(press)
        assert key.get_attribute("aria-valuenow") == "130" and state(figure)["errors"][0] > 0.1
        seen.page.keyboard.press("Home")
        assert key.get_attribute("aria-valuetext") == "0 degrees"
        assert figure.get_by_role("slider", name="key C, angle").count() == 0
        seen.clean()


def test_touch_turns_a_key(memory):
    with memory(width=360, has_touch=True, is_mobile=True) as seen:
        figure = seen.page.locator("memory-explorer")
        figure.locator(".dial").tap(position={"x": 110 + 70, "y": 110 - 20})
        assert state(figure)["angles"][0] == 15
        seen.clean()


def test_without_scripts_a_table_is_left(memory):
    with memory(java_script_enabled=False) as seen:
        rows = seen.page.locator("memory-explorer tbody tr")
        assert rows.count() == 3
        _, errors = read_back([0, 90, 45], [value for _, value in list(PAIRS.values())[:3]], "sum")
        assert rows.nth(0).inner_text().endswith(f"{errors[0]:.2f}")
        seen.clean()
