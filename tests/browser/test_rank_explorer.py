"""The rank-explorer in a browser: its decomposition is numpy's, and it answers mouse, touch and keys."""

from __future__ import annotations

import re

import pytest
import torch

from utils.rank_explorer import rank_explorer, truncation

READOUT = ".readout"


def heads(n: int = 24) -> dict:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(n, 8, generator=generator)
    noise = (3 * torch.randn(n, n, generator=generator)).softmax(-1)
    maps = {"noise": noise, "</script> shift": torch.eye(n).roll(1, 0), "uniform": torch.full((n, n), 1 / n)}
    return {name: (weights, values) for name, weights in maps.items()}


@pytest.fixture
def rank(page):
    """rank(width=…, dark=…) opens a page that holds the figure."""
    shown = rank_explorer(heads(), head="noise", rank=6, title="Rank 6 of 24", alt="Three maps")
    return lambda **options: page(shown, **options)


def numbers(seen) -> list[float]:
    """Σσ, Σσ², error (in percent) and cosine, as shown."""
    text = seen.page.locator(READOUT).inner_text()
    return [float(found) for found in re.findall(r"([\d.]+)(?: %|(?= *numbers))", re.sub(r"\s+", " ", text))]


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(rank, width, dark):
    with rank(width=width, dark=dark) as seen:
        colours = seen.page.locator("rank-explorer").evaluate(
            "e => [...e.shadowRoot.querySelectorAll('canvas')].map(c => new Set(new Uint32Array("
            "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)"
        )
        assert len(colours) == 2 and min(colours) > 20
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_its_numbers_are_those_of_numpy_for_every_map_and_rank(rank):
    with rank() as seen:
        for name, pair in heads().items():
            seen.page.get_by_role("combobox").select_option(label=name)
            for rank in (1, 6, 20, 24):
                seen.page.get_by_role("slider").fill(str(rank))
                one, two, error, cosine = numbers(seen)
                right = truncation(*pair, rank)
                # equal singular values leave the choice open, and with it the outputs
                compared = [(one, 100 * right.one), (two, 100 * right.two), (error, 100 * right.error)]
                compared += [] if "shift" in name else [(100 * cosine, 100 * right.cosine)]
                for found, expected in compared:
                    assert found == pytest.approx(expected, abs=0.6), f"{name}, rank {rank}"
        seen.clean()


def test_keys_mouse_and_touch_change_the_rank(rank):
    with rank(has_touch=True) as seen:
        slider, bars = seen.page.get_by_role("slider"), seen.page.locator("rank-explorer svg")
        slider.focus()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "rank 7 of 24"
        box = bars.bounding_box()
        bars.click(position={"x": box["width"] * 0.5, "y": 20})
        assert slider.input_value() == "12"
        bars.tap(position={"x": box["width"] * 0.99, "y": 20})
        assert slider.input_value() == "24"
        assert "576" in seen.page.locator(READOUT).inner_text()
        seen.clean()


def test_without_scripts_the_fallback_is_shown(rank):
    with rank(java_script_enabled=False) as seen:
        assert seen.page.locator("rank-explorer table").is_visible()
        assert seen.page.locator("rank-explorer img").count() == 2
