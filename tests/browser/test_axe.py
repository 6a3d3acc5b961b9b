"""The check for accessibility itself: it finds what is planted, and a rule that cannot be applied is no silence."""

from __future__ import annotations

import pytest

# A browser computes it as color(srgb …), at which old versions of axe stop.
MIXED = "color-mix(in srgb, #808080 20%, white)"
FAINT = "<p style='color:#bbb'>grey words on white</p>"


class Written:
    """A piece of HTML where a page of the tests expects a figure."""

    def __init__(self, html: str):
        self.html = lambda: html


@pytest.mark.parametrize(
    "html",
    [
        FAINT,
        f"<p style='color:{MIXED}'>grey words on white</p>",
        f"<div style='background:{MIXED}'><p style='color:#aaa'>grey words on grey</p></div>",
        f"<p>black</p><p style='color:{MIXED}; font-weight:700'>bold words</p>",
        f"<input value='grey words' aria-label='words' style='color:{MIXED}'>",
    ],
)
def test_words_that_can_hardly_be_read_are_found_beside_mixed_colours(page, html):
    with page(Written(f"<p style='background:{MIXED}'>black words on grey</p>")) as seen:
        assert seen.axe() == []
    with page(Written(f"<p style='background:{MIXED}'>black words on grey</p>{html}")) as seen:
        assert [line for line in seen.axe() if "color-contrast" in line]
        assert [line for line in seen.axe(others=False) if "color-contrast" in line], "a fault is found each time"


def test_they_are_found_inside_a_figure(page):
    with page(Written("<div id=host></div>")) as seen:
        seen.page.evaluate("html => { host.attachShadow({ mode: 'open' }).innerHTML = html }", FAINT)
        assert [line for line in seen.axe() if "color-contrast" in line]


def test_a_rule_that_stops_with_an_error_is_a_fault(page):
    with page() as seen:
        seen.axe()
        stopped = "{ violations: [], incomplete: [{ id: 'x', message: 'y', error: {} }] }"
        seen.page.evaluate(f"axe.run = async () => ({stopped})")
        with pytest.raises(AssertionError, match="x: y"):
            seen.axe()
