"""The collapse-explorer in a browser: points and residual are those it was given; mouse, touch and keys move it."""

from __future__ import annotations

import pytest
import torch

from utils.collapse_explorer import COMBINATIONS, collapse_explorer, plane

LABELS = ["[CLS]", "one", "</b> two", "three", "four", "five", "[SEP]"]


def states() -> dict:
    """Seven layers: with the skip tokens stay, without it each layer takes two digits."""
    found = {}
    for index, parts in enumerate(COMBINATIONS):
        generator = torch.Generator().manual_seed(index)
        own, mean = torch.randn(7, 9, generator=generator, dtype=torch.float64), torch.ones(9, dtype=torch.float64)
        scale = 0.95 if parts[0] else 0.01
        found[parts] = torch.stack([mean + scale**layer * own for layer in range(7)])
    return found


@pytest.fixture
def collapse(page):
    """collapse(width=…, dark=…) opens a page that holds the figure."""
    shown = collapse_explorer(states(), LABELS, title="Tokens fall", alt="Tokens as points.")
    return lambda **options: page(shown, **options)


def places(seen) -> list[list[float]]:
    return seen.page.locator("collapse-explorer").evaluate("e => e.places(e.depth)")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(collapse, width, dark):
    with collapse(width=width, dark=dark) as seen:
        figure = seen.page.locator("collapse-explorer")
        assert figure.locator(".dot").count() == 7 and figure.locator(".special").count() == 2
        assert figure.locator(".mark").count() == 7
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_points_and_residual_are_those_of_python_for_every_combination(collapse):
    with collapse() as seen:
        figure = seen.page.locator("collapse-explorer")
        for parts, given in states().items():
            for name, on in zip(("skip", "MLP", "LayerNorm"), parts, strict=True):
                figure.get_by_role("checkbox", name=name).set_checked(on)
            for depth in (0, 3, 6):
                figure.get_by_role("slider").fill(str(depth))
                for found, (x, y) in zip(places(seen), plane(given)[depth], strict=True):
                    assert found == pytest.approx([x, -y], abs=1e-5)
                text = figure.locator(".readout").inner_text()
                named = [n for n, on in zip(("skip", "MLP", "LayerNorm"), parts, strict=True) if on]
                assert (" + ".join(named) or "alone") in text and f"after {depth} of 6" in text
                apart = "Tokens are apart" if parts[0] or depth == 0 else "qual"
                assert apart in text
        seen.clean()


def test_the_residual_is_written_as_a_reader_expects(collapse):
    with collapse() as seen:
        figure = seen.page.locator("collapse-explorer")
        figure.get_by_role("slider").fill("3")
        assert "· 10⁻⁷" in figure.locator(".readout b").inner_text()
        figure.get_by_role("slider").fill("6")
        assert figure.locator(".readout b").inner_text() == "below 10⁻¹²"


def test_keys_mouse_and_touch_move_through_the_layers(collapse):
    with collapse(has_touch=True) as seen:
        figure = seen.page.locator("collapse-explorer")
        slider, curve = figure.get_by_role("slider"), figure.locator(".curve")
        slider.focus()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext").startswith("layer 3 of 6")
        box = curve.bounding_box()
        curve.click(position={"x": box["width"] - 14, "y": 60})
        assert slider.input_value() == "6"
        curve.tap(position={"x": 46, "y": 60})
        assert slider.input_value() == "0"
        skip = figure.get_by_role("checkbox", name="skip")
        skip.focus()
        slider.fill("5")
        seen.page.keyboard.press("Tab")
        skip.focus()
        seen.page.keyboard.press("Space")
        assert skip.is_checked() and "Tokens are apart" in figure.locator(".readout").inner_text()
        seen.clean()


def test_without_scripts_the_fallback_is_shown(collapse):
    with collapse(java_script_enabled=False) as seen:
        assert seen.page.locator("collapse-explorer tbody tr").count() == 8
        assert seen.page.locator("collapse-explorer img").count() == 1
