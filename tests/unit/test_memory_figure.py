"""The memory-explorer's data, fallback and refusals."""

from __future__ import annotations

import base64
import re

import pytest

from utils.memory_explorer import memory_explorer, read_back

PAIRS = {"A": (0, (1, -1, 0)), "B": (92, (0, 1, 1)), "</script>": (45, (-1, 0, 1))}
WORDS = {"title": "Three keys", "alt": "Keys on a circle."}


def test_it_is_deterministic_rounds_angles_and_escapes():
    html = memory_explorer(PAIRS, **WORDS).html()
    assert html == memory_explorer(PAIRS, **WORDS).html()
    assert '"angles":[0,90,45]' in html and html.count("</script>") == 2 and "&lt;/script&gt;" in html


def test_the_fallback_draws_an_arrow_and_has_a_row_for_every_key_written():
    fallback = memory_explorer(PAIRS, written=2, **WORDS).fallback
    drawing = base64.b64decode(re.search(r'base64,([^"]+)"', fallback)[1]).decode()
    assert drawing.count("<path") == drawing.count("<text") == fallback.count("<tr>") - 1 == 2
    assert "rotate(0)" in drawing and "rotate(-90)" in drawing


def test_read_back_by_hand():
    values = [(1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0)]
    found, errors = read_back([0, 90], values[:2], "sum")
    assert errors == pytest.approx([0, 0]) and found[1] == pytest.approx([0, 2, 0])
    found, errors = read_back([0, 90, 0], values, "sum")
    assert found[0] == pytest.approx([1, 0, 3]) and errors == pytest.approx([9, 0, 1 / 9])
    found, errors = read_back([0, 90, 0], values, "delta")
    assert found[0] == found[2] == pytest.approx([0, 0, 3]) and errors == pytest.approx([10, 0, 0])
    found, _ = read_back([0, 0], values[:2], "softmax")
    assert found[0] == pytest.approx([0.5, 1, 0])


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        (PAIRS, {"rule": "hebb"}, "one of sum, delta, softmax"),
        ({"A": (0, (1, 2, 3))}, {}, "2 to 6 pairs"),
        ({"A": (0, (1, 2)), "B": (0, (1, 2))}, {}, "three numbers"),
        (PAIRS, {"written": 4}, "from 1 to 3"),
    ],
)
def test_what_does_not_fit_is_refused(pairs, options, message):
    with pytest.raises(ValueError, match=message):
        memory_explorer(pairs, **WORDS, **options)
