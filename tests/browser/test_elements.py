"""Every interactive element in a browser without network: it draws, answers mouse, touch and keys, is accessible."""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch

from utils.attention import AttentionMaps
from utils.figures import attention_explorer, curve_explorer, quiz_card

HOSTILE = ["[CLS]", "</script>", "<img src=x onerror=alert(1)>", "나는", "שלום", "&amp;", "it", "[SEP]"]


def maps(labels: list[str], layers: int = 3, heads: int = 4, seed: int = 0, **more) -> AttentionMaps:
    """Random weights; head 1 of every layer reads the token before."""
    n = len(labels)
    weights = torch.softmax(2 * torch.randn(layers, heads, n, n, generator=torch.Generator().manual_seed(seed)), dim=-1)
    weights[:, 1] = torch.diag(torch.ones(n - 1), -1)
    weights[:, 1, 0, 0] = 1
    ends = torch.tensor([True] + [False] * (n - 2) + [True])
    return AttentionMaps(weights, labels, labels, special_queries=ends, special_keys=ends, **more)


def explorer(**options):
    return attention_explorer(maps(HOSTILE), layer=1, head=1, row=3, title="A head reads the token before", **options)


def curve():
    rows = [
        {
            "layer": layer,
            "score": tie * (model == "trained") + layer / 10 + seed / 50,
            "model": model,
            "tie": tie,
            "kind": kind,
        }
        for layer in range(6)
        for seed in range(3)
        for model in ("trained", "random")
        for tie in (0.0, 0.5, 1.0)
        for kind in ("raw", "centred")
    ]
    choices = {"tie": "share of tied weights", "kind": "scores"}
    return curve_explorer(
        pd.DataFrame(rows),
        x="layer",
        y="score",
        by="model",
        sliders=choices,
        null=["random"],
        title="Ties",
        alt="Score by layer",
    )


def quiz():
    options = [
        ("W_{Q} alone", False, "Both take part."),
        ("the product", True, "Just so."),
        ("the softmax", False, "Later."),
    ]
    return quiz_card("What makes `scores` symmetric?", options)


READOUT = ".readout"
COLOURS = (
    "element => [...element.shadowRoot.querySelectorAll('.gridbox canvas, .pane canvas')].map(canvas => new Set("
    "new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size)"
)


@pytest.mark.parametrize(("width", "dark"), [(360, True), (768, False), (1280, True)])
def test_all_elements_draw_and_are_accessible(page, width, dark):
    figures = (explorer(), explorer(other=maps(HOSTILE, seed=1)), curve(), quiz())
    with page(*figures, width=width, dark=dark) as seen:
        for tag in ("attention-explorer", "curve-explorer", "quiz-card"):
            assert seen.page.locator(tag).first.evaluate("e => e.shadowRoot.querySelector('slot') === null")
        for element in seen.page.locator("attention-explorer").all():
            assert min(element.evaluate(COLOURS)) > 10, "a canvas is empty"
        for summary in seen.page.locator("attention-explorer").first.locator("summary").all():
            summary.click()
        seen.page.locator("attention-explorer").first.locator(".to [role=listitem]").nth(2).hover()
        overflow = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"the page scrolls sideways by {overflow} px"
        assert seen.axe() == []
        seen.clean()


def test_controls_are_tall_enough_to_tap(page):
    with page(explorer(), curve(), quiz(), width=360) as seen:
        controls = seen.page.locator("summary:visible, button:visible").all()
        heights = {control.inner_text(): control.bounding_box()["height"] for control in controls}
        assert heights and min(heights.values()) >= 24, f"below 24 px: {heights}"  # WCAG 2.2, criterion 2.5.8


