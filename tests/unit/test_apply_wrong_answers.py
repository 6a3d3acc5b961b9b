"""Wrong answers as students give them to the assessment "Apply": each is refused, and the message names its mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from utils import apply, planner
from utils import apply_exercises as exercises
from utils.budget_planner import MACHINE
from utils.exercises import NOT_YET, PASSED, check

GOOD_A = {"method": "8-bit Adam mixed", "attention": "flash", "batch": 2}
GOOD_B = {"heads": 12, "kv_heads": 3, "attention": "flash"}
GOOD_C = {"removed": 6, "ffn_width": 2112, "attention": "flash"}
LIMITS = {"A": "700 ms", "B": "15 ms", "C": "15 ms"}
CHECKS = {
    "A.1": exercises.knows_what_heads_change,
    "A.2": exercises.finds_the_largest_batch,
    "A.3": exercises.fine_tunes_within_limits,
    "A.4": exercises.decodes_within_limits,
    "A.5": exercises.answers_in_time,
    "A.6": exercises.agrees_with_its_plan,
}


def counted(weights=None, flops=None, size=None):
    """An answer to A.1, right where nothing else is given."""

    def answer(n, d, h):
        return (
            weights(n, d, h) if weights else 4 * d * d,
            flops(n, d, h) if flops else 4 * n * n * d,
            size(n, d, h) if size else 2 * h * n * n,
        )

    return answer


def batch(tokens=None, sizes=None, budget=None, context=1, scale=1, strict=False, after=int):
    """An answer to A.2, right where nothing else is given. context: how often it counts; scale: of the times."""

    def answer(given_sizes, given_tokens, attention, given_budget, given_context, limit):
        a, n, most = sizes or given_sizes, tokens or given_tokens, budget or given_budget

        def fits(texts):
            held = planner.memory(a, n, texts, attention=attention).total + context * given_context
            time = scale * planner.seconds(a, n, texts, machine=MACHINE)
            return held <= most and (time < limit if strict else time <= limit)

        return after(planner.largest_batch(fits))

    return answer


def numbers(name, plan):
    """The sentence of a defence that has a plan's own numbers."""
    need = apply.need(name, plan)
    memory, seconds = need.parts.total / 1e6, need.seconds * 1e3
    return f"It needs {memory:,.0f} MB of 2 GB and, by assumption, {seconds:.1f} ms of {LIMITS[name]}."


def text(sentence):
    """A defence of 60 words and more about this sentence."""
    return sentence + " We say what binds and what we have rejected." * 7


def defended(name, plan):
    return lambda: (name, plan, text(numbers(name, plan)))


