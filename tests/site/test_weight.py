"""Pages stay light: what they add to the theme, what they ask for, how their pictures come."""

import re
from functools import cache

import pytest
from bs4 import BeautifulSoup
from built_site import documents, html

from tools import icons, page_weight
from tools.site.files import UNUSED, USED_BY

CONTENT = [name for name in documents() if name.startswith(page_weight.WEIGHED)]
EVERY = [*documents(), "search", "genindex"]
FRAME, FRAME_WITH_FORMULAS = 130_000, 300_000  # bytes of the theme, and with MathJax


@cache
def page(name: str) -> BeautifulSoup:
    return BeautifulSoup((html() / f"{name}.html").read_text("utf8"), "lxml")


@pytest.mark.parametrize("name", CONTENT)
def test_content_weighs_no_more_than_its_limit(name):
    path = html() / f"{name}.html"
    own, limit = page_weight.own(path), page_weight.limit(path)
    assert own <= limit, f"{own / 1e3:.0f} kB of {limit / 1e3:.0f}: python -m tools.pipeline.pictures, or fewer data"


@pytest.mark.parametrize("name", documents())
def test_the_theme_weighs_no_more_than_its_limit(name):
    path = html() / f"{name}.html"
    others = [file for file in page_weight.files(path) - {path.resolve()} if file.parent.name != "_images"]
    limit = FRAME_WITH_FORMULAS if page(name).select(".math") else FRAME
    assert sum(map(page_weight.sent, others)) <= limit


def test_every_file_that_a_page_asks_for_is_there():
    missing = {file for name in EVERY for file in page_weight.files(html() / f"{name}.html") if not file.exists()}
    assert missing == set()


def test_what_no_page_uses_is_not_published():
    static = html() / "_static"
    assert [path for pattern in UNUSED for path in static.glob(pattern)] == []
    assert not re.search(icons.RULE, (static / "styles" / "pydata-sphinx-theme.css").read_text("utf8"))


MARKS = {".math": "mathjax", "article .highlight": "copybutton.js", "[class*=sd-]": "sphinx-design", ".cell": "mystnb"}


@pytest.mark.parametrize(("mark", "file"), MARKS.items())
def test_a_page_loads_a_file_exactly_when_it_uses_it(mark, file):
    loads = {name for name in EVERY if page(name).select(f"script[src*='{file}'], link[href*='{file}']")}
    uses = {name for name in EVERY if page(name).select(mark)}
    assert loads == uses and 0 < len(uses) < len(EVERY)
    assert any(file in part or part in file for _, parts in USED_BY for part in parts)


@pytest.mark.parametrize("name", CONTENT)
def test_pictures_wait_and_keep_their_place(name):
    pictures = page(name).select("article img[src*='_images/']")
    assert pictures and all(picture.get("decoding") == "async" for picture in pictures)
    assert [picture.get("loading") for picture in pictures] == [None] + ["lazy"] * (len(pictures) - 1)
    assert all(picture.get("width", "").isdigit() and picture.get("height", "").isdigit() for picture in pictures)


def test_the_icons_are_those_of_the_theme():
    assert icons.TARGET.read_text("utf8") == icons.style_sheet(), f"run {icons.COMMAND}"


def test_every_icon_of_a_page_or_script_has_a_glyph():
    every = set(icons.known(icons.theme_css()))
    stored = set(re.findall(r"\.fa-([a-z0-9-]+):before", icons.TARGET.read_text("utf8")))
    static = html() / "_static"
    scripts = [path.read_text("utf8") for path in static.rglob("*.js") if "mathjax" not in path.parts]
    named = {icon for text in scripts for icon in re.findall(r"\bfa-([a-z0-9-]+)", text)}
    for name in EVERY:
        classes = {part for tag in page(name).select("[class*='fa-']") for part in tag["class"]}
        named |= {part.removeprefix("fa-") for part in classes if part.startswith("fa-")}
    assert len(named & every) > 8
    assert sorted(named & every - stored) == [], f"name it in a template or script, then run {icons.COMMAND}"


def test_icons_that_the_style_draws_have_a_glyph():
    css = icons.theme_css()
    drawn = set(re.findall(r'--pst-icon-[a-z-]+:"(.)"', css))
    solid = icons.subset(icons.theme_static() / "vendor/fontawesome/webfonts/fa-solid-900.ttf", drawn)[1]
    brands = icons.subset(icons.theme_static() / "vendor/fontawesome/webfonts/fa-brands-400.ttf", drawn)[1]
    assert len(drawn) > 10 and drawn == solid | brands
