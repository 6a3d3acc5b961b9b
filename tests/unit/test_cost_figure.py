"""The cost-explorer's numbers, fallback and refusals."""

from __future__ import annotations

import pytest

from utils import planner
from utils.cost_explorer import LENGTHS, amount, cost_explorer, costs

WORDS = {"title": "What n² counts", "alt": "Two lines."}
MODELS = {"BERT-base": planner.BERT_BASE, "</script>": planner.MINILM}


def test_the_known_numbers_of_bert_base_at_512():
    found = costs(planner.BERT_BASE, 512)
    assert found["entries"] == 262_144
    assert found["scores"] == 4 * 512**2 * 768 == pytest.approx(0.81e9, rel=0.01)
    assert found["projections"] + found["ffn"] == 24 * 512 * 768**2
    assert found["crossover"] == 6 * 768 and found["share"] == pytest.approx(0.1)
    assert found["score_bytes"] == 12 * 512**2 * 2
    assert costs(planner.BERT_BASE, 4608)["share"] == 0.5


def test_lengths_beyond_a_models_positions_are_counted_too():
    assert costs(planner.BERT_BASE, 65536)["entries"] == 2**32
    assert costs(planner.GPT2, 2048)["kv_bytes"] * planner.GPT2.layers == 2 * planner.kv_cache(planner.GPT2, 1024)


def test_an_output_over_the_vocabulary_does_not_enter_a_layer():
    gpt2, bert = (costs(a, 512) for a in (planner.GPT2, planner.BERT_BASE))
    assert gpt2 == bert


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 "),
        (512, "512 "),
        (999.6, "1.00 k"),
        (262144, "262 k"),
        (805306368, "805 M"),
        (2**32, "4.29 G"),
        (1e15, "1.00 P"),
    ],
)
def test_amounts_have_three_digits(value, shown):
    assert amount(value) == shown


def test_it_is_deterministic_and_escapes():
    html = cost_explorer(MODELS, **WORDS).html()
    assert html == cost_explorer(MODELS, **WORDS).html()
    assert html.count("</script>") == 2 and "262 k" in html and len(html) < 40_000


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no models"):
        cost_explorer({}, **WORDS)
    with pytest.raises(ValueError, match="nearest is 512"):
        cost_explorer(MODELS, n=500, **WORDS)
    assert LENGTHS[0] == 64 and LENGTHS[-1] == 131072