WRONG = [
    # A.1: units, order, kinds, a shown case taken for all
    ("A.1", lambda n, d, h: (4 * n * n * d, 4 * d * d, 2 * h * n * n), "their order is not: weights, then FLOPs"),
    ("A.1", lambda n, d, h: (2 * h * n * n, 4 * n * n * d, 4 * d * d), "their order is not"),
    ("A.1", lambda n, d, h: tuple(map(str, counted()(n, d, h))), "return three numbers"),
    ("A.1", lambda n, d, h: (None, 4 * n * n * d, 2 * h * n * n), "return three numbers"),
    ("A.1", lambda n, d, h: (), "return three numbers"),
    ("A.1", lambda d, n, h: counted()(n, d, h), "whatever the number of tokens"),
    ("A.1", counted(weights=lambda n, d, h: 4 * d * d + 4 * d), "asked is without"),
    ("A.1", counted(weights=lambda n, d, h: 4 * d * h * 64), "64 in BERT-base only"),
    ("A.1", counted(flops=lambda n, d, h: 4 * n * n * h * 64), "64 in BERT-base only"),
    ("A.1", counted(flops=lambda n, d, h: 2 * n * n * d), "a multiply-add is 2 FLOPs"),
    ("A.1", counted(flops=lambda n, d, h: 8 * n * d * d + 4 * n * n * d), "projections are counted too"),
    ("A.1", counted(flops=lambda n, d, h: 4 * n * d * d), "these products grow with n²"),
    ("A.1", counted(flops=lambda n, d, h: 4 * n * n * d / 1e9), "GFLOP"),
    ("A.1", counted(size=lambda n, d, h: 2 * h * n * n / 1e6), "in MB; give bytes"),
    ("A.1", counted(size=lambda n, d, h: h * n * n), "how many numbers there are"),
    ("A.1", lambda n, d, h: 1 / 0, "stopped with ZeroDivisionError"),
    # A.2: limits that are not reached, kinds, arguments that are not used
    ("A.2", batch(strict=True), "and time exactly"),
    ("A.2", batch(after=float), "a whole number, not 87.0"),
    ("A.2", batch(after=str), "a whole number, not '87'"),
    ("A.2", batch(after=lambda texts: [texts]), r"a whole number, not [87]"),
    ("A.2", batch(after=bool), "a whole number, not True"),
    ("A.2", batch(context=2), "counts the context twice"),
    ("A.2", batch(context=0), "if nobody takes the context"),
    ("A.2", batch(tokens=512), "right for 512 tokens"),
    ("A.2", batch(sizes=planner.BERT_BASE), "right for BERT-base"),
    ("A.2", batch(budget=2 * 10**9), "right for 2,000 MB"),
    ("A.2", batch(scale=1000), "takes the limit for milliseconds"),
    ("A.2", batch(after=lambda texts: texts or None), "returned nothing"),
    ("A.2", lambda *_: 0, "expected 87, got 0"),
    # A.3
    ("A.3", lambda: GOOD_A | {"batch": 4}, "breaks the memory limit by 138 MB"),
    ("A.3", lambda: GOOD_A | {"attention": "eager"}, "breaks the memory limit by 193 MB"),
    ("A.3", lambda: GOOD_A | {"method": "8-bit Adam"}, "'8-bit Adam': give one of"),
    ("A.3", lambda: GOOD_A | {"method": ["8-bit Adam mixed"]}, "give one of 'inference float32'"),
    ("A.3", lambda: GOOD_A | {"method": "norms and biases mixed"}, "order A asks for all"),
    ("A.3", lambda: GOOD_A | {"removed": np.int64(1)}, "prune none"),
    ("A.3", lambda: GOOD_A | {"batch": "2"}, "batch is '2' (str): give a whole number"),
    ("A.3", lambda: GOOD_A | {"batch": 16}, "a step has 8 texts"),
    ("A.3", lambda: ("8-bit Adam mixed", "flash", 2), "a plan is a dictionary"),
    ("A.3", lambda: apply.judge("A", GOOD_A), "a plan is a dictionary"),
    # A.4
    ("A.4", lambda: {"heads": np.int64(24), "kv_heads": 6, "attention": "flash"}, "24 heads are 32 wide"),
    ("A.4", lambda: {"heads": 16, "kv_heads": 4, "attention": "flash"}, "16 heads are 48 wide"),
    ("A.4", lambda: {"heads": 6, "kv_heads": 1, "attention": "flash"}, "128 numbers a layer (1 × 128): 192"),
    ("A.4", lambda: {"heads": 6, "kv_heads": 2, "attention": "flash"}, "breaks the time limit by 1.68 ms"),
    ("A.4", lambda: {"heads": 3, "attention": "flash"}, "most of it the key/value cache"),
    ("A.4", lambda: GOOD_B | {"attention": "eager"}, "most of it activations with 1,397 MB"),
    ("A.4", lambda: GOOD_B | {"batch": 48}, "order B leaves 'batch' as it is"),
    ("A.4", lambda: GOOD_B | {"kv_heads": 3.0}, "give a whole number"),
    ("A.4", lambda: {"key_width": 192}, "order B leaves 'key_width' as it is"),
    # A.5
    ("A.5", lambda: {"removed": np.int64(10), "ffn_width": 2816}, "of 12 heads 2 would be left"),
    ("A.5", lambda: GOOD_C | {"ffn_width": np.int64(2122)}, "take a multiple of 64"),
    ("A.5", lambda: GOOD_C | {"ffn_width": 960}, "ffn_width, what stays, is 960: below"),
    ("A.5", lambda: GOOD_C | {"ffn_width": 2176}, "breaks the time limit by 0.10 ms"),
    ("A.5", lambda: GOOD_C | {"ffn_width": 2048}, "64 columns more would keep the limits too"),
    ("A.5", lambda: {"removed": 8, "ffn_width": 1536}, "one head more a layer would keep the limits too"),
    ("A.5", lambda: {"removed": -2, "ffn_width": 1536}, "removed is -2"),
    ("A.5", lambda: GOOD_C | {"ffn_width": "2112"}, "give a whole number"),
    ("A.5", lambda: {"heads": 6, "ffn_width": 2112}, "order C leaves 'heads' as it is"),
    # A.6: plans that the order does not want, limits taken for needs, other units
    ("A.6", defended("A", {"method": "LoRA mixed", "attention": "flash"}), "order A asks for all"),
    ("A.6", defended("A", {"removed": 6, "checkpointing": True, "batch": 1}), "6 of 12 heads are gone"),
    ("A.6", defended("B", {"kv_heads": 1, "attention": "flash"}), "192 keep them too"),
    ("A.6", defended("C", {"removed": 11, "ffn_width": 2048}), "of 12 heads 1 would be left"),
    ("A.6", lambda: ("C", GOOD_C, text("It needs 564 MB of 2 GB and, I assume, 15 ms.")), "takes at least 14.8 ms"),
    (
        "A.6",
        lambda: ("A", GOOD_A | {"batch": 3}, text("At least 580 ms of 0.7 s and the 2 GB.")),
        "needs 1,977 MB, which",
    ),
    ("A.6", lambda: ("A", GOOD_A, text("It needs 1.69 GiB of 2 GB, at least 580 ms of 700 ms.")), "in MB or GB"),
    ("A.6", lambda: ("A", GOOD_A, text("It needs 1,416 MB of 2 GB, at least 580 ms of 700 ms.")), "needs 1,816 MB"),
    ("A.6", lambda: ("A", GOOD_A, text("It needs 1,816 MB of 2 GB, at least 145 ms of 700 ms.")), "at least 580 ms"),
    ("A.6", lambda: ("A", GOOD_A | {"batch": 1}, text(numbers("A", GOOD_A))), "needs 1,656 MB"),
    ("A.6", lambda: (GOOD_A, "A", text(numbers("A", GOOD_A))), "then give the plan, then the text"),
    ("A.6", lambda: ("A", GOOD_A, ""), "your text has 0 words"),
]


