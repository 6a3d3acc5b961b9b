"""Interactive figures as text: deterministic, escaped, small, and true to the numbers they were given."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from figure_html import Tags, data_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from utils import payload
from utils.attention import AttentionMaps, attention_maps, head_statistics
from utils.elements import palette, rich, script
from utils.figures import Figure, attention_explorer, curve_explorer, quiz_card

OPTIONS = [("W_{Q} alone", False, "Both take part."), ("the product", True, "Yes."), ("the softmax", False, "Later.")]
HOSTILE = ["[CLS]", "</script>", "<img onerror=alert(1)>", "나는", "שלום", "&amp;", "\u2028", "[SEP]"]


def softmaxed(*shape: int, seed: int = 0, scale: float = 3.0) -> torch.Tensor:
    return torch.softmax(scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def some_maps(
    layers: int = 2, heads: int = 3, tokens: int = 8, labels: list[str] | None = None, **more
) -> AttentionMaps:
    labels = labels or ["[CLS]", *(f"t{i}" for i in range(tokens - 2)), "[SEP]"]
    ends = torch.tensor([True] + [False] * (len(labels) - 2) + [True])
    weights = softmaxed(layers, heads, len(labels), len(labels), seed=more.pop("seed", 0))
    return AttentionMaps(weights, labels, labels, special_queries=ends, special_keys=ends, **more)


def some_curve(**more) -> Figure:
    rows = [
        {"layer": layer, "score": layer + seed / 10 + (model == "trained"), "model": model, "tie": tie}
        for layer in range(4)
        for seed in range(3)
        for model in ("random", "trained")
        for tie in (0.0, 0.5)
    ]
    options = {
        "x": "layer",
        "y": "score",
        "by": "model",
        "sliders": ["tie"],
        "null": ["random"],
        "alt": "Scores by layer",
    }
    return curve_explorer(pd.DataFrame(rows), **(options | more))


FIGURES = {
    "attention-explorer": lambda: attention_explorer(some_maps(labels=HOSTILE), layer=1, head=2, title="<b>& title"),
    "curve-explorer": lambda: some_curve(title="<b>& title"),
    "quiz-card": lambda: quiz_card("Is <b> & `W_{Q}` bold?", OPTIONS),
}
EVERY = pytest.mark.parametrize("tag", FIGURES)


# ---- one output


@EVERY
def test_equal_input_gives_equal_output(tag):
    assert FIGURES[tag]()._repr_mimebundle_() == FIGURES[tag]()._repr_mimebundle_()


def test_another_process_with_another_hash_seed_writes_the_same():
    code = "from test_figures import FIGURES; print([figure().html() for figure in FIGURES.values()])"
    environment = {"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parent)}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str([figure().html() for figure in FIGURES.values()])


@EVERY
def test_plain_text_says_what_it_is(tag):
    bundle = FIGURES[tag]()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"].startswith(f"<{tag}: ")


@EVERY
def test_no_ids_no_addresses_and_no_markup_from_the_data(tag):
    html = FIGURES[tag]().html()
    parser = Tags()
    parser.feed(html)
    assert parser.opened.count("script") == html.count("<script") == html.count("</script>") == 2
    assert "id" not in parser.attributes and not [name for name in parser.attributes if name.startswith("on")]
    assert "b" not in parser.opened
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|import\(|fetch\(|Math\.random|Date\(", html)


@EVERY
def test_the_fallback_is_readable_without_scripts(tag):
    html = re.sub(r"<script.*?</script>", "", FIGURES[tag]().html(), flags=re.DOTALL)
    assert "<img alt=" in html and "<table>" in html if tag != "quiz-card" else html.count("<details>") == 3


def test_labels_come_back_unharmed():
    assert data_of(FIGURES["attention-explorer"]())["keys"]["labels"] == HOSTILE


def test_scripts_stay_small_and_keep_the_palette_of_the_book():
    for path in files("utils").joinpath("js").iterdir():
        assert len(path.read_text("utf8").encode()) <= 25_000, path.name
    for tag in FIGURES:
        first = script(tag).splitlines()[0]
        assert json.loads(first.removeprefix("const PALETTE = ").rstrip(";")) == palette()


def test_a_figure_needs_an_alt_and_an_element_that_exists():
    with pytest.raises(ValueError, match="alt text"):
        Figure("quiz-card", {}, " ")
    with pytest.raises(ValueError, match="no element is called 'pie-chart'"):
        Figure("pie-chart", {}, "A pie")


# ---- codes


def coding_error(weights: np.ndarray) -> float:
    return float(np.abs(payload.codes_to_weights(payload.weights_to_codes(weights)) - weights).max())


@pytest.mark.parametrize("scale", [0.1, 1, 3, 10])
@pytest.mark.parametrize("keys", [2, 16, 128])
def test_decoded_weights_are_within_0_005_of_the_exact_ones(scale, keys):
    assert coding_error(softmaxed(20, 50, keys, scale=scale).double().numpy()) <= 0.005


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 200)), elements=st.floats(0, 30)))
@settings(deadline=None, max_examples=200)
def test_any_row_that_sums_to_one_is_coded_within_0_005(scores):
    weights = np.exp(-scores)
    assert coding_error(weights / weights.sum(-1, keepdims=True)) <= 0.005


@pytest.mark.parametrize("keys", [2, 10, 30, 123])
def test_one_large_weight_among_equal_small_ones_is_coded_within_0_005(keys):
    large = np.linspace(0.3, 0.999, 1500)[:, None]
    rest = np.repeat((1 - large) / (keys - 1), keys - 1, axis=1)
    assert coding_error(np.concatenate([large, rest], axis=1)) <= 0.005


@pytest.mark.parametrize("code", [0, 1, 2, 5, 9])
def test_rows_whose_rounding_all_goes_one_way_keep_their_sum(code):
    small = ((code + 0.5 + 1e-6) / payload.STEPS) ** 2
    row = np.full(128, small)
    row[0] = 1 - small * 127
    assert coding_error(row[None]) <= 0.005


def test_zero_stays_zero_and_missing_stays_missing():
    weights = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    weights[2] = np.nan
    weights[3] = 0
    decoded = payload.codes_to_weights(payload.weights_to_codes(weights))
    assert (decoded[0] == [1, 0, 0, 0]).all() and (decoded[1, 2:] == 0).all()
    assert np.isnan(decoded[2]).all() and (decoded[3] == 0).all()


def test_a_stored_figure_gives_its_numbers_back():
    maps = some_maps(tokens=20)
    found = payload.unpack(attention_explorer(maps, layer=0, head=1).html())
    assert np.abs(found["weights"] - maps.weights.numpy()).max() <= 0.005
    assert found["statistics"].shape == (1, 5, 2, 3)
    curve = payload.unpack(some_curve().html())
    assert np.allclose(curve["y"][:4], [0.1, 1.1, 2.1, 3.1]) and np.allclose(curve["low"][:4], range(4))


def test_other_html_has_no_numbers():
    with pytest.raises(ValueError, match="no figure data"):
        payload.unpack("<p>1.0</p>")


def test_the_fallback_picture_shows_the_head():
    weights = np.array([[1.0, 0.0, 0.0], [0.25, np.nan, 0.0]])
    drawing = base64.b64decode(payload.picture(weights, "#0a2f66").split(",")[1]).decode()
    assert 'viewBox="0 -.5 3 2"' in drawing
    assert '<path d="M0 0h1" stroke="#0a2f66" stroke-opacity="1"/>' in drawing
    assert '<path d="M0 1h1" stroke="#0a2f66" stroke-opacity="0.5"/>' in drawing
    assert '<path d="M1 1h1" stroke="#888888"' in drawing and drawing.count("<path") == 3


def test_the_fallback_picture_of_a_long_text_keeps_its_largest_weights():
    weights = np.zeros((128, 100))
    weights[77, 99] = 1
    drawing = base64.b64decode(payload.picture(weights, "#0a2f66").split(",")[1]).decode()
    assert 'viewBox="0 -.5 25 32"' in drawing and 'd="M24 19h1"' in drawing and drawing.count("M") == 1


# ---- attention-explorer


def test_72_heads_of_128_tokens_fit_into_two_megabytes():
    figure = attention_explorer(some_maps(6, 12, 128))
    assert len(figure.html().encode()) <= 2_000_000


def test_numbers_of_one_text_equal_head_statistics(family):
    texts = {"text": "the cat sat on the mat", "target": "die katze sass auf der matte"}
    pair = texts if family.model.config.is_encoder_decoder else {"text": texts["text"]}
    found = attention_maps(family.model, family.tokenizer, **pair)
    corpus = head_statistics(family.model, family.tokenizer, *([value] for value in pair.values()))
    for maps in found.values():
        alone, given = (data_of(attention_explorer(maps, statistics)) for statistics in (None, corpus))
        assert alone["columns"] == given["columns"] and alone["roles"] == given["roles"]
        for name in ("statistics", "profile") if maps.kind != "cross" else ("statistics",):
            one, other = (payload.unpack(attention_explorer(maps, s).html())[name] for s in (None, corpus))
            assert np.allclose(one, other, atol=1e-5), name


def test_a_head_that_reads_the_token_before_is_called_so():
    weights = torch.full((1, 2, 16, 16), 1 / 16)
    weights[0, 1] = torch.diag(torch.ones(15), -1)
    weights[0, 1, 0, 0] = 1
    labels = [f"t{i}" for i in range(16)]
    assert data_of(attention_explorer(AttentionMaps(weights, labels, labels)))["roles"] == [
        ["unlabelled", "previous token"]
    ]


def test_statistics_of_a_corpus_are_taken_by_layer_and_head():
    maps = some_maps(layers=2, heads=2)
    rows = [
        {"kind": "encoder", "layer": n, "head": h, "entropy": 10 * n + h, "tokens": 1234, "role": f"{n}.{h}"}
        for h in (1, 0)
        for n in (2, 1, 0)
    ]
    figure = attention_explorer(maps, pd.DataFrame(rows))
    assert payload.unpack(figure.html())["statistics"][0, 0].tolist() == [[0, 1], [10, 11]]
    assert data_of(figure)["roles"] == [["0.0", "0.1"], ["1.0", "1.1"]]
    assert "1,234 tokens" in data_of(figure)["source"]
    with pytest.raises(ValueError, match="one row for each encoder head"):
        attention_explorer(maps, pd.DataFrame(rows[:-1]))
    with pytest.raises(ValueError, match="lack the column 'entropy'"):
        attention_explorer(maps, pd.DataFrame(rows).drop(columns="entropy"))


def test_layers_keep_their_numbers_and_bad_heads_are_refused():
    maps = some_maps(layers=2, heads=3)
    maps.layers = [3, 7]
    data = data_of(attention_explorer(maps, layer=7, head=1, row="t2"))
    assert data["layers"] == [3, 7] and data["open"]["layer"] == 1 and data["open"]["row"] == 3
    for layer, head in ((0, 0), (3, 3), (3, -1)):
        with pytest.raises(ValueError, match=r"layer|head"):
            attention_explorer(maps, layer=layer, head=head)
    with pytest.raises(ValueError, match="no query is called 'cat'"):
        attention_explorer(maps, row="cat")
    with pytest.raises(ValueError, match="queries 0 to 7"):
        attention_explorer(maps, row=8)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: {"encoder": m}, TypeError, r"maps\['encoder'\]"),
        (lambda m: m.weights, TypeError, "AttentionMaps are needed"),
        (lambda m: AttentionMaps(2 * m.weights, m.queries, m.keys), ValueError, "do not sum to 1"),
        (lambda m: some_maps(12, 12, 160), ValueError, "take fewer layers"),
    ],
)
def test_what_is_no_attention_is_refused_with_the_way_out(change, error, message):
    with pytest.raises(error, match=message):
        attention_explorer(change(some_maps()))


def test_two_maps_are_compared_only_if_their_shapes_agree():
    before, after = some_maps(seed=1), some_maps(seed=2)
    after.queries = ["[CLS]", "cat", *after.queries[2:]]
    figure = attention_explorer(before, other=after, names=("trained", "random"))
    assert payload.unpack(figure.html())["other"].shape == (2, 3, 8, 8)
    assert data_of(figure)["queries"]["labels"][1] == "t0 / cat"
    with pytest.raises(ValueError, match="shapes agree"):
        attention_explorer(before, other=some_maps(tokens=9))


def test_cross_maps_and_maps_with_missing_rows_are_drawn():
    cross = AttentionMaps(softmaxed(1, 2, 3, 5), list("abc"), list("vwxyz"), kind="cross")
    assert "profile" not in data_of(attention_explorer(cross))["arrays"]
    holes = some_maps()
    holes.weights[0, 0, 2] = torch.nan
    assert data_of(attention_explorer(holes))["missing"]


def test_pieces_of_a_word_are_grouped():
    maps = some_maps(tokens=5, query_words=[None, 0, 0, 1, None], key_words=[None, 0, 0, 1, None])
    maps.query_word_labels = maps.key_word_labels = ["tt", "t2"]
    side = data_of(attention_explorer(maps))["keys"]
    assert side["groups"] == [0, 1, 1, 2, 3] and side["words"] == ["[CLS]", "tt", "t2", "[SEP]"]


# ---- curve-explorer


def test_repeats_become_a_mean_with_its_range_and_dots():
    figure = some_curve(dots=True, start={"tie": 0.5})
    data = data_of(figure)
    assert data["names"] == ["random", "trained"] and data["nulls"] == [0]
    assert data["choices"] == [{"label": "tie", "name": "tie", "slider": True, "start": 1, "values": ["0", "0.5"]}]
    assert len(data["segments"]) == len(data["dotted"]) == 4
    found = payload.unpack(figure.html())
    assert len(found["y"]) == 16 and len(found["dot_y"]) == 48
    assert (found["low"] <= found["y"]).all() and (found["y"] <= found["high"]).all()


def test_given_bounds_a_mapping_and_a_plain_line():
    frame = pd.DataFrame({"x": [1, 2], "y": [0.5, 0.6], "a": [0.4, 0.5], "b": [0.6, 0.9]})
    found = payload.unpack(curve_explorer(frame, x="x", y="y", low="a", high="b", alt="A line").html())
    assert np.allclose(found["high"], [0.6, 0.9])
    assert "low" not in payload.unpack(curve_explorer(frame, x="x", y="y", alt="A line").html())
    named = curve_explorer({"one": [1, 2, 3], "many": [[1, 2, 3], [3, 4, 5]]}, x="layer", y="score", alt="Two lines")
    assert data_of(named)["names"] == ["one", "many"]
    assert np.allclose(payload.unpack(named.html())["high"], [3, 4, 5, *[np.nan] * 3], equal_nan=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": "loss"}, "no column 'loss'"),
        ({"low": "score"}, "both low= and high="),
        ({"y": "model"}, "must hold numbers"),
        ({"null": ["shuffled"]}, "'shuffled' is not among the lines"),
        ({"start": {"tie": 0.7}}, "not one of 0.0, 0.5"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        some_curve(**options)


# ---- quiz-card


def test_marks_in_a_text_become_markup_and_everything_else_stays_text():
    assert rich("W_K and d_head, `w_q` <b>") == "W<sub>K</sub> and d_head, <code>w_q</code> &lt;b&gt;"
    assert rich("M^{T} = W_{K}W_Q") == "M<sup>T</sup> = W<sub>K</sub>W<sub>Q</sub>"


def test_the_right_option_is_not_where_the_author_writes_it():
    cards = [data_of(quiz_card(f"Question {i}?", OPTIONS)) for i in range(60)]
    places = [[option["correct"] for option in card["options"]].index(True) for card in cards]
    assert min(places.count(place) for place in range(3)) >= 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (OPTIONS[:2], "three to five"),
        (OPTIONS * 2, "three to five"),
        ([*OPTIONS, ("the scores", True, "Yes.")], "exactly one"),
        ([(t, False, f) for t, _, f in OPTIONS], "exactly one"),
        ([*OPTIONS, OPTIONS[0]], "same text"),
        ([*OPTIONS, ("the scores", False, " ")], "needs a text and a feedback"),
        ([("a", True), ("b", False), ("c", False)], "text, correct, feedback"),
    ],
)
def test_a_card_that_does_not_teach_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        quiz_card("Which?", options)


def test_a_kept_order_must_not_begin_with_the_right_option():
    with pytest.raises(ValueError, match="stands first"):
        quiz_card("Which?", [OPTIONS[1], OPTIONS[0], OPTIONS[2]], keep_order=True)
    assert [o["text"] for o in data_of(quiz_card("Which?", OPTIONS, keep_order=True))["options"]] == [
        o[0] for o in OPTIONS
    ]


def test_an_explorer_of_nothing_or_of_another_kind_is_refused():
    half = torch.full((1, 1, 2, 2), 0.5)
    maps, labels = AttentionMaps(half, ["a", "b"], ["a", "b"]), (["a", "b"], ["a", "b"])
    with pytest.raises(TypeError, match="got NoneType"):
        attention_explorer(None)
    for empty in (AttentionMaps(half[:0], *labels), AttentionMaps(half[..., :0, :0], [], [])):
        with pytest.raises(ValueError, match="nothing to draw"):
            attention_explorer(empty)
    with pytest.raises(ValueError, match="of one kind, got encoder and cross"):
        attention_explorer(maps, other=AttentionMaps(half, *labels, kind="cross"))
    for row in (True, 1.5, [0]):
        with pytest.raises(TypeError, match="row must be the number or the label"):
            attention_explorer(maps, row=row)


def test_the_picture_without_scripts_tells_lines_apart_by_name_and_dash():
    series = {f"line <{number}>": [number, number + 1, number] for number in range(6)}
    fallback = curve_explorer(series, x="x", y="y", null=["line <5>"], alt="Lines").fallback
    drawing = base64.b64decode(re.search(r'base64,([^"]+)"', fallback)[1]).decode()
    assert re.findall(r">(line [^<]+)</text>", drawing) == [f"line &lt;{number}&gt;" for number in range(6)]
    styles = re.findall(r'polyline.*?stroke="(.*?)".*?dasharray="(.*?)"', drawing)
    assert len(styles) == len(set(styles)) == 6
