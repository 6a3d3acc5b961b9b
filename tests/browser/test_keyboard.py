"""The pages with nothing but the keyboard: where the focus goes, that it is seen, and that it comes out again."""

from __future__ import annotations

import pytest

CHAPTER = "chapters/05-low-rank.html"
# The element with the focus, also inside a figure's own tree; what it shows of it; where it stands in the article.
FOCUS = """() => {
  let part = document.activeElement;
  const host = part;
  while (part?.shadowRoot?.activeElement) part = part.shadowRoot.activeElement;
  if (!part || part === document.body) return null;
  const drawn = part.matches("nav summary") ? part.firstElementChild : part;  // the arrow, where nothing else is drawn
  const style = getComputedStyle(drawn), box = drawn.getBoundingClientRect();
  window.focused = window.focused || new Map();
  if (!window.focused.has(part)) window.focused.set(part, window.focused.size);
  return {
    number: window.focused.get(part),
    shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    visible: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
    named: Boolean(part.ariaLabel || part.textContent.trim() || part.labels?.length || part.title),
    article: Boolean(host.closest("article")), inside: host !== part,
    order: host.closest("article") ? [...document.querySelectorAll("article *")].indexOf(host) : -1,
    what: `${part.tagName} ${part.getAttribute("class")} ${part.textContent.trim().slice(0, 40)}`,
  };
}"""


def walk(page, key: str = "Tab", limit: int = 600) -> list[dict]:
    """What has the focus after each press, until it leaves the page or begins again."""
    stops: list[dict] = []
    for _ in range(limit):
        page.keyboard.press(key)
        stop = page.evaluate(FOCUS)
        if stop is None or (stops and stop["number"] == 0):
            return stops
        stops.append(stop)
    raise AssertionError(f"no way out after {limit} presses of {key}; the last stops: {stops[-4:]}")


@pytest.mark.parametrize("path", ["index.html", CHAPTER, "search.html"])
def test_the_skip_link_comes_first_is_seen_and_leads_into_the_article(visit, site, path):
    with visit(site, path) as seen:
        page = seen.page
        page.evaluate("document.activeElement.blur()")
        link = page.locator("#pst-skip-link a")
        page.keyboard.press("Tab")
        assert link.evaluate("part => part === document.activeElement")
        page.wait_for_function("document.querySelector('#pst-skip-link a').getBoundingClientRect().top >= 0")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("Boolean(document.activeElement.closest('main'))")
        assert not page.evaluate("Boolean(document.activeElement.closest('.bd-sidebar'))")


@pytest.mark.parametrize("path", [CHAPTER, "labs/1-visualising-attention.html", "index.html"])
def test_the_focus_goes_through_the_page_in_its_order_is_seen_everywhere_and_leaves(visit, site, path):
    with visit(site, path, reduced_motion="reduce") as seen:
        seen.settle()
        stops = walk(seen.page)
        assert len({stop["number"] for stop in stops}) > 40
        assert [stop["what"] for stop in stops if not stop["visible"]] == []
        assert [stop["what"] for stop in stops if not (stop["shown"] and stop["named"])] == []
        order = [stop["order"] for stop in stops if stop["article"]]
        assert order == sorted(order)
        if path == CHAPTER:
            assert sum(stop["inside"] for stop in stops) > 3
            seen.page.evaluate("window.focused = new Map()")
            assert len(walk(seen.page, "Shift+Tab")) == pytest.approx(len(stops), abs=2)  # back the same way
        seen.clean()


SCROLLERS = """() => {
  const clipped = (part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0;
  const scrolls = (part) => ["auto", "scroll"].includes(getComputedStyle(part).overflowX);
  const found = [...document.querySelectorAll("article *")].filter((part) => clipped(part) && scrolls(part));
  return found.map((part) => ({
    kind: `${part.tagName} ${part.className}`,
    reachable: part.tabIndex === 0,
    named: Boolean(part.ariaLabel) || part.tagName.startsWith("MJX"),  // a formula is read as what it says
  }));
}"""


@pytest.mark.parametrize(
    "path", [CHAPTER, "labs/3-pruning-simulation.html", "pages/evidence.html", "pages/status.html"]
)
def test_what_scrolls_sideways_is_reached_with_the_keyboard_and_has_a_name(visit, site, path):
    with visit(site, path) as seen:
        seen.page.evaluate("document.querySelectorAll('article details').forEach((part) => { part.open = true })")
        seen.settle()
        for width in (1280, 360):
            seen.resize(width)
            seen.page.wait_for_timeout(400)  # the theme looks at sizes again after a pause
            found = seen.page.evaluate(SCROLLERS)
            assert [part for part in found if not (part["reachable"] and part["named"])] == []
        assert found


def test_arrow_keys_move_what_scrolls(visit, site):
    with visit(site, CHAPTER, width=360) as seen:
        seen.settle()
        code = seen.page.locator("article pre[tabindex='0']:visible").first
        code.focus()
        seen.page.keyboard.press("ArrowRight")
        seen.page.wait_for_function("document.activeElement.scrollLeft > 0")
