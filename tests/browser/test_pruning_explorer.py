"""The pruning-explorer in a browser: grid, curve and sentence tell of the same step, by mouse, keyboard and touch."""

from __future__ import annotations

import re

import numpy as np
import pytest

from utils.pruning_explorer import PruningPath, pruning_explorer

TAG = "pruning-explorer"
KEPT = [48, 36, 24, 12, 0]
ROLES = np.array([["previous token", "syntactic", "sink", "rare"] + ["unlabelled"] * 4] * 6, dtype=object)


def nested(kept: list[int], seed: int = 0, shape: tuple[int, int] = (6, 8)) -> np.ndarray:
    order = np.random.default_rng(seed).permutation(shape[0] * shape[1])
    masks = np.zeros((len(kept), order.size), dtype=bool)
    for step, count in enumerate(kept):
        masks[step, order[:count]] = True
    return masks.reshape(len(kept), *shape)


MASKS = nested(KEPT)
SOLO = {"kept": [48, 33, 10, 6], "value": [34.5, 33.6, 30.9, 28.8]}


def paths() -> list[PruningPath]:
    more = {"parameters": [1_000_000, 900_000, 800_000, 700_000, 600_000], "latency (ms)": [12.5, 11, 9, 7, 5]}
    return [
        PruningPath("importance", KEPT, [35, 34, 32, 22, 7], MASKS, more=more),
        PruningPath("</script> gates", masks=nested(SOLO["kept"], 1), **SOLO),
        PruningPath("random", KEPT, [35, 30, 22, 15, 7], None, [35, 28, 20, 13, 7], [35, 32, 24, 17, 7], null=True),
    ]


@pytest.fixture
def shown(page):
    """shown(width=…, dark=…) opens a page that holds the figure."""
    words = {"metric": "BLEU", "title": "Half of the heads", "alt": "Curves and a grid", "spread": "5 orders"}
    figure = pruning_explorer(paths(), higher_is_better=True, kept=24, roles=ROLES, **words)
    return lambda **options: page(figure, **options)


def sentence(seen) -> str:
    return re.sub(r"\s+", " ", seen.page.locator(f"{TAG} .readout").inner_text())


def squares(seen) -> list[bool]:
    """Which heads of the grid are lit, row by row, as they are drawn."""
    return seen.page.locator(TAG).evaluate(
        "e => [...e.shadowRoot.querySelectorAll('.grid .on, .grid .off')].map(r => r.classList.contains('on'))"
    )


def ring(seen) -> tuple[float, float]:
    """The marked point in heads and BLEU, read from the ticks of the axes."""
    return seen.page.locator(TAG).evaluate(
        """e => {
        const root = e.shadowRoot, number = (t, name) => +t.getAttribute(name), ring = root.querySelector('.ring');
        const ticks = [...root.querySelectorAll('.plot text')].filter(t => /^[\\d.]+$/.test(t.textContent));
        const back = (anchor, axis, at) => {
          const [a, b] = ticks.filter(t => t.getAttribute('text-anchor') === anchor).slice(0, 2);
          const share = (at - number(a, axis)) / (number(b, axis) - number(a, axis));
          return +a.textContent + share * (b.textContent - a.textContent);
        };
        const em = parseFloat(getComputedStyle(root.querySelector('.plot')).fontSize);
        return [back('middle', 'x', number(ring, 'cx')), back('end', 'y', number(ring, 'cy') + em * 0.34)];
        }"""
    )


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(shown, width, dark):
    with shown(width=width, dark=dark) as seen:
        assert squares(seen) == MASKS[2].ravel().tolist()
        box = seen.page.locator(f"{TAG} .plot").bounding_box()
        assert box["width"] > 250 and box["x"] + box["width"] <= width
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.axe() == []
        seen.clean()


