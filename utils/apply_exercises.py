"""What the assessment "Apply" asks of each exercise: an AssertionError says what went wrong, and by how much."""

from __future__ import annotations

import re
from collections.abc import Callable

from utils import apply, planner
from utils.budget_planner import MACHINE, duration, megabytes
from utils.planner import BERT_BASE, METHODS, MINILM

QUANTITY = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s*(MB|GB|ms|s)\b")
UNITS = {"MB": 1e6, "GB": 1e9, "ms": 1e-3, "s": 1.0}
WORDS = range(60, 251)


def knows_what_heads_change(attempt: Callable) -> None:
    """A.1: attempt(tokens, width, heads) → (weights of a layer's attention, its FLOPs in n², bytes of its scores)."""
    for n, d, heads in ((512, 768, 12), (512, 768, 8), (100, 384, 6)):
        found = attempt(n, d, heads)
        assert isinstance(found, tuple | list) and len(found) == 3, "return three numbers: weights, FLOPs, bytes"
        weights, flops, size = (float(each) for each in found)
        case = f"for n = {n}, d = {d}, H = {heads}"
        assert weights != 4 * d * d * heads, "weights: a head's matrices have d_h columns, not d; all heads make d"
        assert weights != 4 * d * d // heads, "weights: that is one head, 4 d d_h; a layer has H of them"
        assert weights != 3 * d * d, "weights: W_Q, W_K, W_V are there, and W_O is missing"
        assert weights == 4 * d * d, (
            f"weights {case}: four matrices of d × d make {4 * d * d:,}, you say {weights:,.0f}"
        )
        assert flops != 4 * n * n * d * heads, "FLOPs: a head's products have width d_h = d/H, so H cancels"
        assert flops != 4 * n * n * d // heads, "FLOPs: that is one head; a layer has H of them"
        assert flops != 2 * n * n * d, "FLOPs: Q Kᵀ is counted; P V takes as many again"
        assert flops == 4 * n * n * d, f"FLOPs {case}: 4 n² d = {4 * n * n * d:,}, you say {flops:,.0f}"
        assert size != n * n * 2, "bytes: that is one head; every head has scores of its own"
        assert size not in (heads * n * n, heads * n * n * 4), "bytes: the numbers are float16, 2 bytes each"
        assert size != 2 * n * n * d, "bytes: a score is one number, not a vector of width d_h"
        assert size == 2 * heads * n * n, f"bytes {case}: 2 H n² = {2 * heads * n * n:,}, you say {size:,.0f}"


def finds_the_largest_batch(attempt: Callable) -> None:
    """A.2: attempt(sizes, tokens, attention, budget, context, limit) → most texts in a pass, float16, 0 when none."""
    cases = [
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 1e6),
        (BERT_BASE, 512, "flash", 2 * 10**9, 400_000_000, 1e6),
        (BERT_BASE.with_heads(24), 512, "eager", 2 * 10**9, 0, 1e6),
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 0.5),
        (MINILM, 128, "eager", 10**9, 400_000_000, 0.004),
        (BERT_BASE, 512, "eager", 10**9, 900_000_000, 1e6),
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 0.02),
    ]
    exact = planner.memory(BERT_BASE, 512, 5).total
    for case in [*cases, (BERT_BASE, 512, "eager", exact, 0, 1e6)]:
        found, right = attempt(*case), _largest(*case)
        if found != right:
            _explain_batch(found, right, case)


def _largest(sizes, tokens, attention, budget, context, limit, method="inference float16") -> int:
    def fits(batch: int) -> bool:
        total = planner.memory(sizes, tokens, batch, method, attention=attention, context=context).total
        return total <= budget and planner.seconds(sizes, tokens, batch, method, machine=MACHINE) <= limit

    return planner.largest_batch(fits)