@pytest.mark.parametrize(("name", "attempt", "words"), WRONG)
def test_a_students_wrong_answer_is_refused_and_its_mistake_named(name, attempt, words):
    result = check(name, attempt, CHECKS[name])
    assert result.status == NOT_YET and words in result.message, result


def test_the_answers_that_are_changed_here_are_right_before():
    right = {"A.1": counted(), "A.2": batch(), "A.3": lambda: GOOD_A, "A.4": lambda: GOOD_B, "A.5": lambda: GOOD_C}
    for name, attempt in right.items():
        assert check(name, attempt, CHECKS[name]).status == PASSED
    for name, plan in {"A": GOOD_A, "B": GOOD_B, "C": GOOD_C}.items():
        assert check("A.6", defended(name, plan), CHECKS["A.6"]).status == PASSED


def test_every_exercise_has_six_wrong_answers():
    assert all(sum(each == name for each, *_ in WRONG) >= 6 for name in CHECKS)


@pytest.mark.parametrize("given", [np.int64(6), np.int32(6)])
def test_whole_numbers_of_numpy_are_whole_numbers(given):
    assert check("A.5", lambda: GOOD_C | {"removed": given}, CHECKS["A.5"]).status == PASSED


# The page's statements, by hand.


def test_the_page_states_what_sizes_imply():
    page = (Path(__file__).parents[2] / "source/assessments/apply.py").read_text("utf8")
    vocabulary, n, d, layers, texts = 30522, 512, 768, 12, 96
    layer = 4 * (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d) + 2 * 2 * d
    total = (vocabulary + 512 + 2) * d + 2 * d + layers * layer + d * d + d
    assert planner.parameters(planner.BERT_BASE).total == total == 109_482_240
    half = 6 * layers * (4 * d * 64 + 3 * 64)
    stated = {
        f"take {16 * total / 1e6:,.0f} MB": "AdamW: weights, gradients, a copy and two moments",
        f"8-bit moments {6 * total / 1e6:.0f} MB": "two moments of 1 byte instead of 4",
        f"{16 * half / 1e6:.0f} MB of what stays": "half of the heads",
        f"{100 * half / total:.0f} % of": "half of the heads",
        f"would take {2 * texts * n * 50257 / 1e9:.1f} GB": "scores over GPT-2's vocabulary",
    }
    assert not [what for what in stated if what not in " ".join(page.replace("\n#", "").split())]
    cache = 2 * layers * n * d * 2 * texts
    assert apply.need("B", {}).parts.kv_cache == cache and round(cache / 1e6) == 1812
    per_layer = 24 * n * d * d + 4 * n * n * d
    head, columns = 8 * n * d * 64 + 4 * n * n * 64, 4 * n * d * 64
    assert [round(each / 1e9, 2) for each in (per_layer, head, columns)] == [8.05, 0.27, 0.10]


def test_of_the_three_ways_pruning_and_checkpointing_are_the_pair_that_fits():
    ways = {"removed": 6, "attention": "flash", "checkpointing": True}
    for left_out in ways:
        pair = {way: value for way, value in ways.items() if way != left_out}
        assert apply.need("A", {"batch": 1} | pair).fits == (left_out == "attention")
    assert apply.need("A", {"batch": 1, "removed": 5, "checkpointing": True}).fits
    assert apply.need("A", {"batch": 1, "removed": 8, "attention": "flash"}).fits
    assert not apply.need("A", {"batch": 1, "removed": 7, "attention": "flash"}).fits
    assert not apply.need("A", {"batch": 1, "removed": 4, "attention": "flash", "checkpointing": True}).fits


def test_a_last_batch_that_is_not_full_takes_no_more_than_its_texts():
    three = apply.need("A", GOOD_A | {"batch": 3})
    texts = [planner.seconds(planner.BERT_BASE, 512, n, GOOD_A["method"], machine=MACHINE) for n in (3, 3, 2)]
    assert three.passes == 3 and three.seconds == pytest.approx(sum(texts))
    assert three.seconds == pytest.approx(apply.need("A", GOOD_A).seconds, rel=0.01)  # operations bind, as many
    assert apply.judge("A", GOOD_A | {"batch": 3}).loc["time", "made of"] == "3 batches of up to 3"
