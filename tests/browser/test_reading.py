"""How the pages read: line length, headings, paper, motion, figures and their descriptions."""

from __future__ import annotations

import re

import pytest
from built_site import documents

NOTEBOOKS = [f"{name}.html" for name in documents() if not name.startswith("pages/") and name != "index"]
CHAPTER = "chapters/05-low-rank.html"
A4 = 718  # CSS pixels between the margins of a sheet

LINES = """() => [...document.querySelectorAll("article section > p")].map((part) => {
  const range = document.createRange();
  range.selectNodeContents(part);
  const tops = new Set([...range.getClientRects()].filter((box) => box.height > 12).map((box) => Math.round(box.top / 12)));
  return { lines: part.getBoundingClientRect().height / parseFloat(getComputedStyle(part).lineHeight), text: part.innerText };
}).filter(({ lines, text }) => lines > 3.5 && text.length > 200).map(({ lines, text }) => text.length / Math.round(lines))"""


@pytest.mark.parametrize("width", [768, 1280, 1920])
@pytest.mark.parametrize(
    "path", ["pages/prerequisites.html", "pages/syllabus.html", "pages/lesson-plans.html", CHAPTER]
)
def test_a_line_of_prose_has_45_to_90_characters(visit, site, path, width):
    with visit(site, path, width=width) as seen:
        seen.settle()
        found = sorted(seen.page.evaluate(LINES))
        if len(found) < 3:
            pytest.skip("too little prose")
        assert 45 <= found[len(found) // 2] <= 90, found


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


CLIPPED = """() => [...document.querySelectorAll("article *")].filter((part) => {
  const box = part.getBoundingClientRect();
  const assistive = part.closest("mjx-assistive-mml, .sr-only, .headerlink");
  return !assistive && box.width > 0 && (box.right > innerWidth + 1
    || (part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0 && getComputedStyle(part).overflowX !== "visible"));
}).map((part) => `${part.tagName} ${part.className} ${part.textContent.trim().slice(0, 60)}`)"""


@pytest.mark.parametrize("path", [*NOTEBOOKS, "pages/evidence.html", "pages/status.html", "pages/notation.html"])
def test_nothing_is_cut_off_on_paper(visit, site, path):
    with visit(site, path, width=A4, dark=True) as seen:
        seen.settle()
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(media="print")
        seen.page.wait_for_timeout(200)
        assert seen.page.evaluate(CLIPPED) == []


def test_a_chapter_is_printed_on_a_sane_number_of_light_sheets(visit, site):
    with visit(site, CHAPTER, dark=True) as seen:
        seen.settle()
        pdf = seen.page.pdf(format="A4", print_background=True)
        sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
        assert 10 <= sheets <= 40
        seen.page.emulate_media(media="print")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
        contrast = "getComputedStyle(document.querySelector('article p a')).color"
        assert max(map(int, re.findall(r"\d+", seen.page.evaluate(contrast))[:3])) < 120


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


@pytest.mark.parametrize("path", ["index.html", *NOTEBOOKS])
def test_nothing_moves_for_a_reader_who_asked_for_stillness(visit, site, path):
    with visit(site, path, reduced_motion="reduce") as seen:
        seen.settle()
        assert seen.page.evaluate(MOTION) == []


FIGURES = """() => ({
  same: [...document.querySelectorAll("article figure")].filter((figure) => {
    const plain = (text) => text.toLowerCase().replace(/\\W+/g, " ").trim();
    const [image, caption] = [figure.querySelector("img"), figure.querySelector("figcaption")];
    return image && (!caption || plain(caption.innerText.replace(/^Fig\\. \\d+/, "")).includes(plain(image.alt)));
  }).map((figure) => figure.id),
  unnamed: [...document.querySelectorAll("article *")]
    .filter((part) => part.shadowRoot && !(part.getAttribute("role") && part.getAttribute("aria-label")?.trim()))
    .map((part) => part.tagName),
  figures: document.querySelectorAll("article figure img").length,
})"""


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_picture_has_a_caption_and_another_text_and_a_figure_that_answers_has_a_name(visit, site, path):
    with visit(site, path) as seen:
        seen.settle()
        found = seen.page.evaluate(FIGURES)
        assert found["figures"] > 0 and (found["same"], found["unnamed"]) == ([], [])


def test_pictures_stand_on_a_calm_light_ground_in_the_dark(visit, site):
    with visit(site, CHAPTER, dark=True) as seen:
        seen.settle()
        style = seen.page.locator("article .cell_output img").first.evaluate(
            "part => { const s = getComputedStyle(part); return [s.backgroundColor, s.filter, parseFloat(s.paddingTop)] }"
        )
        assert style[0] == "rgb(255, 255, 255)" and style[1] == "brightness(0.9)" and style[2] > 4


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
