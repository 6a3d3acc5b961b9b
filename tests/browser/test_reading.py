"""How the pages read: line length, headings, paper, pictures in the dark, words that keep together."""

from __future__ import annotations

import re

import pytest

CHAPTER = "chapters/05-low-rank.html"

LINES = """() => [...document.querySelectorAll("article section > p")].map((part) => {
  const height = part.getBoundingClientRect().height / parseFloat(getComputedStyle(part).lineHeight);
  return { lines: Math.round(height), letters: part.innerText.length };
}).filter(({ lines }) => lines > 3).map(({ lines, letters }) => letters / lines)"""


@pytest.mark.parametrize("path", [CHAPTER, "chapters/11-open-questions.html", "labs/1-visualising-attention.html"])
def test_a_line_of_prose_has_45_to_90_characters(visit, site, path):
    with visit(site, path) as seen:
        seen.settle()
        for width in (768, 1280, 1920):
            seen.resize(width)
            found = sorted(seen.page.evaluate(LINES))
            assert len(found) > 5 and 45 <= found[len(found) // 2] <= 90, (width, found)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_heading_that_a_link_leads_to_is_not_under_the_header(visit, site, width):
    with visit(site, CHAPTER, width=width) as seen:
        seen.settle()
        for anchor in seen.page.evaluate(
            "[...document.querySelectorAll('article section[id]')].slice(1, 6).map(s => s.id)"
        ):
            seen.page.evaluate("anchor => { location.hash = anchor }", anchor)
            seen.page.wait_for_timeout(100)
            place = seen.page.evaluate(
                """anchor => {
              const heading = document.getElementById(anchor).querySelector("h1, h2, h3, h4").getBoundingClientRect();
              const covers = document.elementFromPoint(heading.left + 5, heading.top + heading.height / 2);
              return { top: heading.top, seen: Boolean(covers?.closest("h1, h2, h3, h4")) };
            }""",
                anchor,
            )
            assert place["seen"] and 0 <= place["top"] < 500, (anchor, place)


def test_a_chapter_is_printed_on_a_sane_number_of_light_sheets(visit, site):
    with visit(site, CHAPTER, dark=True) as seen:
        seen.settle()
        pdf = seen.page.pdf(format="A4", print_background=True)
        sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
        assert 10 <= sheets <= 40
        with seen.printed():
            ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
            contrast = "getComputedStyle(document.querySelector('article p a')).color"
            assert max(map(int, re.findall(r"\d+", seen.page.evaluate(contrast))[:3])) < 120


def test_pictures_stand_on_a_calm_light_ground_in_the_dark(visit, site):
    with visit(site, CHAPTER, dark=True) as seen:
        seen.settle()
        style = seen.page.locator("article .cell_output img").first.evaluate(
            "part => ['backgroundColor', 'filter'].map((name) => getComputedStyle(part)[name])"
        )
        assert style == ["rgb(255, 255, 255)", "brightness(0.9)"]


def test_words_are_not_broken_in_tables_and_korean_terms(visit, site):
    broken = """selector => [...document.querySelectorAll(selector)].filter((part) => {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        for (const word of node.data.matchAll(/[\\p{L}_]{2,}/gu)) {
          const range = document.createRange();
          range.setStart(node, word.index);
          range.setEnd(node, word.index + word[0].length);
          if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) return true;
        }
      }
    }).map((part) => part.textContent.trim())"""
    for path, selector in {
        "pages/glossary.html": "dl.glossary dt",
        CHAPTER: "article td",
        "pages/status.html": "article td",
    }.items():
        with visit(site, path, width=360) as seen:
            seen.settle()
            assert seen.page.locator(selector).count() > 5 and seen.page.evaluate(broken, selector) == []
