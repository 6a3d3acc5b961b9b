"""The cost-explorer in a browser: its formulas are the planner's, and it answers mouse, touch and keys."""

from __future__ import annotations

import pytest

from utils import planner
from utils.cost_explorer import LENGTHS, amount, cost_explorer, costs
from utils.planner import Architecture

LLAMA = Architecture(
    layers=2, width=512, heads=8, kv_heads=2, ffn_width=1408, vocabulary=100, positions=0, kind="decoder", gated=True
)
MODELS = {
    "BERT-base": planner.BERT_BASE,
    "MiniLM": planner.MINILM,
    "grouped": LLAMA,
    "pruned": planner.MINILM.without_heads(5),
}
READOUT = ".readout"


@pytest.fixture
def cost(page):
    """cost(width=…, dark=…) opens a page that holds the figure."""
    shown = cost_explorer(MODELS, n=512, title="n² counts scores", alt="Two lines")
    return lambda **options: page(shown, **options)


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(cost, width, dark):
    with cost(width=width, dark=dark) as seen:
        assert seen.page.locator("cost-explorer path.square").bounding_box()["width"] > 150
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_its_numbers_are_those_of_the_planner(cost):
    with cost() as seen:
        for place, (name, architecture) in enumerate(MODELS.items()):
            for n in (*LENGTHS, 1, 777):
                found = seen.page.locator("cost-explorer").evaluate("(e, [model, n]) => e.costs(model, n)", [place, n])
                expected = costs(architecture, n)
                assert set(found) == set(expected)
                for key, value in expected.items():
                    assert found[key] == pytest.approx(value, rel=1e-12), f"{name}, n = {n}, {key}"
        seen.clean()


def test_what_it_shows_is_written_as_the_fallback_writes_it(cost):
    with cost() as seen:
        expected = costs(planner.BERT_BASE, 512)
        shown = seen.page.locator("cost-explorer dd").all_inner_texts()
        assert shown[0] == amount(expected["entries"]).strip() == "262 k"
        for text, key in zip(shown[2:], ("score_bytes", "kv_bytes", "eager", "flash"), strict=True):
            assert text == amount(expected[key]) + "B"
        assert "10 %" in seen.page.locator(READOUT).inner_text()
        seen.page.get_by_role("combobox").select_option(label="MiniLM")
        assert "2,304" in seen.page.locator(READOUT).inner_text()


def test_keys_mouse_and_touch_change_the_length(cost):
    with cost(has_touch=True) as seen:
        slider, chart = seen.page.get_by_role("slider"), seen.page.locator("cost-explorer svg")
        slider.focus()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext").startswith("768 tokens")
        box = chart.bounding_box()
        chart.click(position={"x": box["width"] - 13, "y": 60})
        assert slider.get_attribute("aria-valuetext").startswith("131,072 tokens")
        assert "has passed" in seen.page.locator(READOUT).inner_text()
        chart.tap(position={"x": 47, "y": 60})
        assert slider.get_attribute("aria-valuetext").startswith("64 tokens")
        assert "does not reach" in seen.page.locator(READOUT).inner_text()
        seen.clean()


def test_without_scripts_the_fallback_is_shown(cost):
    with cost(java_script_enabled=False) as seen:
        assert seen.page.locator("cost-explorer table").is_visible()
        assert seen.page.locator("cost-explorer img").count() == 1
