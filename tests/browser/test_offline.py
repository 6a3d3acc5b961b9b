"""The built folder opened from a disk, without any server: pages, formulas, figures, search and slides work."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "path", ["index.html", "chapters/05-low-rank.html", "pages/evidence.html", "pages/status.html"]
)
def test_a_page_from_a_disk_is_complete_and_silent(visit, site, path):
    with visit(site, path, disk=True) as seen:
        seen.settle()
        page = seen.page
        assert page.locator("article h1").is_visible()
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ai-query')")
        if path.startswith("chapters/"):
            assert page.locator("mjx-container").count() > 20
            assert page.locator("article rank-explorer svg, article rank-explorer canvas").count() > 0
            assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0)")
        seen.clean()


def test_the_search_works_from_a_disk(visit, site):
    with visit(site, "index.html", disk=True) as seen:
        page = seen.page
        page.keyboard.press("Control+k")
        page.locator("#pst-search-dialog input[name=q]").fill("어텐션 싱크")
        page.keyboard.press("Enter")
        hits = page.locator("#search-results li a")
        hits.first.wait_for(timeout=20_000)
        page.wait_for_function("document.querySelector('.search-summary').textContent.trim()")
        hits.first.click()
        page.wait_for_url("**/pages/glossary.html*")
        seen.clean()


def test_slides_work_from_a_disk(visit, site):
    with visit(site, "chapters/01-asymmetry.html?present", disk=True) as seen:
        place = seen.page.locator(".present-place")
        place.wait_for()
        before = place.inner_text()
        seen.page.keyboard.press("ArrowRight")
        assert place.inner_text() != before
        seen.clean()


def test_links_between_pages_work_from_a_disk(visit, site):
    with visit(site, "index.html", disk=True) as seen:
        seen.page.locator("article a[href='chapters/01-asymmetry.html']").first.click()
        seen.page.wait_for_url("**/chapters/01-asymmetry.html")
        assert seen.page.locator("article h1").is_visible()
        seen.clean()
