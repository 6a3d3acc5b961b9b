"""Present mode: every slide of every page fits, and what an instructor does with slides works."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from built_site import documents

FOLDERS = ("chapters/", "labs/", "assessments/", "pages/")
PAGES = [f"{name}.html" for name in documents() if name.startswith(FOLDERS)]
CHAPTER = "chapters/01-asymmetry.html"
LAB = "labs/1-visualising-attention.html"
SIZES = [{"width": 1280, "height": 720}, {"width": 1920, "height": 1080}]
SMALLEST = 0.6  # of anything on a slide, against the size it has when there is room
WALK = (Path(__file__).parent / "present_walk.js").read_text("utf8")
READY = "() => document.documentElement.dataset.slides === 'ready'"
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Turns the slides from the first on until one shows what the selector finds: its number, or 0.
FIND = """selector => {
  const press = key => dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const place = () => document.querySelector('.present-place').textContent.match(/\\d+/g).map(Number);
  press('Home');
  for (let [at, all] = place(); at <= all; at += 1) {
    if (document.querySelector(selector)?.getClientRects().length) return at;
    press('ArrowRight');
  }
  return 0;
}"""
CONTINUES = ".present-running.on:not(:first-child)"  # the heading of a slide that continues a section, not the first


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
    """Turns to the first slide that shows the first that the selector finds: its number."""
    number = page.evaluate(FIND, selector)
    assert number and place(page)[0] == number, f"no slide shows {selector}"
    return number


def walked(page) -> dict:
    found = page.evaluate(WALK)
    assert found["faults"] == [], "\n".join(found["faults"][:20])
    assert found["smallest"] >= SMALLEST
    return found


@pytest.fixture(scope="module")
def window(visit, site):
    """One window for all pages: what they have in common is loaded once."""
    with visit(site, **SIZES[0]) as seen:
        yield seen


@pytest.mark.parametrize("path", PAGES)
def test_everything_is_on_one_slide_and_fits_it(window, serve, site, path):
    for found in (window.external, window.failed, window.errors):
        found.clear()
    window.page.set_viewport_size(SIZES[0])
    window.page.goto(f"{serve(site)}/{path}?present")
    window.page.wait_for_function(READY, timeout=30_000)
    first = walked(window.page)
    window.page.set_viewport_size(SIZES[1])
    assert walked(window.page)["slides"] == first["slides"]
    window.clean()


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1024, 768), (390, 844)])
def test_a_page_opened_in_another_window_fits_it(present, width, height):
    with present(CHAPTER, width=width, height=height) as seen:
        walked(seen.page)


def test_keys_turn_the_slides_and_the_address_keeps_the_place(present):
    with present(CHAPTER) as seen:
        page = seen.page
        title = page.locator("article h1")
        assert place(page)[0] == 1 and title.is_visible() and not page.locator(".bd-sidebar-primary").is_visible()
        page.locator("article p").first.evaluate("p => p.insertAdjacentHTML('beforeend', '<a href=#takeaways>end</a>')")
        page.get_by_role("link", name="end").click()  # a link to a place on the page turns to its slide
        assert page.locator("#takeaways h2").is_visible()
        page.keyboard.press("Home")
        for forward, back in [("ArrowRight", "ArrowLeft"), ("PageDown", "PageUp"), (" ", "Shift+ ")]:
            page.keyboard.press(forward)
            assert place(page)[0] == 2 and not title.is_visible()
            page.keyboard.press(back)
            assert place(page)[0] == 1
        page.keyboard.press("End")
        assert len(set(place(page))) == 1
        number = slide_with(page, CONTINUES)
        page.keyboard.press("Home")
        go_to(page, number)
        shown = page.locator("article").inner_text()
        page.wait_for_url(re.compile(rf"present={number}&at=[a-z-]+\.\d+$"))
        section = re.search(r"at=([a-z-]+)", page.url)[1]
        page.reload()
        page.wait_for_function(READY)
        assert place(page)[0] == number and page.locator("article").inner_text() == shown
        slides = place(page)[1]
        page.set_viewport_size({"width": 1024, "height": 768})
        page.wait_for_function(
            f"slides => ({READY})() && !document.querySelector('.present-place').textContent.endsWith(` ${{slides}}`)",
            arg=slides,
        )
        assert shown.splitlines()[0] in page.locator("article").inner_text()
        page.keyboard.press("Escape")
        page.wait_for_url(lambda url: "present" not in url and url.endswith(f"#{section}"))
        assert page.locator(".present-bar").count() == 0
        seen.clean()


def test_a_screen_reader_hears_the_slide(present):
    with present(CHAPTER) as seen:
        page = seen.page
        status = page.locator(".present-bar [role=status]")
        focused = "() => document.activeElement.textContent"
        number = slide_with(page, "#objectives > h2")
        assert page.evaluate(focused).startswith("Objectives")
        assert re.fullmatch(rf"Slide {number} / \d+", status.inner_text().strip())
        number = slide_with(page, CONTINUES)  # the section's heading, smaller, is not a second heading
        assert page.locator("article :is(h1, h2, h3):visible").count() == 0
        heard = page.evaluate(focused)
        page.keyboard.press("ArrowLeft")
        title = page.locator("article :is(h1, h2, h3):visible").last.inner_text()
        assert heard == f"{title} (continued)"
        page.get_by_role("button", name="Next").click()  # stays on the button, so that it can be pressed again
        assert page.evaluate(focused) == "Next"
        assert re.fullmatch(rf"Slide {number} / \d+\s+{re.escape(title)}", status.inner_text())


def test_what_lies_over_the_slides(present):
    with present(CHAPTER, dark=True) as seen:
        page = seen.page
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="Keys").locator("dt").count() and seen.axe() == []
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
        page.evaluate("() => { window.open = () => null }")  # as where pop-ups are blocked
        page.keyboard.press("s")
        assert "Allow pop-ups" in page.get_by_role("dialog").inner_text()


def test_notes_stand_beside_their_slides_with_a_clock(present):
    from playwright.sync_api import expect

    with present(CHAPTER, alone=True) as seen:
        page = seen.page
        panel = page.get_by_role("complementary", name="Speaker notes")
        assert not panel.is_visible() and not page.locator(".speaker-notes:visible").count()
        page.clock.install(time=0)
        page.keyboard.press("n")
        assert "No notes" in panel.inner_text()
        slide_with(page, ".present-note")
        note = page.locator(".speaker-notes").first
        section = note.evaluate("note => note.closest('section').id")
        assert page.locator(f"#{section} > h2").is_visible()  # at the end of a section: from its first slide on
        minutes = re.search(r"(\d+) minutes?", note.text_content())[1]
        assert f"planned for this part: {minutes} min" in panel.inner_text() and "Next: " in panel.inner_text()
        assert seen.axe() == []
        clock = panel.get_by_role("timer")
        page.clock.pause_at(3600)  # from here on time passes only when the test says so
        panel.get_by_role("button", name="Start").click()
        page.clock.run_for(65_000)
        expect(clock).to_have_text("01:05")
        panel.get_by_role("button", name="Pause").click()
        page.clock.run_for(10_000)
        assert clock.inner_text() == "01:05"
        panel.get_by_role("button", name="Reset").click()
        assert clock.inner_text() == "00:00"
        page.clock.resume()
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


def test_a_zoomed_figure_is_hit_where_it_is_pointed_at(present):
    with present(LAB) as seen:
        page = seen.page
        at = slide_with(page, "attention-explorer")
        figure = page.locator("attention-explorer:visible")
        chosen = "f => [...f.shadowRoot.querySelectorAll('.from div')].findIndex(d => d.ariaSelected === 'true')"
        shape = "({panes: [{geometry: g}], currentCSSZoom: zoom}) => [g.left, g.top, g.cw, g.ch, zoom]"
        for size in SIZES:
            page.set_viewport_size(size)
            page.evaluate(FRAMES)
            left, top, cell, row, zoom = figure.evaluate(shape)
            assert zoom not in (1, size["width"] / 1280)  # it is zoomed
            box = figure.locator(".pane canvas").bounding_box()
            for wanted in (3, 20):
                page.mouse.click(box["x"] + (left + 4.5 * cell) * zoom, box["y"] + (top + (wanted + 0.5) * row) * zoom)
                assert figure.evaluate(chosen) == wanted
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


@pytest.mark.parametrize("path", [CHAPTER, "pages/evidence.html", "pages/glossary.html"])
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
