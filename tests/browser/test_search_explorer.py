"""The search-explorer in a browser: it draws, and it answers keys, mouse and touch."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from utils.search_explorer import search_explorer
from utils.search_index import ranks

PAIRS = [(f"A query about the thing number {i} </script>", f"passage {i} " + "word " * 30) for i in range(30)]
QUERIES = [4, 11, 20]


def vectors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    queries, noise = (normalize(torch.randn(30, 16, generator=generator), dim=-1) for _ in range(2))
    return queries, normalize(queries + 2 * seed * noise, dim=-1)


FOUND = {"all heads": vectors(1), "layer 5 out": vectors(2)}


@pytest.fixture
def search(page):
    """search(width=…, dark=…) opens a page that holds a figure."""
    words = {"title": "Found without heads", "alt": "Passages"}
    shown = search_explorer(FOUND, PAIRS, queries=QUERIES, condition="layer 5 out", **words)
    return lambda **options: page(shown, **options)


def places(seen) -> list[int]:
    """The places of the right passage that are shown: now, and with all heads."""
    return [int(each) for each in seen.page.locator("search-explorer .readout b").all_inner_texts()]


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(search, width, dark):
    with search(width=width, dark=dark) as seen:
        assert seen.page.locator("search-explorer li").count() == 5
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_choosing_a_query_or_a_condition_changes_what_is_found(search):
    right = {name: ranks(*both).tolist() for name, both in FOUND.items()}
    with search() as seen:
        query, heads = seen.page.get_by_role("combobox").all()
        assert places(seen) == [right["layer 5 out"][4], right["all heads"][4]]
        heads.focus()
        heads.press("ArrowUp")
        assert places(seen) == [right["all heads"][4]] * 2
        query.select_option("2")
        assert places(seen) == [right["all heads"][20]] * 2
        if right["all heads"][20] <= 5:
            assert seen.page.locator("search-explorer .own").count() == 1
        seen.clean()


def test_without_scripts_the_fallback_is_shown(search):
    with search(java_script_enabled=False) as seen:
        assert seen.page.locator("search-explorer table tr").count() == 4
