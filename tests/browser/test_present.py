"""Present mode: every slide of every page fits, and what an instructor does with slides works."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from built_site import documents, html

FOLDERS = ("chapters/", "labs/", "assessments/", "pages/")
PAGES = [f"{name}.html" for name in documents() if name.startswith(FOLDERS)]
CHAPTER = "chapters/01-asymmetry.html"
LAB = "labs/1-visualising-attention.html"
SIZES = [(1280, 720), (1920, 1080)]
SMALLEST = 0.6  # of anything on a slide, against the size it has when there is room
WALK = (Path(__file__).parent / "present_walk.js").read_text("utf8")
READY = "() => document.documentElement.dataset.slides === 'ready'"


@pytest.fixture(scope="session")
def site():
    return html()


@pytest.fixture
def present(visit, site):
    """present(path, "&at=…", width=…) opens the slides of a page and waits until they are cut."""

    @contextmanager
    def opened(path, more="", **options):
        with visit(site, f"{path}?present{more}", **{"width": 1280, "height": 720} | options) as seen:
            seen.page.wait_for_function(READY, timeout=30_000)
            yield seen

    return opened


def place(page) -> tuple[int, int]:
    """Number of the slide and how many there are."""
    return tuple(int(n) for n in re.findall(r"\d+", page.locator(".present-place").inner_text()))


def go_to(page, number: int) -> None:
    page.keyboard.type(str(number))
    page.keyboard.press("Enter")
    assert place(page)[0] == number


def slide_with(page, selector: str) -> int:
    """Number of the first slide that shows what the selector finds."""
    page.keyboard.press("Home")
    for number in range(1, place(page)[1] + 1):
        if page.locator(selector).first.is_visible():
            return number
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"no slide shows {selector}")


def walked(page) -> dict:
    found = page.evaluate(WALK)
    assert found["faults"] == [], "\n".join(found["faults"][:20])
    assert found["smallest"] >= SMALLEST
    return found


@pytest.mark.parametrize("path", PAGES)
def test_everything_is_on_one_slide_and_fits_it(present, path):
    with present(path) as seen:
        first = walked(seen.page)
        seen.page.set_viewport_size({"width": 1920, "height": 1080})
        assert walked(seen.page)["slides"] == first["slides"]
        seen.clean()


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1024, 768), (390, 844)])
def test_a_page_opened_in_another_window_fits_it(present, width, height):
    with present(CHAPTER, width=width, height=height) as seen:
        walked(seen.page)


def test_keys_turn_the_slides_and_the_address_keeps_the_place(present):
    with present(CHAPTER) as seen:
        page = seen.page
        title = page.locator("article h1")
        assert place(page)[0] == 1 and title.is_visible() and not page.locator(".bd-sidebar-primary").is_visible()
        for forward, back in [("ArrowRight", "ArrowLeft"), ("PageDown", "PageUp"), (" ", "Shift+ ")]:
            page.keyboard.press(forward)
            assert place(page)[0] == 2 and not title.is_visible()
            page.keyboard.press(back)
            assert place(page)[0] == 1
        page.keyboard.press("End")
        assert len(set(place(page))) == 1
        go_to(page, 14)
        shown = page.locator("article").inner_text()
        page.wait_for_url(re.compile(r"present=14&at=how-symmetric-is-a-trained-head"))
        page.reload()
        page.wait_for_function(READY)
        assert place(page)[0] == 14 and page.locator("article").inner_text() == shown
        first = shown.splitlines()[0]
        page.set_viewport_size({"width": 1024, "height": 768})
        page.wait_for_function(
            f"slides => ({READY})() && !document.querySelector('.present-place').textContent.endsWith(slides)",
            arg=str(place(page)[1]),
        )
        assert place(page)[1] != 55 and first in page.locator("article").inner_text()
        page.keyboard.press("Escape")
        page.wait_for_url(lambda url: "present" not in url and url.endswith("#how-symmetric-is-a-trained-head"))
        assert page.locator(".present-bar").count() == 0
        seen.clean()


def test_a_screen_reader_hears_the_slide(present):
    with present(CHAPTER) as seen:
        page = seen.page
        focused = "() => document.activeElement.textContent"
        go_to(page, 5)
        assert page.evaluate(focused).startswith("Objectives")
        assert page.locator(".present-bar [role=status]").inner_text().startswith("Slide 5 /")
        go_to(page, 7)  # continues a section: its heading, smaller, is not a second heading
        assert page.evaluate(focused) == "Two directions in one picture (continued)"
        assert page.locator("article :is(h1, h2, h3):visible").count() == 0
        page.get_by_role("button", name="Next").click()  # stays on the button, so that it can be pressed again
        assert (
            page.evaluate(focused) == "Next" and "When" not in page.locator(".present-bar [role=status]").inner_text()
        )


def test_the_lists_of_keys_and_of_slides(present):
    with present(CHAPTER, dark=True) as seen:
        page = seen.page
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").locator("dt").count() == 11 and seen.axe() == []
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        assert place(page)[0] == 1 and page.get_by_role("dialog").count() == 0
        page.keyboard.press("o")
        page.get_by_role("button", name="Takeaways").click()
        assert page.locator("#takeaways h2").is_visible()
        page.keyboard.press("b")
        assert "present-blank" in page.locator("body").get_attribute("class")
        page.keyboard.press("Escape")
        assert page.locator(".present-bar").count() == 1
        assert seen.axe() == []


def test_notes_stand_beside_their_slides_with_a_clock(present):
    from playwright.sync_api import expect

    with present(CHAPTER) as seen:
        page = seen.page
        panel = page.get_by_role("complementary", name="Speaker notes")
        assert not panel.is_visible() and not page.locator(".speaker-notes:visible").count()
        page.clock.install()
        page.keyboard.press("n")
        assert "No notes" in panel.inner_text()
        notes = {}
        for number in range(1, place(page)[1] + 1):
            notes[number] = panel.locator(".present-note").count()
            page.keyboard.press("ArrowRight")
        section = page.evaluate("() => document.querySelector('.speaker-notes').closest('section').id")
        go_to(page, next(number for number, count in notes.items() if count))
        assert page.locator(f"#{section} > h2").is_visible()  # at the end of a section: from its first slide on
        assert "planned for this part: 8 min" in panel.inner_text() and "Next: " in panel.inner_text()
        assert seen.axe() == []
        clock = panel.get_by_role("timer")
        panel.get_by_role("button", name="Start").click()
        page.clock.run_for(65_000)
        expect(clock).to_have_text("01:05")
        panel.get_by_role("button", name="Pause").click()
        page.clock.run_for(10_000)
        page.wait_for_timeout(600)  # longer than the clock takes to show a change
        assert clock.inner_text() == "01:05"
        panel.get_by_role("button", name="Reset").click()
        assert clock.inner_text() == "00:00"
        walked(page)  # the slide is smaller beside the panel, and still whole


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_notes_in_a_second_window_turn_the_slides(present, chromium, site, scheme):
    def check(page):
        page.keyboard.press("End")
        with page.expect_popup() as popup:
            page.keyboard.press("s")
        window = popup.value
        window.get_by_text("This is the last slide.").wait_for()
        window.keyboard.press("Home")
        assert place(page)[0] == 1 and window.locator(".present-where").inner_text().startswith("1 / ")
        window.get_by_role("button", name="Next").click()
        assert place(page)[0] == 2
        style = "() => getComputedStyle(document.querySelector('.present-clock')).display"
        window.wait_for_function(f"({style})() === 'flex'")  # the style came along

    if scheme == "http":
        with present(CHAPTER) as seen:
            check(seen.page)
            seen.clean()
        return
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{(Path(site) / CHAPTER).resolve().as_uri()}?present")
    page.wait_for_function(READY, timeout=30_000)
    check(page)
    context.close()


def test_a_blocked_window_is_explained(present):
    with present("pages/syllabus.html") as seen:
        seen.page.evaluate("() => { window.open = () => null }")
        seen.page.keyboard.press("s")
        assert "Allow pop-ups" in seen.page.get_by_role("dialog").inner_text()


def test_swipes_turn_the_slides_but_not_in_a_figure(present):
    with present(LAB, has_touch=True) as seen:
        page = seen.page
        touch = page.context.new_cdp_session(page)

        def swipe(start, end):
            for kind, points in [("touchStart", [start]), ("touchMove", [end]), ("touchEnd", [])]:
                points = [{"x": x, "y": y} for x, y in points]
                touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        swipe((900, 300), (500, 310))
        assert place(page)[0] == 2
        swipe((500, 300), (900, 310))
        assert place(page)[0] == 1
        swipe((500, 300), (480, 600))
        assert place(page)[0] == 1
        at = slide_with(page, "attention-explorer")
        box = page.locator("attention-explorer:visible").bounding_box()
        swipe((box["x"] + 600, box["y"] + 300), (box["x"] + 200, box["y"] + 300))
        assert place(page)[0] == at


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_zoomed_figure_is_hit_where_it_is_pointed_at(present, width, height):
    with present(LAB, width=width, height=height) as seen:
        page = seen.page
        at = slide_with(page, "attention-explorer")
        page.wait_for_timeout(100)
        figure = page.locator("attention-explorer:visible")
        assert figure.evaluate("figure => figure.currentCSSZoom") not in (1, width / 1280)  # it is zoomed
        shape = figure.evaluate("({panes: [{geometry: g}], currentCSSZoom: zoom}) => [g.left, g.top, g.cw, g.ch, zoom]")
        left, top, cell, row, zoom = shape
        box = figure.locator(".pane canvas").bounding_box()
        for wanted in (3, 20):
            page.mouse.click(box["x"] + (left + 4.5 * cell) * zoom, box["y"] + (top + (wanted + 0.5) * row) * zoom)
            chosen = figure.evaluate(
                "f => [...f.shadowRoot.querySelectorAll('.from div')].findIndex(d => d.ariaSelected === 'true')"
            )
            assert chosen == wanted
        grid = figure.locator(".gridbox canvas").bounding_box(), figure.locator(".grid").bounding_box()
        assert abs(grid[0]["width"] - grid[1]["width"]) < 2  # what it draws has the size of what it draws on
        figure.locator(".grid button").nth(0).focus()
        page.keyboard.press("ArrowRight")
        assert place(page)[0] == at  # the figure keeps its keys
        page.keyboard.press("Escape")
        page.wait_for_url(lambda url: "present" not in url)


def test_an_opened_answer_scrolls_first(present):
    with present(CHAPTER, height=560) as seen:
        page = seen.page
        at = slide_with(page, "article details.above-input")
        page.locator("article details.above-input:visible summary").first.click()
        page.locator("article h1").evaluate("h => h.focus()")
        stage = page.locator(".bd-article-container")
        assert stage.evaluate("s => s.scrollHeight > s.clientHeight")
        page.keyboard.press("PageDown")
        assert place(page)[0] == at and stage.evaluate("s => s.scrollTop") > 0
        page.keyboard.press("ArrowRight")
        assert place(page)[0] == at + 1 and stage.evaluate("s => s.scrollTop") == 0


def test_a_link_to_a_place_on_the_page_turns_to_its_slide(present):
    with present("labs/3-pruning-simulation.html") as seen:
        page = seen.page
        link = '<a href="#takeaways">end</a>'
        page.evaluate("link => document.querySelector('article p').insertAdjacentHTML('beforeend', link)", link)
        page.get_by_role("link", name="end").click()
        assert page.locator("#takeaways h2").is_visible()


@pytest.mark.parametrize("path", [CHAPTER, "pages/glossary.html"])
def test_paper_has_one_slide_a_page(present, path):
    with present(path) as seen:
        page = seen.page
        slides = place(page)[1]
        for notes, height in [(False, 540), (True, 720)]:
            if notes:
                page.keyboard.press("n")
            paper = page.pdf(prefer_css_page_size=True)
            assert len(re.findall(rb"/Type\s*/Page\b", paper)) == slides
            assert set(re.findall(rb"/MediaBox\s*\[0 0 (\d+) (\d+)", paper)) == {(b"960", str(height).encode())}
        page.keyboard.press("ArrowRight")
        assert place(page) == (2, slides)


def test_the_page_itself_pays_next_to_nothing(visit, site):
    with visit(site, CHAPTER) as seen:
        page = seen.page
        parts = page.evaluate("() => performance.getEntriesByType('resource').map(r => r.name)")
        assert [name for name in parts if "present" in name] == [n for n in parts if "/present.js" in n]
        assert (Path(site) / "_static/present.js").stat().st_size < 2500
        notes = page.locator(".speaker-notes")
        assert notes.count() and not page.locator(".speaker-notes:visible").count()
        page.evaluate("() => MathJax.startup.promise")
        page.locator("#tie-the-weights h2").evaluate("h => h.scrollIntoView({behavior: 'instant'})")
        page.locator(".present-button").evaluate("button => button.click()")
        page.wait_for_function(READY, timeout=30_000)
        assert page.locator("#tie-the-weights h2").is_visible()  # the slides begin where the reader was
