"""The budget-planner's numbers, fallback and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from utils import planner
from utils.budget_planner import (
    MACHINE,
    VALUES,
    Setting,
    budget_planner,
    costs,
    duration,
    fits,
    flat,
    megabytes,
    seconds,
)

WORDS = {"title": "Heads do not decide", "alt": "A bar."}
GOAL = Setting(architecture=planner.BERT_BASE)
DECODER = Setting(architecture=planner.GPT2, batch=4, generate=True)


def test_it_opens_with_the_goals_limits():
    assert (GOAL.architecture.width, GOAL.tokens, GOAL.budget) == (768, 512, 2 * 10**9)
    found = costs(GOAL)
    assert found["weights"] == 218_964_480 and found["activations"] == 15 * 2**20
    assert found["total"] == planner.memory(planner.BERT_BASE, 512, context=planner.CONTEXT_BYTES).total
    assert found["work"] == planner.flops(planner.BERT_BASE, 512).total
    assert found["seconds"] == pytest.approx(found["work"] / MACHINE.flop_per_second)
    assert found["largest"] == 87  # eager, 12 heads, by memory alone


def test_the_largest_batch_keeps_both_limits_and_one_text_more_breaks_one():
    for each in (GOAL, replace(GOAL, limit=0.5), replace(GOAL, method="LoRA mixed"), DECODER):
        most = costs(each)["largest"]
        assert most and fits(replace(each, batch=most)) and not fits(replace(each, batch=most + 1))
    assert costs(replace(GOAL, limit=0.02))["largest"] == 0
    assert costs(replace(GOAL, method="AdamW mixed"))["largest"] == 0


def test_removed_heads_and_positions_are_counted():
    half = replace(GOAL, removed=6)
    assert costs(half)["parameters"] == planner.parameters(planner.BERT_BASE.without_heads(6)).total
    longer = replace(GOAL, tokens=1024)
    assert costs(longer)["parameters"] - costs(GOAL)["parameters"] == 512 * 768  # a table of positions that reaches
    rotary = replace(planner.GPT2, positions=0)
    assert costs(replace(DECODER, architecture=rotary, tokens=4096))["parameters"] == planner.parameters(rotary).total


def test_a_setting_that_generates_has_the_time_of_one_token():
    assert seconds(DECODER) == planner.seconds_per_token(planner.GPT2, 512, 4, machine=MACHINE)
    assert seconds(replace(DECODER, generate=False)) == planner.seconds(planner.GPT2, 512, 4, machine=MACHINE)
    found = costs(DECODER)
    assert found["moved"] == found["weights"] + found["kv_cache"]


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 MB"), (499_999, "0 MB"), (500_000, "1 MB"), (4_945_122_304, "4,945 MB")]
)
def test_bytes_are_whole_megabytes(value, shown):
    assert megabytes(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0242, "24.2 ms"), (0.58, "580 ms"), (0.9996, "1.00 s"), (96.6, "96.6 s")]
)
def test_times_have_three_digits(value, shown):
    assert duration(value) == shown


def test_it_is_deterministic_and_escapes():
    html = budget_planner({"</script>": GOAL, "b": DECODER}, **WORDS).html()
    assert html == budget_planner({"</script>": GOAL, "b": DECODER}, **WORDS).html()
    assert html.count("</script>") == 2 and "635 MB of 2,000 MB" in html and len(html) < 45_000


def test_the_element_gets_every_size_and_limit():
    found = flat(GOAL)
    assert found["kv_heads"] == found["heads"] == 12 and found["head_width"] == 64
    assert found["flop_per_second"] == MACHINE.flop_per_second and "machine" not in found
    assert all(list(values) == sorted(set(values)) for values in VALUES.values())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no settings"):
        budget_planner({}, **WORDS)
    with pytest.raises(ValueError, match="does not generate"):
        budget_planner({"a": replace(GOAL, generate=True)}, **WORDS)
    with pytest.raises(ValueError, match="cannot remove 12 of 12 heads"):
        budget_planner({"a": replace(GOAL, removed=12)}, **WORDS)
    with pytest.raises(ValueError, match="method is 'Adam': give one of"):
        costs(replace(GOAL, method="Adam"))