def test_mouse_changes_what_is_read(page):
    with page(explorer(), curve(), quiz()) as seen:
        figure = seen.page.locator("attention-explorer")
        assert "나는" in figure.locator(READOUT).inner_text()
        figure.get_by_role("gridcell", name="layer 2, head 3").click()
        assert figure.locator(".which").inner_text().startswith("Layer 2, head 3")
        figure.get_by_role("option", name="שלום").hover()
        assert figure.locator(READOUT).inner_text().startswith("שלום (5 of 8)")
        figure.locator(".pane canvas").hover(position={"x": 30, "y": 180})
        assert "→" in figure.locator(READOUT).inner_text()
        seen.page.mouse.move(2, 2)
        assert figure.locator(READOUT).inner_text().startswith("나는 (4 of 8)")

        plot = seen.page.locator("curve-explorer")
        before = plot.locator(READOUT).inner_text()
        plot.locator(".plot svg").hover(position={"x": 80, "y": 150})
        assert plot.locator(READOUT).inner_text() != before
        before = plot.locator(READOUT).inner_text()
        plot.get_by_role("radio", name="centred").click()
        plot.get_by_role("slider", name="share of tied weights").fill("2")
        assert plot.locator(READOUT).inner_text() != before

        card = seen.page.locator("quiz-card")
        assert card.get_by_role("button").is_disabled()
        card.get_by_role("radio", name="the softmax").check()
        card.get_by_role("button").click()
        assert "Not this one. Later." in card.get_by_role("status").inner_text()
        seen.clean()


def test_keyboard_reaches_every_value(page):
    with page(explorer(), curve(), quiz()) as seen:
        press = seen.page.keyboard.press
        figure = seen.page.locator("attention-explorer")
        press("Tab")
        press("ArrowRight")
        press("ArrowDown")
        press("Enter")
        assert figure.locator(".which").inner_text().startswith("Layer 2, head 2")
        press("Tab")
        assert (
            seen.page.evaluate("document.activeElement.shadowRoot.activeElement.getAttribute('role')") == "application"
        )
        press("ArrowDown")
        press("Home")
        for _ in range(2):
            press("ArrowRight")
        cell = figure.locator(".cell").inner_text()
        assert cell.startswith("שלום → <img src=x onerror=alert(1)> ")
        exact = float(maps(HOSTILE).weights[2, 2, 4, 2])
        assert float(cell.split()[-1]) == pytest.approx(exact, abs=0.005)
        press("Tab")
        press("ArrowDown")
        assert figure.locator(READOUT).inner_text().split(" → ")[-1].count("&amp;")
        assert seen.page.evaluate("document.activeElement.shadowRoot.activeElement.textContent") == "&amp;"
        press("Tab")
        press("Enter")
        figure.get_by_role("radio", name="dropped").focus()
        press("Space")
        assert (
            "[CLS]" not in figure.locator(".from").inner_text()
            and "dropped here" in figure.locator(".card").inner_text()
        )
        figure.locator("summary", has_text="All numbers").focus()
        press("Enter")
        figure.locator(".numbers tbody tr").first.wait_for()
        assert figure.locator(".numbers tbody tr").count() == 6

        plot = seen.page.locator("curve-explorer")
        plot.get_by_role("slider", name="layer").focus()
        press("Home")
        first = plot.locator(READOUT).inner_text()
        press("ArrowRight")
        assert first.startswith("layer = 0:") and plot.locator(READOUT).inner_text().startswith("layer = 1:")

        card = seen.page.locator("quiz-card")
        card.get_by_role("radio").first.focus()
        press("Space")
        press("Enter")
        assert card.locator(".feedback:not([hidden])").count() == 1
        seen.clean()


def test_touch_changes_what_is_read(page):
    with page(explorer(), curve(), quiz(), width=360, has_touch=True, is_mobile=True) as seen:
        figure = seen.page.locator("attention-explorer")
        figure.get_by_role("gridcell", name="layer 0, head 2").tap()
        assert figure.locator(".which").inner_text().startswith("Layer 0, head 2")
        figure.get_by_role("option", name="it").tap()
        assert figure.locator(READOUT).inner_text().startswith("it (7 of 8)")
        box = figure.locator(".pane canvas").bounding_box()
        figure.locator(".pane canvas").tap(position={"x": box["width"] - 20, "y": box["height"] - 20})
        assert figure.locator(".cell").inner_text().startswith("[SEP] → [SEP]")
        plot = seen.page.locator("curve-explorer")
        before = plot.locator(READOUT).inner_text()
        plot.locator(".plot svg").tap(position={"x": 60, "y": 100})
        assert plot.locator(READOUT).inner_text() != before
        card = seen.page.locator("quiz-card")
        card.locator("label", has_text="the product").tap()
        card.get_by_role("button").tap()
        assert "Right. Just so." in card.get_by_role("status").inner_text()
        seen.clean()


