"""Every page in a real browser without network: silent, accessible, narrow enough, with formulas."""

import pytest
from built_site import addresses

PAGES = addresses()
WITH_FORMULAS = ["pages/notation.html", "pages/prerequisites.html"]
WIDTHS = {"desk": 1280, "tablet": 768, "phone": 360}
A4 = 718  # CSS pixels between the margins of a sheet

# A page has 5,000 coloured pieces of code in some twenty colours, and 3,000 pieces of formulas: one of each is enough,
# in input and in output, and a few formulas with each colour.
ONE_OF_EACH = """() => {
  const seen = new Map();
  const spare = (kind, most) => seen.set(kind, (seen.get(kind) ?? 0) + 1).get(kind) > most;
  for (const piece of document.querySelectorAll("article pre span[class]")) {
    const kind = `${piece.className} ${Boolean(piece.closest(".cell_output"))}`;
    if (spare(kind, 1)) piece.replaceWith(...piece.childNodes);
  }
  for (const formula of document.querySelectorAll("article mjx-container")) {
    const colours = new Set([...formula.querySelectorAll("[class*='ai-']")].map((part) => part.getAttribute("class")));
    if (spare(`${formula.hasAttribute("display")} ${[...colours].sort()}`, 3)) formula.remove();
  }
}"""
OPEN = "document.querySelectorAll('article details').forEach((part) => { part.open = true })"


def settled(page) -> None:
    """Wait until MathJax, where there is any, has set its formulas."""
    page.evaluate("async () => { if (window.MathJax?.startup?.promise) await MathJax.startup.promise }")


MOTION = """() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*").forEach((part) => {
    for (const pseudo of [null, "::before", "::after"]) {
      const style = getComputedStyle(part, pseudo);
      const times = `${style.animationName === "none" ? "" : style.animationDuration}, ${style.transitionDuration}`;
      if (times.split(",").some((time) => parseFloat(time) > 0) || style.scrollBehavior === "smooth") {
        found.push(`${part.tagName.toLowerCase()}.${part.className}${pseudo ?? ""}: ${times} ${style.scrollBehavior}`);
      }
    }
    if (part.shadowRoot) look(part.shadowRoot);
  });
  look(document);
  return [...new Set(found)];
}"""


UNDESCRIBED = """() => [
  ...[...document.querySelectorAll("article figure")].filter((figure) => {
    const plain = (text) => text.toLowerCase().replace(/\\W+/g, " ").trim();
    const [image, caption] = [figure.querySelector("img"), figure.querySelector("figcaption")];
    return image && (!caption || plain(caption.innerText.replace(/^Fig\\. \\d+/, "")).includes(plain(image.alt)));
  }).map((figure) => `${figure.id} has no text of its own`),
  ...[...document.querySelectorAll("article *")]
    .filter((part) => part.shadowRoot && !(part.getAttribute("role") && part.getAttribute("aria-label")?.trim()))
    .map((part) => `${part.tagName} has no name`),
]"""

CLIPPED = """() => [...document.querySelectorAll("article *")].filter((part) => {
  const box = part.getBoundingClientRect();
  const inner = part.closest("mjx-container *, .sr-only, .headerlink, .claims thead") || part.matches("span.math");
  const hides = getComputedStyle(part).overflowX !== "visible" && part.scrollWidth > part.clientWidth + 1;
  return !inner && box.width > 0 && (box.right > innerWidth + 1 || (hides && part.clientWidth > 0));
}).map((part) => `${part.tagName} ${part.className} ${part.textContent.trim().slice(0, 60)}`)"""


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_silent_accessible_and_fits_windows_and_paper_in_both_themes(visit, site, path):
    """One visit, for its time: what is as wide as it is, is measured first, and one of each kind then looked at."""
    with visit(site, path, width=A4, reduced_motion="reduce") as seen:
        seen.page.evaluate(OPEN)
        seen.settle()
        found = {"description": seen.page.evaluate(UNDESCRIBED)}
        with seen.printed():
            found["paper"] = seen.page.evaluate(CLIPPED)
        found |= {f"{width} wide": sideways(seen, width) for width in WIDTHS.values()}
        seen.page.evaluate(ONE_OF_EACH)
        for theme in ("light", "dark"):
            seen.resize(WIDTHS["desk"])
            seen.theme(theme)
            for width in WIDTHS.values():
                found[f"{theme}, {width} wide"] = sideways(seen, width) + seen.axe(others=theme == "light")
        found["motion"] = seen.page.evaluate(MOTION)
        assert {place: faults for place, faults in found.items() if faults} == {}
        seen.clean()


def sideways(seen, width: int) -> list[str]:
    """Make the window that wide; what is wrong if the page is wider."""
    seen.resize(width)
    found = seen.page.evaluate("document.documentElement.scrollWidth")
    return [f"the page is {found} wide"] if found > width else []


@pytest.mark.parametrize("path", WITH_FORMULAS)
def test_formulas_are_set_and_coloured(visit, site, path):
    with visit(site, path) as seen:
        settled(seen.page)
        assert seen.page.locator("mjx-container").count() > 10
        assert "$" not in seen.page.inner_text("article") and "\\(" not in seen.page.inner_text("article")
        colour = "name => getComputedStyle(document.querySelector('mjx-container .ai-' + name)).color"
        colours = {name: seen.page.evaluate(colour, name) for name in ("query", "key", "value", "output")}
        assert len(set(colours.values())) == 4, colours


def test_a_wide_formula_can_be_reached_with_the_keyboard(visit, site):
    with visit(site, "pages/prerequisites.html", width=360) as seen:
        settled(seen.page)
        wide = (
            "() => [...document.querySelectorAll('div.math mjx-container')].filter(f => f.scrollWidth > f.clientWidth)"
        )
        found = seen.page.evaluate(f"() => ({wide})().map(f => f.tabIndex)")
        assert found and set(found) == {0}


def test_the_theme_can_be_changed(visit, site):
    with visit(site, PAGES[0]) as seen:
        ground = "() => getComputedStyle(document.body).backgroundColor"
        light = seen.page.evaluate(ground)
        for _ in range(3):
            seen.page.get_by_role("button", name="Color mode").click()
            if seen.page.evaluate("document.documentElement.dataset.theme") == "dark":
                break
        assert seen.page.evaluate(ground) != light


def test_search_finds_a_term(visit, site):
    with visit(site, "search.html?q=asymmetry") as seen:
        seen.page.wait_for_selector("#search-results li", timeout=10_000)
        seen.clean()


def test_paper_is_light_and_every_answer_is_open(visit, site):
    with visit(site, "pages/prerequisites.html", dark=True) as seen:
        closed = "document.querySelectorAll('article details:not([open])').length"
        state = f"() => [document.documentElement.dataset.theme, {closed}]"
        before = seen.page.evaluate(state)
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert before[0] == "dark" and before[1] > 3 and seen.page.evaluate(state) == ["light", 0]
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.page.evaluate(state) == before


def test_formulas_are_there_for_a_screen_reader(visit, site):
    with visit(site, "pages/notation.html") as seen:
        settled(seen.page)
        formulas = seen.page.locator("mjx-container").count()
        assert seen.page.locator("mjx-container mjx-assistive-mml math").count() == formulas


def test_the_page_can_be_read_without_scripts(visit, site):
    with visit(site, PAGES[0], java_script_enabled=False) as seen:
        assert seen.page.locator("article h1").is_visible()
        assert seen.page.locator(".insight").count() == 12
