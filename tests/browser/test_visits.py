"""A visit finds nothing of the visits before it, though they share a context of the browser."""

import pytest

STORE = """() => {
  localStorage.setItem("left", 1);
  sessionStorage.setItem("left", 1);
  document.cookie = "left=1";
  window.left = 1;
  addEventListener("pagehide", () => localStorage.setItem("late", 1));
}"""
LEFT = """() => [window.left, localStorage.left, localStorage.late, sessionStorage.left, document.cookie || undefined,
  matchMedia("print").matches || undefined, localStorage.mode]"""


@pytest.mark.parametrize("disk", [False, True])
def test_a_visit_leaves_nothing_behind(visit, tmp_path, disk):
    (tmp_path / "page.html").write_text("<p>first")
    with visit(tmp_path, "page.html", disk=disk) as seen:
        context = seen.page.context
        seen.page.evaluate(STORE)
        seen.page.emulate_media(media="print")
        seen.page.context.new_page()
    (tmp_path / "page.html").write_text("<p>other")
    with visit(tmp_path, "page.html", disk=disk, width=360) as seen:
        assert seen.page.context == context
        assert seen.page.evaluate(LEFT) == [None] * 6 + ["light"]
        assert seen.page.evaluate("innerWidth") == 360
        assert seen.page.inner_text("body") == "other"
        assert len(context.pages) == 2


def test_a_visit_that_fails_or_wants_to_be_alone_is_the_last_of_its_context(visit, tmp_path):
    (tmp_path / "page.html").write_text("<p>")
    contexts = set()
    with pytest.raises(AssertionError), visit(tmp_path, "page.html") as seen:
        contexts.add(seen.page.context)
        raise AssertionError
    with visit(tmp_path, "page.html", alone=True) as seen:
        contexts.add(seen.page.context)
    with visit(tmp_path, "page.html") as seen:
        contexts.add(seen.page.context)
    assert len(contexts) == 3


def test_a_visit_within_a_visit_has_its_own_context(visit, tmp_path):
    (tmp_path / "page.html").write_text("<p>")
    with visit(tmp_path, "page.html") as outer, visit(tmp_path, "page.html") as inner:
        assert outer.page.context != inner.page.context
