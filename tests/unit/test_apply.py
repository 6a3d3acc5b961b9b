"""The assessment "Apply": its orders are what the text says, right plans pass, and wrong ones learn by how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from utils import apply, planner
from utils import apply_exercises as exercises
from utils.budget_planner import MACHINE, costs
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED, check
from utils.planner import BERT_BASE, METHODS

A = {"method": "8-bit Adam mixed", "attention": "flash", "batch": 2}
HALF = {"method": "AdamW mixed", "attention": "flash", "checkpointing": True, "batch": 2, "removed": 6}
B = {"kv_heads": 3, "attention": "flash"}
C = {"removed": 6, "ffn_width": 2112}
TEXT = (
    "Order A: 8-bit Adam, flash attention, four batches of two texts, no head removed. It needs 1,816 MB of 2,000 MB "
    "and at least 580 ms of 700 ms a step. The states of AdamW alone are 1,314 MB; weights, gradients and states do "
    "not fit with the driver, whatever the batch; half of the heads would save 227 MB of them, this optimiser 657 MB. "
    "Bytes are counted and were measured for AdamW on a CPU; the speeds are an assumption, and quality with 8-bit "
    "states has to be measured."
)


# The orders.


def test_no_order_can_be_kept_as_it_stands():
    assert not any(apply.need(name, {}).fits for name in apply.ORDERS)


def test_adamw_cannot_fit_order_a_whatever_the_batch_and_a_smaller_optimiser_can():
    states = METHODS["AdamW mixed"].weight + METHODS["AdamW mixed"].gradient + METHODS["AdamW mixed"].optimiser
    assert states * planner.parameters(BERT_BASE).total + planner.CONTEXT_BYTES > 2 * 10**9
    for method in ("AdamW mixed", "AdamW float32"):
        least = {"method": method, "attention": "flash", "checkpointing": True, "batch": 1}
        assert apply.need("A", least).memory_over > 0
    assert apply.need("A", HALF).fits  # so pruning is a way, and a dear one
    assert apply.need("A", A).fits


def test_checkpointing_is_what_the_time_of_order_a_forbids():
    again = {"method": "8-bit Adam mixed", "checkpointing": True}
    found = apply.need("A", again)
    assert found.memory_over < 0 < found.time_over
    assert apply.need("A", A).passes == 4


def test_memory_alone_would_allow_order_b_four_key_value_heads_and_time_allows_three():
    four, three = (apply.need("B", {"kv_heads": kv, "attention": "flash"}) for kv in (4, 3))
    assert four.memory_over <= 0 < four.time_over and three.fits
    assert not any(apply.need("B", {"kv_heads": kv}).fits for kv in (1, 2, 3))  # eager attention
    assert apply.widest_keys() == 192


def test_the_scores_of_every_token_would_break_order_b():
    start = apply.order("B").setting
    every = replace(start, architecture=planner.GPT2.with_heads(12, 1), attention="flash")
    assert costs(every)["total"] > 2 * start.budget


def test_neither_heads_nor_the_feed_forward_network_alone_keep_order_c():
    assert apply.need("C", {"removed": 8}).time_over > 0
    assert apply.need("C", {"removed": 11}).time_over > 0
    assert apply.need("C", {"ffn_width": 1536}).time_over > 0
    assert apply.need("C", C).fits
    assert apply.need("C", {}).memory_over < -(10**9)


def test_what_a_plan_needs_is_what_the_planner_says():
    found = apply.need("A", A)
    expected = planner.memory(BERT_BASE, 512, 2, "8-bit Adam mixed", attention="flash", context=planner.CONTEXT_BYTES)
    assert found.parts == expected
    assert found.seconds == 4 * planner.seconds(BERT_BASE, 512, 2, "8-bit Adam mixed", machine=MACHINE)
    assert found.largest == "optimiser"
    assert apply.need("A", A | {"batch": 3}).passes == 3


def test_a_verdict_is_a_table_of_two_limits():
    table = apply.judge("B", {})
    assert list(table.index) == ["memory", "time"]
    assert table.loc["memory", "margin"] == "1,971 MB too much" and table.loc["time", "limit"] == "15.0 ms"
    assert table.loc["memory", "made of"] == "mostly the key/value cache: 1,812 MB"
    assert apply.judge("A", A).loc["time", "made of"] == "4 batches of 2"


@pytest.mark.parametrize(
    ("name", "plan", "message"),
    [
        ("D", {}, "no order is called 'D': there are A, B, C"),
        ("A", {"heads": 6}, "order A leaves 'heads' as it is: a plan may change method, attention"),
        ("B", {"heads": 7}, "width 768 cannot be shared by 7 heads"),
        ("B", {"heads": 12, "kv_heads": 5}, "12 heads cannot share 5"),
        ("A", {"method": "Adam"}, "method is 'Adam': give one of"),
        ("A", {"method": "inference float16"}, "trains nothing"),
        ("A", {"attention": "sdpa"}, "attention is 'sdpa'"),
        ("A", {"batch": 9}, "a step has 8 texts"),
        ("A", {"batch": 0}, "batch is 0: give a whole number"),
        ("C", {"removed": 12}, "cannot remove 12 of 12 heads"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(name, plan, message):
    with pytest.raises(ValueError, match=message):
        apply.need(name, plan)


@pytest.mark.parametrize("plan", ["flash", None, [1], {"batch": 2.0}, {"removed": "half"}, {"checkpointing": 1}])
def test_a_plan_of_another_kind_is_refused(plan):
    with pytest.raises(TypeError):
        apply.need("A", plan)


# The checks.


def heads_change(n, d, heads):
    return 4 * d * d, 4 * n * n * d, 2 * heads * n * n


def largest(
    sizes, tokens, attention, budget, context, limit, *, method="inference float16", least=0, strict=False, more=0
):
    def fits(batch):
        total = planner.memory(sizes, tokens, batch, method, attention=attention, context=context).total
        within = total < budget if strict else total <= budget
        return within and planner.seconds(sizes, tokens, batch, method, machine=MACHINE) <= limit

    return max(planner.largest_batch(fits) + more, least)


RIGHT = {
    "knows_what_heads_change": heads_change,
    "finds_the_largest_batch": largest,
    "fine_tunes_within_limits": lambda: A,
    "decodes_within_limits": lambda: B,
    "answers_in_time": lambda: C,
    "agrees_with_its_plan": lambda: ("A", A, TEXT),
}
ALSO_RIGHT = [
    ("fine_tunes_within_limits", {"method": "8-bit Adam mixed", "batch": 1}),
    ("fine_tunes_within_limits", A | {"batch": 1}),
    ("fine_tunes_within_limits", A | {"removed": 0, "checkpointing": False}),
    ("decodes_within_limits", {"heads": 8, "kv_heads": 2, "attention": "flash"}),
    ("decodes_within_limits", {"heads": 4, "kv_heads": 1, "attention": "flash"}),
    ("answers_in_time", {"removed": 8, "ffn_width": 2496}),
    ("answers_in_time", {"removed": 3, "ffn_width": 1600, "attention": "flash"}),
]
WRONG = [
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d * h, 4 * n * n * d, 2 * h * n * n), "d_h columns, not d"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d // h, 4 * n * n * d, 2 * h * n * n), "that is one head"),
    ("knows_what_heads_change", lambda n, d, h: (3 * d * d, 4 * n * n * d, 2 * h * n * n), "W_O is missing"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d, 4 * n * n * d * h, 2 * h * n * n), "so H cancels"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d, 2 * n * n * d, 2 * h * n * n), "P V takes as many"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d, 4 * n * n * d, 2 * n * n), "scores of its own"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d, 4 * n * n * d, 4 * h * n * n), "2 bytes each"),
    ("knows_what_heads_change", lambda n, d, h: (4 * d * d, 4 * n * n * d, 2 * n * n * d), "one number, not a vector"),
    ("knows_what_heads_change", lambda n, d, h: (1, 2, 3), "you say 1"),
    ("knows_what_heads_change", lambda n, d, h: heads_change(512, 768, 12), "n = 512, d = 768, H = 8"),
    ("knows_what_heads_change", lambda n, d, h: 4 * d * d, "three numbers"),
    ("finds_the_largest_batch", lambda s, n, a, b, c, t: largest(s, n, a, b, 0, t), "count it"),
    ("finds_the_largest_batch", lambda s, n, a, b, c, t: largest(s, n, a, b, c, 1e9), "longer than the limit"),
    ("finds_the_largest_batch", lambda s, n, a, b, c, t: largest(s, n, "eager", b, c, t), "right for eager"),
    ("finds_the_largest_batch", lambda s, n, a, b, c, t: largest(s, n, a, 1e18, 0, t), "memory is too small"),
    ("finds_the_largest_batch", lambda *x: largest(*x, method="inference float32"), "right for float32"),
    ("finds_the_largest_batch", lambda *x: largest(*x, least=1), "return 0"),
    ("finds_the_largest_batch", lambda *x: largest(*x, strict=True), "to its last byte"),
    ("finds_the_largest_batch", lambda *x: largest(*x, more=1), "one text fewer"),
    ("finds_the_largest_batch", lambda *x: 50, "expected 87, got 50"),
    ("fine_tunes_within_limits", lambda: {"attention": "flash", "batch": 1}, "by 312 MB"),
    ("fine_tunes_within_limits", lambda: {"attention": "flash", "batch": 1}, "the optimiser's states with 1,314 MB"),
    ("fine_tunes_within_limits", lambda: {"method": "8-bit Adam mixed", "attention": "flash"}, "by 781 MB"),
    ("fine_tunes_within_limits", lambda: A | {"checkpointing": True, "batch": 8}, "breaks the time limit by 73.1 ms"),
    ("fine_tunes_within_limits", lambda: {"method": "LoRA mixed", "attention": "flash"}, "trains 294,912 of"),
    ("fine_tunes_within_limits", lambda: A | {"method": "SGD float32"}, "keeps no moments"),
    ("fine_tunes_within_limits", lambda: A | {"removed": 6}, "prune none"),
    ("fine_tunes_within_limits", lambda: HALF, "saves 227 MB of weights, gradients and states, where another"),
    ("fine_tunes_within_limits", lambda: {"removed": 11, "batch": 1}, "11 of 12 heads are gone"),
    ("fine_tunes_within_limits", lambda: {"heads": 6}, "leaves 'heads' as it is"),
    ("decodes_within_limits", lambda: {}, "by 1,971 MB"),
    ("decodes_within_limits", lambda: {"kv_heads": 1}, "breaks the memory limit by 145 MB"),
    ("decodes_within_limits", lambda: {"kv_heads": 4, "attention": "flash"}, "breaks the time limit by 1.68 ms"),
    ("decodes_within_limits", lambda: {"kv_heads": 1, "attention": "flash"}, "192 keep them too"),
    ("decodes_within_limits", lambda: {"heads": 24, "kv_heads": 6, "attention": "flash"}, "32 wide"),
    ("decodes_within_limits", lambda: {"kv_heads": 5, "attention": "flash"}, "cannot share 5"),
    ("answers_in_time", lambda: {"attention": "flash"}, "breaks the time limit by 9.16 ms"),
    ("answers_in_time", lambda: {"removed": 6}, "breaks the time limit by 4.33 ms"),
    ("answers_in_time", lambda: {"removed": 8}, "the rest lies elsewhere"),
    ("answers_in_time", lambda: {"removed": 11}, "keeps at least 4"),
    ("answers_in_time", lambda: {"ffn_width": 1024}, "below what order C keeps"),
    ("answers_in_time", lambda: {"ffn_width": 1536}, "breaks the time limit"),
    ("answers_in_time", lambda: {"removed": 8, "ffn_width": 2048}, "more than it must: one head more"),
    ("answers_in_time", lambda: {"removed": 6, "ffn_width": 2048}, "more than it must: 64 columns more"),
    ("answers_in_time", lambda: {"removed": 6, "ffn_width": 2100}, "multiple of 64"),
    ("answers_in_time", lambda: {"removed": 6, "ffn_width": 4096}, "makes none wider"),
    ("agrees_with_its_plan", lambda: ("A", A, TEXT.replace("1,816", "1,616")), "needs 1,816 MB, which your text"),
    ("agrees_with_its_plan", lambda: ("A", A, TEXT.replace("580 ms", "58 ms")), "takes at least 580 ms, which"),
    ("agrees_with_its_plan", lambda: ("A", A, TEXT.replace("700 ms", "the limit")), "limit of time"),
    ("agrees_with_its_plan", lambda: ("A", A, TEXT[:200]), "words: between 60"),
    ("agrees_with_its_plan", lambda: ("A", {}, TEXT), "breaks the memory limit by 2,945 MB"),
    ("agrees_with_its_plan", lambda: ("D", A, TEXT), "the order is 'D'"),
    ("agrees_with_its_plan", lambda: TEXT, "three things"),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes_and_a_stub_is_not_attempted(name):
    result = check("A", RIGHT[name], getattr(exercises, name))
    assert result.status == PASSED, result.message
    assert check("A", lambda *_: None, getattr(exercises, name)).status == NOT_ATTEMPTED


@pytest.mark.parametrize(("name", "plan"), ALSO_RIGHT)
def test_another_plan_that_keeps_the_limits_passes(name, plan):
    result = check("A", lambda: plan, getattr(exercises, name))
    assert result.status == PASSED, result.message


@pytest.mark.parametrize(("name", "attempt", "words"), WRONG)
def test_a_wrong_answer_learns_what_is_wrong_and_by_how_much(name, attempt, words):
    result = check("A", attempt, getattr(exercises, name))
    assert result.status == NOT_YET and words in result.message, result


def test_every_exercise_has_at_least_two_wrong_answers():
    assert all(sum(name == each for each, *_ in WRONG) >= 2 for name in RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_of_another_kind_is_reported_and_not_raised(name):
    for value in ("text", 3.5, [[1, 2], [3]], {"a": 1}):
        result = check("A", lambda *_, value=value: value, getattr(exercises, name))
        assert result.status == NOT_YET and result.message


def test_a_text_in_other_units_passes():
    text = TEXT.replace("1,816 MB", "1.82 GB").replace("580 ms", "0.58 s").replace("2,000 MB", "2 GB")
    assert check("A", lambda: ("A", A, text), exercises.agrees_with_its_plan).status == PASSED