BOXES = """element => {
  const names = element.shadowRoot.querySelectorAll('.name'), svg = element.shadowRoot.querySelector('.plot svg');
  const box = ({ left, right, top, bottom }) => [left, top, right, bottom];
  const boxes = (nodes) => [...nodes].map((node) => box(node.getBoundingClientRect()));
  return { names: boxes(names), digits: boxes(svg.querySelectorAll('text:not(.name)')),
    svg: box(svg.getBoundingClientRect()), legend: [...element.shadowRoot.querySelectorAll('.legend .item')].map((i) =>
      [i.textContent.trim(), getComputedStyle(i).color, i.querySelector('line').getAttribute('stroke-dasharray')]) };
}"""


def lines(count: int, gap: float):
    """Lines that end ``gap`` apart, for two choices: in the second they lie in reverse order."""
    rows = [
        {"x": x, "y": sign * line * gap * (1 + x / 9), "by": f"line {line} with a name", "kind": kind}
        for line in range(count)
        for x in range(10)
        for kind, sign in (("up", 1), ("down", -1))
    ]
    words = {"x_label": "a long name of what is below, in its unit, over all choices", "alt": "Lines"}
    return curve_explorer(
        pd.DataFrame(rows), x="x", y="y", by="by", sliders=["kind"], null=["line 1 with a name"], **words
    )


@pytest.mark.parametrize(("width", "dark"), [(360, False), (390, True), (768, False), (1280, True)])
def test_names_of_lines_touch_nothing(page, width, dark):
    figures = [lines(2, 1.0), lines(5, 1.0), lines(9, 0.1), lines(12, 1e-6), curve()]
    with page(*figures, width=width, dark=dark) as seen:
        for count, element in zip((2, 5, 9, 12, 2), seen.page.locator("curve-explorer").all(), strict=True):
            for choice in element.get_by_role("radio").all():
                choice.check()
                found = element.evaluate(BOXES)
                texts = found["names"] + found["digits"]
                left, top, right, bottom = found["svg"]
                assert all(b[0] > left - 1 and b[1] > top - 1 and b[2] < right + 1 and b[3] < bottom + 1 for b in texts)
                touching = [
                    (a, b)
                    for i, a in enumerate(found["names"])
                    for b in [*found["names"][i + 1 :], *found["digits"]]
                    if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1
                ]
                assert touching == []
                assert {len(found["names"]), len(found["legend"])} == {0, count}, "all names stand in one place"
                assert len({(colour, dash) for _, colour, dash in found["legend"]}) == len(found["legend"])
            legend = element.locator(".legend")
            assert legend.evaluate("e => e.scrollWidth <= e.clientWidth")
        seen.clean()


def test_names_stand_at_the_lines_where_there_is_room_and_in_a_legend_where_there_is_none(page):
    with page(lines(3, 1.0), lines(12, 1e-6)) as seen:
        few, many = seen.page.locator("curve-explorer").all()
        assert few.locator(".name").count() == 3 and few.locator(".legend .item").count() == 0
        assert many.locator(".name").count() == 0 and many.locator(".legend .item").count() == 12


def test_words_and_dropped_tokens_equal_the_maps_of_python(page):
    pieces = ["[CLS]", "un", "believ", "able", "cat", "s", "[SEP]"]
    numbers = [None, 0, 0, 0, 1, 1, None]
    source = maps(
        pieces,
        query_words=numbers,
        key_words=numbers,
        query_word_labels=["unbelievable", "cats"],
        key_word_labels=["unbelievable", "cats"],
    )
    expected = source.without_special().words()
    with page(attention_explorer(source, words=True, special=False)) as seen:
        figure = seen.page.locator("attention-explorer")
        view = figure.evaluate("e => Array.from(e.views[0])")
        assert figure.locator(".from").inner_text().split() == expected.queries == ["unbelievable", "cats"]
        assert np.abs(np.array(view).reshape(expected.weights.shape) - expected.weights.numpy()).max() < 0.005
        seen.clean()