def _explain_batch(found: object, right: int, case: tuple) -> None:
    sizes, tokens, attention, budget, context, limit = case
    where = f"{sizes.heads} heads, {tokens} tokens, {attention}, {megabytes(budget)}, {megabytes(context)} of context"
    where += f", {limit:g} s: "
    assert not isinstance(found, bool) and hasattr(found, "__index__"), f"return a whole number, not {found!r}"
    assert right or found != 1, where + "not even one text keeps the limits: return 0"
    assert found != _largest(*case[:4], 0, limit), where + f"{found} texts fit if nobody takes the context: count it"
    assert found != _largest(*case[:5], 1e9), where + f"{found} texts fit into memory, but take longer than the limit"
    assert found != _largest(*case[:3], 1e18, 0, limit), where + f"{found} texts are in time, but memory is too small"
    other = "flash" if attention == "eager" else "eager"
    assert found != _largest(sizes, tokens, other, *case[3:]), where + f"{found} is right for {other} attention"
    assert found != _largest(*case, method="inference float32"), where + f"{found} is right for float32, not float16"
    assert found != right + 1, where + f"{found} is the first batch that no longer fits: one text fewer"
    assert found != right - 1, where + f"{found} leaves room for one more: a budget may be used up to its last byte"
    raise AssertionError(where + f"expected {right}, got {found}")


def _keeps_its_limits(name: str, plan: object) -> apply.Need:
    """What a plan needs. Says which limit of the order it breaks, and by how much."""
    try:
        found = apply.need(name, plan)
    except (TypeError, ValueError) as error:
        raise AssertionError(str(error)) from None
    broken, setting = [], found.setting
    if found.memory_over > 0:
        largest = f"{apply.part_name(found.largest)} with {megabytes(getattr(found.parts, found.largest))}"
        broken.append(
            f"it breaks the memory limit by {megabytes(found.memory_over)}: it needs {megabytes(found.parts.total)} of "
            f"{megabytes(setting.budget)}, most of it {largest}"
        )
    if found.time_over > 0:
        broken.append(
            f"it breaks the time limit by {duration(found.time_over)}: it takes at least {duration(found.seconds)}, "
            f"and {duration(setting.limit)} are allowed"
        )
    assert not broken, "; ".join(broken)
    return found


def fine_tunes_within_limits(attempt: Callable) -> None:
    """A.3: attempt() → a plan for order A."""
    plan = attempt()
    how = METHODS.get(plan.get("method", "AdamW mixed")) if isinstance(plan, dict) else None
    if how and how.trained not in ("everything", "nothing"):
        counted, whole = planner.trainable(BERT_BASE, how.trained), planner.parameters(BERT_BASE).total
        raise AssertionError(f"{plan['method']!r} trains {counted:,} of {whole:,} parameters: order A asks for all")
    assert not how or how.optimiser or how.trained == "nothing", "plain SGD keeps no moments: order A asks for Adam"
    found = _keeps_its_limits("A", plan)
    if found.setting.removed:
        whole = apply.need("A", plan | {"removed": 0})
        assert not whole.fits, "it keeps both limits, and would keep them with all heads: prune none"
        saved, other = _saved({"removed": found.setting.removed}), _saved({"method": "8-bit Adam mixed"})
        raise AssertionError(
            f"it keeps both limits, and {found.setting.removed} of 12 heads are gone: that saves {megabytes(saved)} of "
            f"weights, gradients and states, where another optimiser saves {megabytes(other)} and costs no head"
        )


def _saved(change: dict) -> int:
    """Bytes of weights, gradients and states that a change saves from order A."""
    before, after = (apply.need("A", plan).parts for plan in ({}, change))
    return sum(before[:3]) - sum(after[:3])


