"""The phase-explorer's data, fallback and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from utils.payload import unpack
from utils.phase_explorer import phase_explorer, stored_run
from utils.sweeps import sweep

WORDS = {"title": "Two </script> heads", "alt": "Maps and curves.", "names": ("layer 0", "layer <1>")}


def maps(n: int = 6, steps: int = 3) -> dict:
    """Causal maps that sharpen with every step."""
    scores = np.random.default_rng(0).normal(size=(2, n, n)) + np.where(np.tri(n) > 0, 0, -np.inf)
    exact = [np.exp((step + 1) * scores) for step in range(steps)]
    return {10 * step: tuple(each / each.sum(-1, keepdims=True)) for step, each in enumerate(exact)}


def curve(points: int = 5) -> list[dict]:
    values = np.linspace(0, 0.9, points)
    return [{"step": 5 * i, "accuracy": v, "previous": v / 2, "induction": v**2} for i, v in enumerate(values)]


def figure(**changes):
    options = {"maps": maps(), "curve": curve(), "tokens": list("ABCABC"), "step": 10, **WORDS} | changes
    return phase_explorer(options.pop("maps"), options.pop("curve"), **options)


def test_it_is_deterministic_holds_the_maps_and_escapes():
    html = figure().html()
    assert html == figure().html() and html.count("</script>") == 2 and "layer &lt;1&gt;, step 10" in html
    found = unpack(html)
    exact = np.stack([np.stack(pair) for pair in maps().values()])
    np.testing.assert_allclose(found["maps"], exact, atol=0.006)
    np.testing.assert_allclose(found["lines"][2], [row["induction"] for row in curve()], atol=1e-6)


def test_it_stays_small_with_the_stored_run():
    stored = stored_run(sweep("open_questions")["watched"][0])
    shown = phase_explorer(*stored, tokens=list("ABCDEFGHI" * 2), step=140, **WORDS)
    assert len(shown.html()) < 60_000


def test_a_stored_run_has_causal_maps_whose_rows_sum_to_one_and_scores_that_belong_to_them():
    found, rows = stored_run(sweep("open_questions")["watched"][0])
    for pair in found.values():
        for each in pair:
            np.testing.assert_allclose(each.sum(-1), 1)
            assert np.triu(each, 1).max() == 0
    means = {step: (np.diagonal(one, -1).mean(), np.diagonal(two, -8)[1:].mean()) for step, (one, two) in found.items()}
    assert min(means[300]) > 0.6 and max(means[0]) < 0.3
    assert min(rows[-1]["previous"], rows[-1]["induction"]) > 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 15}, "among those kept: 0, 10, 20"),
        ({"maps": {}}, "among those kept: none"),
        ({"tokens": list("ABC")}, "maps of 3 tokens"),
        ({"curve": [{"step": 0, "accuracy": 0.1}]}, "missing: previous, induction"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        figure(**changes)


def test_the_fallback_says_what_the_maps_are_and_has_the_row_of_the_opening_step():
    stored = stored_run(sweep("open_questions")["watched"][0])
    html = phase_explorer(*stored, tokens=list("ABCDEFGHI" * 2), step=140, **WORDS).html()
    row = next(each for each in stored[1] if each["step"] == 140)
    assert "Maps at step 140. Text: A B C" in html and html.count(">140</t") == 1
    assert f"{row['induction']:.2f}" in html
