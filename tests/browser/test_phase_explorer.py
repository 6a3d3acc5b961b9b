"""The phase-explorer in a browser: it draws, and it answers mouse, touch and keys."""

from __future__ import annotations

import pytest

from utils.phase_explorer import LINES, phase_explorer, stored_run
from utils.sweeps import sweep


@pytest.fixture
def phase(page):
    """phase(width=…, dark=…) opens a page that holds the figure of the chapter."""
    shown = phase_explorer(
        *stored_run(sweep("open_questions")["watched"][0]),
        tokens=list("ABCDEFGHI" * 2),
        names=("layer 0", "</script> layer 1"),
        step=140,
        title="Two heads form together",
        alt="Two maps and three curves",
    )
    return lambda **options: page(shown, **options)


def numbers(readout) -> list[float]:
    """The step and the three values shown."""
    return [float(each) for each in readout.locator("b").all_inner_texts()]


def pixels(seen) -> list[int]:
    """How many colours each map has."""
    return seen.page.locator("phase-explorer").evaluate(
        "e => [...e.shadowRoot.querySelectorAll('canvas')].map(c => new Set(new Uint32Array("
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"
    )


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(phase, width, dark):
    with phase(width=width, dark=dark) as seen:
        assert len(pixels(seen)) == 2 and min(pixels(seen)) > 10
        assert seen.page.locator("phase-explorer .line").count() == 3
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_keys_mouse_and_touch_change_the_step_and_what_is_read(phase):
    row = {each["step"]: each for each in stored_run(sweep("open_questions")["watched"][0])[1]}
    with phase(has_touch=True) as seen:
        slider, chart = seen.page.get_by_role("slider"), seen.page.locator("phase-explorer svg")
        readout = seen.page.locator("phase-explorer .readout")
        assert slider.get_attribute("aria-valuetext") == "step 140"
        slider.focus()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "step 150"
        assert numbers(readout) == pytest.approx([150, *(row[150][name] for name in LINES)], abs=0.006)
        box = chart.bounding_box()
        chart.click(position={"x": box["width"] * (30 + 600 / 3) / 640, "y": 40})
        assert slider.get_attribute("aria-valuetext") == "step 100"
        chart.tap(position={"x": box["width"] * 0.98, "y": 40})
        assert slider.get_attribute("aria-valuetext") == "step 300"
        assert numbers(readout) == pytest.approx([300, *(row[300][name] for name in LINES)], abs=0.006)
        seen.clean()


def test_without_scripts_the_fallback_is_shown(phase):
    with phase(java_script_enabled=False) as seen:
        assert seen.page.locator("phase-explorer table").is_visible()
        assert seen.page.locator("phase-explorer img").count() == 2
