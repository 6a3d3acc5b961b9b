"""The search of the built site finds every term of the glossary, in English and in Korean, and leads to it."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup

HITS = """queries => queries.map((query) =>
  Search._performSearch(...Search._parseQuery(query)).reverse().map(([page, , anchor]) => page + anchor))"""


@pytest.fixture(scope="module")
def glossary(site) -> BeautifulSoup:
    return BeautifulSoup((site / "pages" / "glossary.html").read_text("utf8"), "lxml")


@pytest.fixture(scope="module")
def terms(glossary) -> dict[str, str]:
    """Term → the anchor of its entry."""
    found = glossary.select("dl.glossary > dt")
    return {re.sub(r"\s*#$", "", term.get_text().strip()): term["id"] for term in found}


@pytest.fixture
def hits(visit, site):
    """hits(queries) -> for each of them the pages found, best first."""

    def found(queries: list[str]) -> dict[str, list[str]]:
        with visit(site, "search.html") as seen:
            seen.page.wait_for_function("Search.hasIndex()")
            return dict(zip(queries, seen.page.evaluate(HITS, queries), strict=True))

    return found


def test_every_term_leads_to_its_place_in_the_glossary(hits, terms):
    assert len(terms) > 180 and sum(bool(re.search("[가-힣]", term)) for term in terms) > 90
    found = hits([*terms])
    missed = {term: found[term][:3] for term in terms if f"pages/glossary#{terms[term]}" not in found[term][:3]}
    assert missed == {}


def test_every_word_of_a_korean_term_finds_the_glossary(hits, terms):
    words = sorted({word for term in terms for word in re.findall("[가-힣]{2,}", term)})
    found = hits(words)
    assert [word for word in words if not any(hit.startswith("pages/glossary") for hit in found[word])] == []


def test_a_term_is_found_however_it_is_written(hits, terms):
    other = {term: [term.upper(), term.replace("-", " "), f" {term} "] for term in terms if "-" in term}
    assert len(other) > 10
    found = hits([query for queries in other.values() for query in queries])
    assert [q for q, hits in found.items() if not any(hit.startswith("pages/glossary") for hit in hits)] == []


def test_what_is_not_in_the_book_is_not_found(hits):
    assert set(map(tuple, hits(["zyzzyva", "없는낱말"]).values())) == {()}


@pytest.mark.parametrize(("query", "way"), [("attention sink", "button"), ("어텐션 싱크", "keys")])
def test_a_reader_searches_and_comes_to_the_place(visit, site, terms, query, way):
    with visit(site, "chapters/01-asymmetry.html") as seen:
        page = seen.page
        if way == "button":
            page.locator(".search-button-field:visible").click()
        else:
            page.keyboard.press("Control+k")
        page.locator("#pst-search-dialog input[name=q]").wait_for()
        page.keyboard.type(query)
        page.keyboard.press("Enter")
        first = page.locator("#search-results li a").first
        first.wait_for(timeout=20_000)
        first.click()
        page.wait_for_url(f"**/pages/glossary.html*#{terms[query]}")
        assert page.locator(f"[id='{terms[query]}']").is_visible()
        seen.clean()


def test_every_hit_leads_to_a_page_and_a_place_that_exist(hits, terms, site):
    found = {hit for pages in hits([*terms][::4]).values() for hit in pages}
    pages: dict[str, set[str]] = {}
    for hit in found:
        name, _, anchor = hit.partition("#")
        if name not in pages:
            html = BeautifulSoup((site / f"{name}.html").read_text("utf8"), "lxml")
            pages[name] = {part["id"] for part in html.select("[id]")}
        assert not anchor or anchor in pages[name], hit
