from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from utils import plots

GROUPS = {
    "projections": ["query", "key", "value", "output"],
    "roles": ["positional", "syntactic", "sink", "rare", "unlabelled"],
    "attention types": ["encoder", "decoder", "cross"],
}
# Machado, Oliveira and Fernandes 2009, severity 1.0: linear RGB as seen with each deficiency.
DEFICIENCIES = {
    "none": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


@pytest.fixture(autouse=True)
def style():
    plots.use_style()
    yield
    plt.close("all")


def linear_rgb(hexadecimal: str) -> np.ndarray:
    value = np.array([int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def luminance(hexadecimal: str) -> float:
    return float(linear_rgb(hexadecimal) @ [0.2126, 0.7152, 0.0722])


def contrast(first: str, second: str) -> float:
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: np.ndarray) -> np.ndarray:
    to_cone = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6299]]
    to_lab = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(to_lab) @ np.cbrt(np.array(to_cone) @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", sorted(set(plots.PALETTE) - {"background"}))
def test_every_colour_can_be_read_as_text(name, theme):
    assert contrast(plots.colour(name, theme), plots.colour("background", theme)) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("group", GROUPS)
def test_colours_of_a_group_are_distinct_to_colour_blind_readers(group, deficiency, theme):
    seen = {name: oklab(DEFICIENCIES[deficiency] @ linear_rgb(plots.colour(name, theme))) for name in GROUPS[group]}
    distances = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(seen, 2)}
    assert min(distances.values()) > 0.08, sorted(distances.items(), key=lambda item: item[1])[:3]


@pytest.mark.parametrize("scale", [plots.amounts, plots.differences])
def test_zero_is_the_background(scale):
    zero = scale()(0.5 if scale is plots.differences else 0.0)
    assert zero[:3] == pytest.approx((1, 1, 1), abs=0.01)


def test_the_amount_scale_darkens_steadily():
    steps = [
        oklab(linear_rgb("#" + "".join(f"{round(c * 255):02x}" for c in plots.amounts()(x)[:3])))[0]
        for x in np.linspace(0, 1, 9)
    ]
    drops = -np.diff(steps)
    assert (drops > 0).all() and drops.max() < 2.5 * drops.min()


def test_the_style_uses_the_palette():
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert cycle == [plots.colour(name) for name in ("query", "key", "value", "output", "null")]
    assert plt.rcParams["text.color"] == plots.colour("text")[1:] or plt.rcParams["text.color"] == plots.colour("text")


def test_a_heat_map_names_its_axes_and_has_a_scale():
    axes = plots.heatmap(np.eye(3), list("abc"), list("abc"), title="identity")
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("query (reads)", "key (is read)")
    assert len(axes.figure.axes) == 2
    assert [label.get_text() for label in axes.get_yticklabels()] == list("abc")


def test_a_heat_map_refuses_what_is_not_a_matrix():
    with pytest.raises(ValueError, match=r"shape \(2, 3, 3\)"):
        plots.heatmap(np.zeros((2, 3, 3)))
    with pytest.raises(ValueError, match="layers, heads"):
        plots.head_grid(np.zeros(12))


def test_strips_draw_every_value_and_grey_the_null():
    axes = plots.strips({"trained": [0.1, 0.2], "random": [0.0, 0.0, 0.1]}, x="score", null=["random"])
    dots = axes.collections
    assert [len(d.get_offsets()) for d in dots] == [2, 3]
    assert np.allclose(
        dots[1].get_facecolor()[0][:3], [int(plots.colour("null")[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    )


def test_layers_show_the_range_of_repeats():
    axes = plots.layers({"one": np.array([1.0, 2.0]), "many": np.array([[1.0, 2.0], [3.0, 4.0]])}, y="value")
    assert len(axes.lines) == 2 and len(axes.collections) == 1


def test_arrows_of_flow_run_from_key_to_query():
    weights = np.array([[0.0, 1.0], [0.0, 0.0]])  # token 0 reads token 1
    patch = plots.flow(weights, ["a", "b"]).patches[0]
    start, end = patch._posA_posB
    assert (start[0], end[0]) == (1, 0)
    start, end = plots.flow(weights, ["a", "b"], reading=True).patches[0]._posA_posB
    assert (start[0], end[0]) == (0, 1)


def test_flow_refuses_weights_of_another_size():
    with pytest.raises(ValueError, match="3 tokens need weights of shape"):
        plots.flow(np.eye(2), ["a", "b", "c"])


def test_an_unknown_colour_lists_the_known_ones():
    with pytest.raises(ValueError, match="query"):
        plots.colour("mauve")


def test_numbers_in_cells_never_show_a_negative_zero():
    axes = plots.heatmap(np.array([[-0.001, 0.5]]), signed=True, numbers=True)
    assert [text.get_text() for text in axes.texts] == ["0.00", "0.50"]


def test_names_of_lines_that_end_together_do_not_overlap():
    ax = plots.layers({"one": [0.0, 0.5], "two": [1.0, 0.5], "three": [0.4, 0.501], "far": [0.2, 1.0]}, y="share")
    ax.figure.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    assert all(lower.y1 <= upper.y0 + 4 for lower, upper in zip(boxes, boxes[1:], strict=False))


def test_low_arrows_over_many_tokens_stay_in_the_picture():
    weights = np.zeros((9, 9))
    weights[8, 0] = 1.0
    heights = {}
    for low in (False, True):
        ax = plots.flow(weights, list("abcdefghi"), low=low)
        ax.figure.canvas.draw()
        heights[low] = ax.patches[0].get_window_extent().y1 - ax.get_window_extent().y1
    assert heights[True] < 0 < heights[False]
