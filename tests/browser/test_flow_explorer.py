"""The flow-explorer in a browser without network: it draws, answers mouse, touch and keys, is accessible."""

from __future__ import annotations

import numpy as np
import pytest

from utils.figures import FlowView, flow_explorer, rollout_view

TOKENS = ["[CLS]", "</script>", "<img src=x onerror=alert(1)>", "나는", "key", *"abcdefghijklmnopqr", "[SEP]"]
N, LAYERS = len(TOKENS), 6


def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    maps = generator.dirichlet(np.full(N, 0.3), size=(LAYERS, N))
    return generator.random((LAYERS + 1, N, N)), generator.random((LAYERS + 1, N, N)), maps


def flow(**options):
    forward, backward, maps = numbers()
    views = {"measured": FlowView(forward, backward, "changes", "is changed by", "relative change")}
    views["rollout"] = rollout_view(maps, 0.7, "is mixed into", "is mixed from")
    special = [True] + [False] * (N - 2) + [True]
    return flow_explorer(TOKENS, views, maps, special=special, title="Where it goes", token=4, alt="Flow", **options)


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(page, width, dark):
    with page(flow(), flow(side="to"), width=width, dark=dark) as seen:
        figure = seen.page.locator("flow-explorer").first
        assert figure.locator(".node").count() == N * (LAYERS + 1)
        assert figure.locator(".edge").count() > 50
        figure.locator("summary").click()
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_mouse_follows_another_token_and_reads_a_place(page):
    forward, backward, _ = numbers()
    with page(flow()) as seen:
        figure = seen.page.locator("flow-explorer")
        readout = figure.locator(".readout")
        assert readout.inner_text().startswith("key (5 of 24), changes: itself ")
        figure.locator(".side.from [role=option]", has_text="나는").click()
        assert readout.inner_text().startswith("나는 (4 of 24), changes")
        figure.locator(".side.to [role=option]").nth(6).click()
        assert readout.inner_text().startswith("b (7 of 24), is changed by")
        box = figure.locator("svg").bounding_box()
        step = (box["width"] - 24) / LAYERS
        seen.page.mouse.move(box["x"] + 12 + 2 * step, box["y"] + 24 * 3 + 12)
        assert readout.inner_text() == f"b (7 of 24): 나는 after layer 1: {backward[2, 6, 3]:.2f}"
        seen.page.mouse.click(box["x"] + 12, box["y"] + 24 * 9 + 12)
        assert readout.inner_text().startswith("e (10 of 24), changes")
        figure.get_by_role("radio", name="rollout").check()
        assert readout.inner_text().startswith("e (10 of 24), is mixed into")
        figure.locator("summary").click()
        figure.get_by_role("radio", name="measured").check()
        cells = figure.locator(".numbers tbody tr").nth(3).locator("td").all_inner_texts()
        assert [float(cell) for cell in cells] == pytest.approx(forward[:, 3, 9].tolist(), abs=0.006)
        seen.clean()


def test_keyboard_reaches_every_token_on_both_sides(page):
    with page(flow()) as seen:
        press = seen.page.keyboard.press
        figure = seen.page.locator("flow-explorer")
        readout = figure.locator(".readout")
        figure.locator(".side.from [aria-selected=true]").focus()
        press("ArrowDown")
        assert readout.inner_text().startswith("a (6 of 24), changes")
        press("ArrowRight")
        assert readout.inner_text().startswith("a (6 of 24), is changed by")
        press("End")
        press("ArrowUp")
        assert readout.inner_text().startswith("r (23 of 24), is changed by")
        press("ArrowLeft")
        press("Home")
        press("PageDown")
        assert readout.inner_text().startswith("a (6 of 24), changes")
        assert figure.locator("[aria-selected=true]").count() == 1
        seen.clean()


def test_touch_follows_another_token(page):
    with page(flow(), width=360, has_touch=True, is_mobile=True) as seen:
        figure = seen.page.locator("flow-explorer")
        figure.locator(".side.to [role=option]").nth(2).tap()
        assert (
            figure.locator(".readout").inner_text().startswith("<img src=x onerror=alert(1)> (3 of 24), is changed by")
        )
        heights = [box.bounding_box()["height"] for box in figure.locator("[role=option], summary").all()]
        assert min(heights) >= 24
        seen.clean()


def test_without_scripts_a_picture_and_a_table_are_left(page):
    with page(flow(), java_script_enabled=False) as seen:
        assert seen.page.locator("flow-explorer img").bounding_box()["height"] > 100
        assert seen.page.locator("flow-explorer table").is_visible()
        seen.clean()