def test_missing_cells_are_drawn_as_missing(page):
    source = maps(HOSTILE)
    source.weights[0, 0, 3, 2] = torch.nan
    with page(attention_explorer(source, row=3)) as seen:
        figure = seen.page.locator("attention-explorer")
        assert "1 missing" in figure.locator(READOUT).inner_text()
        assert "grey: missing" in figure.locator(".scale").inner_text()
        seen.clean()


def test_colours_follow_the_theme_while_the_page_is_open(page):
    with page(explorer(), curve()) as seen:
        figure = seen.page.locator("attention-explorer")
        light = figure.evaluate("e => e.colours.amount")
        seen.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        seen.page.wait_for_timeout(100)
        assert figure.evaluate("e => e.colours.amount") != light
        assert seen.page.locator("curve-explorer").evaluate("e => e.colours.back") == "rgb(20, 24, 30)"
        seen.clean()


def test_without_scripts_a_picture_and_a_table_are_left(page):
    with page(explorer(), curve(), quiz(), java_script_enabled=False) as seen:
        for tag in ("attention-explorer", "curve-explorer"):
            assert seen.page.locator(f"{tag} img").bounding_box()["height"] > 100
            assert seen.page.locator(f"{tag} table").is_visible()
        assert seen.page.locator("quiz-card details").count() == 3
        seen.clean()


def test_twenty_on_a_page_do_not_disturb_each_other(page):
    with page(*(explorer() for _ in range(20))) as seen:
        figures = seen.page.locator("attention-explorer")
        figures.nth(7).get_by_role("gridcell", name="layer 0, head 3").click()
        assert figures.nth(7).locator(".which").inner_text().startswith("Layer 0, head 3")
        assert figures.nth(8).locator(".which").inner_text().startswith("Layer 1, head 1")
        assert min(figures.nth(19).evaluate(COLOURS)) > 10
        seen.clean()


def test_a_figure_that_begins_hidden_draws_when_it_is_shown(page):
    with page(explorer(), curve()) as seen:
        seen.page.evaluate("document.querySelector('main').style.display = 'none'")
        seen.page.evaluate("document.querySelector('main').replaceWith(document.querySelector('main').cloneNode(true))")
        figure = seen.page.locator("attention-explorer")
        assert figure.evaluate("e => e.drawTime") is None
        seen.page.evaluate("document.querySelector('main').style.display = ''")
        seen.page.wait_for_function("document.querySelector('attention-explorer').drawTime > 0")
        assert min(figure.evaluate(COLOURS)) > 10
        assert seen.page.locator("curve-explorer .plot .curve").count() == 2
        seen.clean()


BUILT = "element => element.shadowRoot.querySelector('.figure') !== null"
FAR = '<div style="height: 3000px">Far above.</div>'


@pytest.fixture
def far(page):
    """far(…) opens a page with a figure 3,000 px below its top, and a heading below that."""
    after = f'<h2 id="end">After the figure</h2>{FAR}'
    return lambda **options: page(explorer(), near=True, before=FAR, after=after, **options)


def test_a_figure_is_built_when_it_comes_within_a_screen(far):
    with far() as seen:
        figure = seen.page.locator("attention-explorer")
        assert not figure.evaluate(BUILT)
        assert figure.locator("img").bounding_box()["height"] > 100 and figure.locator("table").is_visible()
        assert seen.axe() == []
        seen.page.mouse.wheel(0, 800)
        seen.page.wait_for_timeout(200)
        assert not figure.evaluate(BUILT)
        seen.page.mouse.wheel(0, 500)
        figure.locator(".figure").wait_for()
        assert figure.bounding_box()["y"] > 900, "it is not seen yet"
        assert min(figure.evaluate(COLOURS)) > 10
        seen.clean()


def test_what_is_read_below_a_figure_does_not_move(far):
    with far(anchor="#end") as seen:
        seen.page.locator("attention-explorer .figure").wait_for()
        seen.page.wait_for_timeout(300)
        assert abs(seen.page.locator("#end").bounding_box()["y"]) < 40


def test_printing_builds_what_is_far(far):
    with far() as seen:
        seen.page.pdf()
        figure = seen.page.locator("attention-explorer")
        assert figure.evaluate(BUILT) and min(figure.evaluate(COLOURS)) > 10
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert figure.evaluate("e => e.colours.back") == "#ffffff"
        seen.clean()


