"""The cross-explorer in a browser: it answers mouse, touch and keys, and its numbers are those of the map."""

from __future__ import annotations

import pytest
import torch

from utils.alignment import Link
from utils.attention.maps import AttentionMaps
from utils.cross_explorer import cross_explorer

SOURCE = ["To", "change", "the", "color", ".", "</s>"]
TARGET = ["<s>", "Die", "Farbe", "zu", "ändern", "."]


def maps() -> AttentionMaps:
    weights = (3 * torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))).softmax(-1)
    special = torch.tensor([True] + [False] * 5)
    return AttentionMaps(weights, TARGET, SOURCE, kind="cross", special_queries=special)


@pytest.fixture
def cross(page):
    links = [Link(1, (3,), "color", "Farbe"), Link(3, (1,), "change", "ändern")]
    shown = cross_explorer(maps(), links, layer=1, head=0, word="ändern", title="A pair", alt="A cross map")
    return lambda **options: page(shown, **options)


def said(seen) -> str:
    return seen.page.locator(".readout").inner_text()


def expected(layer: int, head: int, row: int) -> str:
    best = maps().head(layer, head)[row]
    return f"{SOURCE[int(best.argmax())]} {best.max():.2f}"


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(cross, width, dark):
    with cross(width=width, dark=dark) as seen:
        assert seen.page.locator("cross-explorer svg line").count() > 5
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_it_reads_the_row_before_or_after_the_word_in_every_head(cross):
    with cross() as seen:
        assert "is about to write “ändern”" in said(seen) and expected(1, 0, 3) in said(seen)
        seen.page.get_by_label("has just read").check()
        assert expected(1, 0, 4) in said(seen)
        seen.page.get_by_role("combobox", name="layer").select_option("2")
        seen.page.get_by_role("combobox", name="head").select_option("1")
        assert expected(2, 1, 4) in said(seen)
        top = [int(maps().head(2, 1)[row, :-1].argmax()) for row in (2, 4)]
        hits = (top[0] == 3) + (top[1] == 1)
        assert f"hits {hits} of 2" in seen.page.locator(".map").inner_text()
        seen.clean()


def test_mouse_touch_and_keys_choose_words_on_both_sides(cross):
    with cross(has_touch=True) as seen:
        seen.page.get_by_role("button", name="Farbe").hover()
        assert "“Farbe”" in said(seen) and expected(1, 0, 1) in said(seen)
        seen.page.get_by_role("button", name="change").tap()
        column = maps().head(1, 0)[:5, 1]
        assert f"“change” is read most in the rows of {TARGET[int(column.argmax()) + 1]} {column.max():.2f}" in said(
            seen
        )
        seen.page.get_by_role("button", name="change").press("ArrowDown")
        assert "“the”" in said(seen)
        seen.page.keyboard.press("ArrowRight")
        assert "is about to write" in said(seen)
        seen.page.keyboard.press("End")
        assert "“.”" in said(seen)
        canvas = seen.page.locator("cross-explorer canvas")
        box = canvas.bounding_box()
        canvas.click(position={"x": 10, "y": box["height"] * 0.1})
        assert "“Die”" in said(seen) and expected(1, 0, 0) in said(seen)
        seen.clean()


def test_without_scripts_the_fallback_is_shown(cross):
    with cross(java_script_enabled=False) as seen:
        assert seen.page.locator("cross-explorer table").is_visible()
        assert seen.page.locator("cross-explorer img").count() == 1