def decodes_within_limits(attempt: Callable) -> None:
    """A.4: attempt() → a plan for order B."""
    plan = attempt()
    heads = plan.get("heads", 12) if isinstance(plan, dict) else 12
    narrow = isinstance(heads, int) and heads > 0 and 768 % heads == 0 and 768 // heads < apply.HEAD_WIDTH
    assert not narrow, f"{heads} heads are {768 // heads if narrow else 0} wide: order B asks for at least 64"
    a, widest = _keeps_its_limits("B", plan).setting.architecture, apply.widest_keys()
    assert a.key_width == widest, (
        f"it keeps both limits, but a token's keys are {a.key_width} numbers a layer ({a.kv_heads} × {a.head_width}): "
        f"{widest} keep them too, and order B asks for the most"
    )


def answers_in_time(attempt: Callable) -> None:
    """A.5: attempt() → a plan for order C that removes no more than it must."""
    plan = attempt()
    given = plan if isinstance(plan, dict) else {}
    removed, f = given.get("removed", 0), given.get("ffn_width", 3072)
    if isinstance(removed, int) and isinstance(f, int):
        left = 12 - removed
        assert left >= apply.HEADS_LEFT, (
            f"{left} heads a layer would be left: order C keeps at least {apply.HEADS_LEFT}"
        )
        assert f >= apply.FFN_LEFT, f"a feed-forward width of {f} is below what order C keeps, {apply.FFN_LEFT}"
        assert f <= 3072, f"ffn_width is {f}: the model has 3,072, and pruning makes none wider"
        assert f % apply.NEAREST == 0, f"ffn_width is {f}: take a multiple of {apply.NEAREST}"
    try:
        _keeps_its_limits("C", plan)
    except AssertionError as error:
        if removed == 12 - apply.HEADS_LEFT and f == 3072 and "time limit" in str(error):
            raise AssertionError(f"{error}. All heads that may go are gone: the rest lies elsewhere") from None
        raise
    for back, words in (
        ({"removed": removed - 1}, "one head more a layer"),
        ({"ffn_width": f + 64}, "64 columns more"),
    ):
        if back.get("removed", 0) >= 0 and back.get("ffn_width", 0) <= 3072:
            more = apply.need("C", given | back)
            assert not more.fits, f"it removes more than it must: {words} still takes {duration(more.seconds)}"


def agrees_with_its_plan(attempt: Callable) -> None:
    """A.6: attempt() → (order, plan, text). The plan keeps its limits, and the text has its numbers."""
    found = attempt()
    assert isinstance(found, tuple | list) and len(found) == 3, "return three things: the order, the plan, the text"
    name, plan, text = found
    assert name in apply.ORDERS, f"the order is {name!r}: name one of {', '.join(apply.ORDERS)}"
    assert isinstance(text, str), f"the text is of type {type(text).__name__}: write sentences"
    needs, words = _keeps_its_limits(name, plan), len(text.split())
    assert words in WORDS, f"your text has {words} words: between {WORDS.start} and {WORDS.stop - 1}, please"
    said = [(float(number.replace(",", "")) * UNITS[unit], unit) for number, unit in QUANTITY.findall(text)]
    memory, seconds = needs.parts.total, needs.seconds
    assert any(unit in ("MB", "GB") and abs(value / memory - 1) < 0.02 for value, unit in said), (
        f"your plan needs {megabytes(memory)}, which your text does not say (with its unit, within 2 %)"
    )
    assert any(unit in ("ms", "s") and abs(value / seconds - 1) < 0.03 for value, unit in said), (
        f"your plan takes at least {duration(seconds)}, which your text does not say (with its unit, within 3 %)"
    )
    limits = {"memory": needs.setting.budget, "time": needs.setting.limit}
    for what, value in limits.items():
        units = ("MB", "GB") if what == "memory" else ("ms", "s")
        assert any(unit in units and abs(each / value - 1) < 1e-6 for each, unit in said), (
            f"your text does not name the limit of {what}"
        )
    assert re.search(r"assum|measur|roofline|lower bound|at least", text, re.IGNORECASE), (
        "say of the time whether it is measured, a bound, or rests on an assumption"
    )