def test_a_head_that_is_out_differs_in_form_from_one_that_is_kept(shown):
    with shown() as seen:
        crosses, marks = (seen.page.locator(f"{TAG} .grid .{kind}").count() for kind in ("cross", "mark"))
        assert crosses == 24
        assert marks == int((MASKS[2] & (ROLES != "unlabelled")).sum())
        fill = seen.page.locator(f"{TAG} .grid .off").first.evaluate("r => getComputedStyle(r).fill")
        assert fill == "none"


def test_grid_curve_and_sentence_agree_at_every_step(shown):
    with shown() as seen:
        slider = seen.page.get_by_role("slider")
        for step, (kept, value) in enumerate(zip(KEPT, paths()[0].value, strict=True)):
            slider.fill(str(step))
            assert slider.get_attribute("aria-valuetext") == f"{kept} of 48 heads kept"
            assert squares(seen) == MASKS[step].ravel().tolist()
            assert ring(seen) == pytest.approx((kept, value), abs=0.3)
            text = sentence(seen)
            assert f"importance: {kept or 'none'} of 48 heads are left" in text and f"BLEU {value:.1f}" in text
            for name in ("syntactic", "sink", "unlabelled"):
                left = int((MASKS[step] & (name == ROLES)).sum())
                assert (f"{left} {name}" in text) == (left > 0)
                whole = int((name == ROLES).sum())
                legend = seen.page.locator(f"{TAG} .legend").inner_text()
                assert f"{name} {left} of {whole}" in legend
        seen.clean()


def test_the_sentence_compares_with_the_whole_model_and_with_chance(shown):
    with shown() as seen:
        assert "BLEU 32.0, 3.0 below the whole model’s 35.0 (91 % of it)." in sentence(seen)
        assert "Random with as many heads: 22.0 (20.0 to 24.0)." in sentence(seen)
        more = re.sub(r"\s+", " ", seen.page.locator(f"{TAG} .more").inner_text())
        assert "parameters 800,000 (80 % of the whole)" in more and "latency (ms) 9 (72 % of the whole)" in more
        seen.page.get_by_role("radio").nth(1).check()
        assert sentence(seen).startswith("</script> gates: 33 of 48 heads") and "33.6, 1.4 below" in sentence(seen)
        assert "Random with as many heads: about 28.0." in sentence(seen)
        assert seen.page.locator(f"{TAG} .more").inner_text() == ""
        seen.page.get_by_role("slider").fill("0")
        seen.page.get_by_role("radio").nth(0).check()
        assert "BLEU 35.0, as much as the whole model." in sentence(seen)
        seen.clean()


def test_keys_mouse_and_touch_move_along_the_curve(shown):
    with shown(has_touch=True) as seen:
        slider, plot = seen.page.get_by_role("slider"), seen.page.locator(f"{TAG} .plot")
        slider.focus()
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "12 of 48 heads kept"
        slider.press("Home")
        assert sum(squares(seen)) == 48
        box = plot.bounding_box()
        plot.click(position={"x": box["width"] * 0.98, "y": 60})
        assert sum(squares(seen)) == 0 and slider.input_value() == "4"
        plot.tap(position={"x": box["width"] * 0.55, "y": 90})
        assert sum(squares(seen)) == 24
        seen.page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60)  # not pressed
        assert sum(squares(seen)) == 24
        seen.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
        seen.page.mouse.down()
        seen.page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + 60)
        seen.page.mouse.up()
        assert sum(squares(seen)) == 36
        ring_at = seen.page.locator(f"{TAG} .ring").bounding_box()["x"] - box["x"]
        assert ring_at == pytest.approx(box["width"] * 0.35, abs=0.1 * box["width"])
        seen.page.get_by_role("radio").nth(0).focus()
        seen.page.keyboard.press("ArrowDown")
        assert sentence(seen).startswith("</script> gates: 33 of 48")
        seen.clean()


