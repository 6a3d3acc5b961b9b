"""What a browser asks for is what was weighed; icons are drawn and silent; a lost reader is led home."""

from contextlib import contextmanager

import pytest

from tools import page_speed, page_weight

CHAPTER = "chapters/01-asymmetry.html"
LOST = "course/no/such/rank-collapse.html"


def to_the_end(page) -> None:
    """Scroll as a reader does, so that pictures that wait are asked for."""
    for _ in range(200):
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(15)
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 2"):
            break
    page.wait_for_load_state("networkidle")


def test_the_browser_asks_for_the_files_that_were_weighed(chromium, site):
    with page_speed.served(site) as (address, sent):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{address}/{CHAPTER}", wait_until="networkidle")
        to_the_end(page)
        context.close()
    asked = {path.split("?")[0].lstrip("/"): size for path, size, _ in sent}
    expected = {path.relative_to(site).as_posix(): page_weight.sent(path) for path in page_weight.files(site / CHAPTER)}
    icon = "_static/favicon.svg"  # asked for by a browser with a window
    assert {name: size for name, size in asked.items() if not name.endswith((".woff", icon))} == {
        name: size for name, size in expected.items() if name != icon
    }


def test_pictures_do_not_push_the_text_about(visit, site):
    with visit(site, CHAPTER) as seen:
        heights = "() => [...document.querySelectorAll('article img[loading]')].map((image) => image.offsetHeight)"
        before = seen.page.evaluate(heights)
        to_the_end(seen.page)
        assert before == seen.page.evaluate(heights) and min(before) > 100
        seen.clean()


def test_a_page_is_measured_with_its_requests_and_seconds(chromium, site):
    with page_speed.served(site) as (address, sent):
        found = page_speed.measure(chromium, f"{address}/index.html", sent)
    assert found["bytes_gzip"] < found["bytes_raw"] and found["requests"] > 10
    median, low, high = found["seconds"]
    assert 0 < low <= median <= high


@pytest.mark.parametrize("width", [1280, 390])
def test_every_icon_is_drawn_and_has_no_name(visit, site, width):
    glyphs = """() => [...document.querySelectorAll("[class*='fa-']")].filter((e) => e.offsetWidth).map((e) => {
      const style = getComputedStyle(e, ":before");
      return [e.className, style.content, style.fontFamily.includes("Font Awesome"), e.getBoundingClientRect().width];
    })"""
    with visit(site, CHAPTER, width=width) as seen:
        seen.page.evaluate("document.fonts.ready")
        drawn = seen.page.evaluate(glyphs)
        assert len(drawn) >= 6
        assert [icon for icon in drawn if not icon[2] or not icon[1].endswith('/ ""') or icon[3] < 8] == []
        faces = (
            "[...document.fonts].filter((face) => face.family.includes('Awesome') && face.status === 'loaded').length"
        )
        assert seen.page.evaluate(faces) >= 1
        for name in ("Color mode", "Search") if width == 1280 else ("Color mode",):
            assert seen.page.get_by_role("button", name=name, exact=True).first.is_visible(), name
        assert seen.page.get_by_role("link", name="Present", exact=True).is_visible()
        seen.clean()


def test_code_can_be_copied(visit, site):
    with visit(site, CHAPTER) as seen:
        seen.page.locator("article button.copybtn").first.wait_for(state="attached")
        seen.clean()


@pytest.fixture
def lost(visit, site, tmp_path):
    """A reader at an address that does not exist, on a host that shows 404.html, with the book in a folder."""
    (tmp_path / "course").symlink_to(site, target_is_directory=True)

    @contextmanager
    def at(**options):
        with visit(tmp_path, "course/index.html", **options) as seen:
            answer = {"status": 404, "path": site / "404.html", "content_type": "text/html"}
            seen.page.route(f"**/{LOST}", lambda route: route.fulfill(**answer))
            seen.page.goto(seen.page.url.replace("course/index.html", LOST))
            seen.page.wait_for_selector("#near:not([hidden])")
            yield seen.page, seen

    return at


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_lost_reader_is_led_home_from_any_depth(lost, width, dark):
    with lost(width=width, dark=dark) as (page, seen):
        assert page.get_by_role("link", name="Start of the book").get_attribute("href") == "/course/index.html"
        near = page.get_by_role("link", name="Rank collapse")
        assert near.get_attribute("href") == "/course/chapters/07-rank-collapse.html"
        assert page.get_by_role("searchbox").input_value() == "rank collapse"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.axe() == [] and seen.external == []
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**/course/search.html?q=rank+collapse")


def test_a_lost_page_opened_from_disk_leads_to_the_book_beside_it(chromium, site):
    page = chromium.new_page()
    page.goto((site / "404.html").as_uri())
    page.get_by_role("link", name="Start of the book").click()
    page.wait_for_url("**/index.html")
    assert page.locator("article h1").is_visible()
    page.close()
