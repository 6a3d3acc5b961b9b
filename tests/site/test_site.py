"""The built pages: clean, complete, and independent of other hosts."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from built_site import documents, html

from tools import site_pages
from tools.records import recorded
from utils import claims

ROOT = site_pages.ROOT
DOCUMENTS = documents()
MATHJAX = ROOT / "assets" / "vendor" / "mathjax"


@cache
def page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf8"), "lxml")


def every_page() -> list[Path]:
    return sorted(path for path in html().rglob("*.html") if "_static" not in path.parts)


@pytest.fixture(params=DOCUMENTS)
def document(request) -> BeautifulSoup:
    return page(html() / f"{request.param}.html")


def local(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc


def test_every_document_of_the_table_of_contents_has_a_page():
    assert [name for name in DOCUMENTS if not (html() / f"{name}.html").exists()] == []


def test_no_page_shows_a_traceback_or_a_sphinx_error(document):
    assert "Traceback (most recent call last)" not in document.get_text()
    assert document.select(".system-message, .problematic, .traceback") == []


def test_no_markup_is_left_in_the_text(document):
    for part in document.select("article pre, article code, article script, article style, article .highlight"):
        part.extract()
    text = document.select_one("article").get_text()
    assert re.findall(r":::|\{(?:cite|term|ref|div)[^}]*\}|\]\{\.", text) == []


def test_every_picture_has_an_alternative_text(document):
    pictures = document.select("article img")
    assert [picture for picture in pictures if not (picture.get("alt") or "").strip()] == []
    drawings = document.select("article svg[role=img]")
    assert [drawing for drawing in drawings if not (drawing.get("aria-label") or "").strip()] == []


def test_links_inside_the_book_lead_somewhere():
    broken = []
    for path in every_page():
        for link in page(path).select("a[href]"):
            address = link["href"]
            if not local(address) or address.startswith("?"):
                continue
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: {address}")
            elif parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                if not page(target).find(id=anchor):
                    broken.append(f"{path.name}: {address} (no such place)")
    assert broken == []


def test_citations_lead_to_the_references_page():
    cited = {
        link["href"].split("#")[1]
        for path in every_page()
        for link in page(path).select("a.reference.internal[href*='references.html#']")
    }
    assert len(cited) > 50


def test_a_page_fetches_nothing_from_another_host():
    selectors = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
    for path in every_page():
        for tag, attribute in selectors.items():
            found = [part[attribute] for part in page(path).select(f"{tag}[{attribute}]")]
            assert [a for a in found if not local(a) and not a.startswith("data:")] == [], path
        sheets = [
            part["href"] for part in page(path).select("link[rel~=stylesheet], link[rel~=icon], link[rel~=preload]")
        ]
        assert [a for a in sheets if not local(a) and not a.startswith("data:")] == [], path


def test_our_styles_and_scripts_fetch_nothing_from_another_host():
    for path in [*(ROOT / "assets").glob("*.css"), *(ROOT / "assets").glob("*.js"), *(ROOT / "assets").glob("*.html")]:
        assert not re.search(r"(?:url\(|import|fetch\(|src=)\s*[\"']?https?:", path.read_text("utf8")), path


def test_no_button_leads_to_a_repository_that_was_not_named():
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    assert "repository" not in config and "launch_buttons" not in config
    options = config["sphinx"]["config"]["html_theme_options"]
    if "repository_url" not in options:
        text = (html() / "index.html").read_text("utf8")
        assert not re.search(r"github\.com/(OWNER|example|executablebooks/jupyter-book)", text)


def test_mathjax_comes_with_its_licence_and_stays_small():
    assert "Apache License" in (MATHJAX / "LICENSE").read_text("utf8")
    assert sum(path.stat().st_size for path in MATHJAX.rglob("*") if path.is_file()) < 2.5e6


def test_derived_pages_are_up_to_date():
    stale = [path.relative_to(ROOT) for path in site_pages.stale()]
    assert stale == [], f"run {site_pages.COMMAND}"


def test_the_style_sheet_has_the_colours_of_the_palette():
    palette = json.loads((ROOT / "utils" / "palette.json").read_text("utf8"))
    css = (ROOT / "assets" / "course.css").read_text("utf8").split("/* palette: end */")[0]
    light, dark = css.split('html[data-theme="dark"] {')
    for theme, rules in {"light": light, "dark": dark}.items():
        found = dict(re.findall(r"--ai-([a-z-]+): (#[0-9a-f]{6});", rules))
        assert found == {name: shades[theme] for name, shades in palette.items()}


def test_a_card_links_a_chapter_exactly_when_there_is_one():
    linked = {link["href"] for link in page(html() / "index.html").select(".insight a[href]")}
    planned = {entry.get("chapter") for entry in claims.load()["insights"]}
    assert linked == {f"{name}.html" for name in planned & set(DOCUMENTS)}


@pytest.mark.parametrize(
    "insight", [e for e in claims.load()["insights"] if e.get("chapter") in DOCUMENTS], ids=lambda e: e["id"]
)
def test_each_claim_of_a_chapter_is_measured_or_said_to_be_a_matter_of_reading(insight):
    measured = recorded(DOCUMENTS)
    about = " ".join(page(html() / f"{insight['chapter']}.html").select_one("section#verdicts").get_text().split())
    open_claims = [claim["id"] for claim in insight["claims"] if claim["id"] not in measured]
    assert all(re.search(rf"{re.escape(name)}\b", about) for name in open_claims), open_claims
    assert not open_claims or "of reading" in about


def test_every_chapter_belongs_to_an_insight():
    planned = {entry.get("chapter") for entry in claims.load()["insights"]}
    assert [name for name in DOCUMENTS if name.startswith("chapters/") and name not in planned] == []


def test_every_glossary_term_has_a_korean_one():
    glossary = page(html() / "pages" / "glossary.html").select_one("dl.glossary")
    kinds = [part.name for part in glossary.find_all(["dt", "dd"], recursive=False)]
    assert kinds == ["dt", "dt", "dd"] * (len(kinds) // 3) and len(kinds) > 90
    korean = glossary.find_all("dt", recursive=False)[1::2]
    assert [term.get_text() for term in korean if not re.search("[가-힣]", term.get_text())] == []