def test_without_an_observer_everything_is_built_at_once(far):
    with far() as seen:
        seen.page.add_init_script("delete window.IntersectionObserver")
        seen.page.reload()
        assert seen.page.locator("attention-explorer").evaluate(BUILT)
        seen.clean()


def test_a_figure_in_closed_details_is_built_when_they_open(page):
    with page(explorer(), near=True, before="<details><summary>More</summary>", after="</details>") as seen:
        figure = seen.page.locator("attention-explorer")
        assert not figure.evaluate(BUILT)
        seen.page.get_by_text("More", exact=True).click()
        figure.locator(".figure").wait_for()
        assert min(figure.evaluate(COLOURS)) > 10
        seen.clean()


def test_a_figure_that_moves_in_the_page_goes_on(page):
    with page(curve()) as seen:
        seen.page.evaluate("document.body.append(document.querySelector('curve-explorer'))")
        plot = seen.page.locator("curve-explorer")
        before = plot.evaluate("e => e.colours.back")
        plot.locator(".plot svg").hover(position={"x": 80, "y": 150})
        seen.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        seen.page.wait_for_timeout(100)
        assert plot.evaluate("e => e.colours.back") != before
        seen.clean()


def test_a_figure_that_cannot_be_read_keeps_its_fallback(page):
    broken = curve().html().replace('"segments":[', '"segments":{', 1)
    with page(near=True, before=broken) as seen:
        seen.page.wait_for_timeout(200)
        figure = seen.page.locator("curve-explorer")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert figure.locator("table").is_visible() and not figure.evaluate(BUILT)
        assert len(seen.errors) == 1 and "JSON" in seen.errors[0], seen.errors


def test_a_printed_figure_is_a_picture_on_white(page):
    with page(explorer(), dark=True) as seen:
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert seen.page.locator("attention-explorer").evaluate("e => e.colours.back") == "#ffffff"
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.page.locator("attention-explorer").evaluate("e => e.colours.back") == "rgb(20, 24, 30)"


def test_72_heads_of_128_tokens_meet_the_budget(page, tmp_path, visit, capsys):
    tokens = ["[CLS]", *(f"token{i}" for i in range(126)), "[SEP]"]
    source = maps(tokens, layers=6, heads=12)
    figure = attention_explorer(source)
    size = len(figure.html().encode())
    with page(figure) as seen:
        element = seen.page.locator("attention-explorer")
        spent = element.evaluate("e => e.buildTime + e.drawTime")
        nodes = element.evaluate("e => e.shadowRoot.querySelectorAll('*').length + e.querySelectorAll('*').length")
        choose = "e => { const t = performance.now(); e.choose(3, 4); return performance.now() - t }"
        redraw = element.evaluate(choose)
        seen.clean()
    drawn = f"drawn in {spent / 1e3:.2f} s, {nodes} nodes, another head in {redraw:.0f} ms"
    lines = [f"attention-explorer, 72 heads × 128 tokens: {size / 1e6:.2f} MB, {drawn}"]
    lines += bertviz(source, tmp_path, visit)
    with capsys.disabled():
        print("", *lines, sep="\n  ")
    assert size <= 2_000_000
    assert spent <= 2_000
    assert nodes <= 1_500


def bertviz(source: AttentionMaps, tmp_path, visit) -> list[str]:
    """The same weights in BertViz, in the same browser with other hosts blocked; empty if it is not installed."""
    if find_spec("bertviz") is None:
        return []
    from bertviz import head_view, model_view

    attention = tuple(layer[None] for layer in source.weights)
    lines = []
    for view in (head_view, model_view):
        html = view(attention, source.queries, html_action="return").data
        (tmp_path / "other.html").write_text(f"<!doctype html><meta charset=utf-8><body>{html}", "utf8")
        began = time.monotonic()
        with visit(tmp_path, "other.html") as seen:
            drawn = seen.page.locator("svg *").count()
            spent = time.monotonic() - began
            hosts = sorted({url.split("/")[2] for url in seen.external})
        what = (
            f"drawn in {spent:.1f} s, {drawn} nodes"
            if drawn
            else f"blank after {spent:.1f} s (asks {', '.join(hosts)})"
        )
        lines.append(f"bertviz {view.__name__}, the same weights: {len(html.encode()) / 1e6:.1f} MB, {what}")
    return lines
