"""Every page in a real browser without network: silent, accessible, narrow enough, with formulas."""

import pytest
from built_site import documents, html

PAGES = [f"{name}.html" for name in documents()] + ["search.html", "genindex.html"]
WITH_FORMULAS = ["pages/notation.html", "pages/prerequisites.html"]


@pytest.fixture(scope="session")
def site():
    return html()


def settled(page) -> None:
    """Wait until MathJax, where there is any, has set its formulas."""
    page.evaluate("async () => { if (window.MathJax?.startup?.promise) await MathJax.startup.promise }")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)], ids=["desk-light", "phone-dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_silent_accessible_and_fits_its_window(visit, site, path, width, dark):
    with visit(site, path, width=width, dark=dark) as seen:
        settled(seen.page)
        seen.draw()
        seen.clean()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.axe() == []


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


def test_the_theme_can_be_changed_and_pictures_keep_a_light_ground(visit, site):
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