def test_one_line_stands_out_and_null_models_cannot_be_followed(shown):
    with shown() as seen:
        assert seen.page.get_by_role("radio").count() == 2 and seen.page.locator(f"{TAG} .entry").count() == 3
        assert seen.page.locator(f"{TAG} .line").count() == 3
        classes = seen.page.locator(f"{TAG} .line").evaluate_all("lines => lines.map(g => g.getAttribute('class'))")
        assert classes == ["line", "line", "line chosen"]  # the chosen one is drawn last
        strokes = seen.page.locator(f"{TAG} .line .curve").evaluate_all("c => c.map(p => getComputedStyle(p).stroke)")
        assert len(set(strokes[:2])) == 1 and strokes[2] != strokes[0]
        assert seen.page.locator(f"{TAG} .line .band").count() == 1


def test_a_single_step_of_a_single_path_needs_no_control(page):
    masks = np.ones((1, 1, 1), dtype=bool)
    one = PruningPath("whole", [1], [0.25], masks)
    words = {"metric": "loss (nats)", "alt": "One head"}
    figures = [pruning_explorer([one], higher_is_better=False, kept=1, **words)]
    flat = PruningPath("flat", [4, 2], [-1.5, -1.5], np.array([[[1, 1], [1, 1]], [[1, 0], [1, 0]]]))
    figures += [pruning_explorer([flat], higher_is_better=False, kept=2, rows=["a", "<b>"], **words)]
    with page(*figures, width=360) as seen:
        assert seen.page.get_by_role("radio").count() == 0 and seen.page.get_by_role("slider").count() == 1
        texts = [re.sub(r"\s+", " ", t) for t in seen.page.locator(f"{TAG} .readout").all_inner_texts()]
        assert texts[0] == "whole: 1 of 1 heads is left. loss (nats) 0.250, as much as the whole model."
        assert texts[1] == "flat: 2 of 4 heads are left. loss (nats) −1.50, as much as the whole model."
        seen.clean()


def test_attention_types_have_a_grid_each(page):
    kept = [96, 50, 7]
    masks = nested(kept, shape=(12, 8))
    figure = pruning_explorer(
        [PruningPath("importance", kept, [1.6, 2.5, 9.0], masks)],
        metric="loss",
        higher_is_better=False,
        kept=50,
        groups={"encoder": 6, "decoder": 3, "cross": 3},
        alt="Three grids",
    )
    with page(figure, width=360) as seen:
        assert squares(seen) == masks[1].ravel().tolist()
        captions = seen.page.locator(f"{TAG} figcaption").all_inner_texts()
        parts = {"encoder": masks[1, :6], "decoder": masks[1, 6:9], "cross": masks[1, 9:]}
        assert captions == [f"{name} {part.sum()} of {part.size}" for name, part in parts.items()]
        assert "loss 2.50, 0.90 above the whole model’s 1.60." in sentence(seen)
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_labels_of_rows_neither_touch_nor_leave_the_figure(page):
    kept, words = [384, 100], {"metric": "BLEU", "higher_is_better": True, "kept": 100, "alt": "A large grid"}
    large = PruningPath("importance", kept, [30, 3], nested(kept, shape=(24, 16)))
    long = PruningPath("importance", [4, 2], [30, 3], nested([4, 2], shape=(2, 2)))
    names = ["layer 0 of the encoder of a translator", "1"]
    with page(pruning_explorer([large], **words), width=360) as seen:
        boxes = [label.bounding_box() for label in seen.page.locator(f"{TAG} .label").all()]
        assert len(boxes) >= 8 and all(
            a["y"] + a["height"] <= b["y"] + 3 for a, b in zip(boxes, boxes[1:], strict=False)
        )
    with page(pruning_explorer([long], **(words | {"kept": 2}), rows=names), width=360) as seen:
        label = seen.page.locator(f"{TAG} .label").first
        assert label.bounding_box()["x"] >= 0 and label.text_content().endswith("…")
        seen.clean()


def test_without_scripts_the_fallback_is_shown(shown):
    with shown(java_script_enabled=False) as seen:
        assert seen.page.locator(f"{TAG} table").is_visible() and seen.page.locator(f"{TAG} img").is_visible()
        assert seen.page.get_by_role("row").count() == 6
