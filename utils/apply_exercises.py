"""What the assessment "Apply" asks of each exercise: an AssertionError says what went wrong, and by how much."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from numbers import Real

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
        three = isinstance(found, tuple | list) and len(found) == 3 and all(isinstance(each, Real) for each in found)
        assert three, f"return three numbers: weights, FLOPs, bytes, not {found!r}"
        right = (4 * d * d, 4 * n * n * d, 2 * heads * n * n)
        moved = sorted(found) == sorted(right) and tuple(found) != right
        assert not moved, "the numbers are right, their order is not: weights, then FLOPs, then bytes"
        formulas = ("weights", "four matrices of d × d make"), ("FLOPs", "4 n² d ="), ("bytes", "2 H n² =")
        for (what, formula), said, value, named in zip(formulas, found, right, _mistakes(n, d, heads), strict=True):
            assert said == value or said not in named, f"{what}: {named.get(said)}"
            case = f"for n = {n}, d = {d}, H = {heads}"
            assert said == value, f"{what} {case}: {formula} {value:,}, you say {said:,.10g}"


def _mistakes(n: int, d: int, heads: int) -> tuple[dict[float, str], ...]:
    """For weights, FLOPs and bytes: a wrong number → the mistake behind it."""
    flops, size = 4 * n * n * d, 2 * heads * n * n
    of_weights = {
        4 * d * d * heads: "a head's matrices have d_h columns, not d; all heads make d",
        4 * d * d // heads: "that is one head, 4 d d_h; a layer has H of them",
        3 * d * d: "W_Q, W_K, W_V are there, and W_O is missing",
        4 * d * d + 4 * d: "that is with biases, 4 d of them; asked is without",
        4 * n * n: "that is 4 n²; the matrices are d × d, whatever the number of tokens",
        4 * d * heads * 64: "a head is d/H wide, which is 64 in BERT-base only",
    }
    of_flops = {
        flops * heads: "a head's products have width d_h = d/H, so H cancels",
        flops // heads: "that is one head; a layer has H of them",
        flops // 2: "that is half. If only Q Kᵀ is counted: P V takes as many again; a multiply-add is 2 FLOPs",
        flops + 8 * n * d * d: "the projections are counted too; asked are Q Kᵀ and P V",
        4 * n * d * d: "that is 4 n d²; each token meets each token, so these products grow with n²",
        4 * n * n * heads * 64: "a head is d/H wide, which is 64 in BERT-base only",
        flops / 1e9: "that is in GFLOP; give FLOPs",
    }
    of_bytes = {
        size // heads: "that is one head; every head has scores of its own",
        size // 2: "that is how many numbers there are; in float16 they have 2 bytes each",
        size * 2: "that is twice as much: float16 has 2 bytes each, and only the scores are asked for",
        2 * n * n * d: "a score is one number, not a vector of width d_h",
        size / 1e6: "that is in MB; give bytes",
    }
    return of_weights, of_flops, of_bytes


def finds_the_largest_batch(attempt: Callable) -> None:
    """A.2: attempt(sizes, tokens, attention, budget, context, limit) → most texts in a pass, float16, 0 when none."""
    exact = planner.memory(BERT_BASE, 512, 5).total
    exact_time = planner.seconds(BERT_BASE, 512, 7, "inference float16", machine=MACHINE)
    cases = [
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 1e6),
        (BERT_BASE, 512, "flash", 2 * 10**9, 400_000_000, 1e6),
        (BERT_BASE.with_heads(24), 512, "eager", 2 * 10**9, 0, 1e6),
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 0.5),
        (MINILM, 128, "eager", 10**9, 400_000_000, 0.004),
        (BERT_BASE, 512, "eager", 10**9, 900_000_000, 1e6),
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, 0.02),
        (BERT_BASE, 512, "eager", exact, 0, 1e6),
        (BERT_BASE, 512, "eager", 2 * 10**9, 400_000_000, exact_time),
    ]
    for case in cases:
        found, right = attempt(*case), _largest(*case)
        assert _integer(found) is not None, f"return a whole number, not {found!r}"
        if found != right:
            _explain_batch(found, right, case)


def _largest(sizes, tokens, attention, budget, context, limit, method="inference float16") -> int:
    def fits(batch: int) -> bool:
        total = planner.memory(sizes, tokens, batch, method, attention=attention, context=context).total
        return total <= budget and planner.seconds(sizes, tokens, batch, method, machine=MACHINE) <= limit

    return planner.largest_batch(fits)


def _explain_batch(found: int, right: int, case: tuple) -> None:
    sizes, tokens, attention, budget, context, limit = case
    where = f"{sizes.heads} heads, {tokens} tokens, {attention}, {megabytes(budget)}, {megabytes(context)} of context"
    where += f", {limit:g} s: "
    assert right or found != 1, where + "not even one text keeps the limits: return 0"
    other = "flash" if attention == "eager" else "eager"
    mistakes = (  # "or None": a 0 would say nothing
        (_largest(*case[:4], 0, limit), "texts fit if nobody takes the context: count it"),
        (_largest(*case[:5], 1e9), "texts fit into memory, but take longer than the limit"),
        (_largest(*case[:3], 1e18, 0, limit), "texts are in time, but memory is too small"),
        (_largest(sizes, tokens, other, *case[3:]), f"is right for {other} attention"),
        (_largest(*case, method="inference float32"), "is right for float32, not float16"),
        (_largest(*case[:4], 2 * context, limit) or None, "counts the context twice: pass it on, `total` has it then"),
        (_largest(sizes, 512, *case[2:]) or None, "is right for 512 tokens: pass on the tokens that are given"),
        (_largest(BERT_BASE, *case[1:]) or None, "is right for BERT-base: pass on the sizes that are given"),
        (_largest(*case[:3], 2 * 10**9, context, limit) or None, "is right for 2,000 MB: pass on the given budget"),
        (_largest(*case[:5], limit / 1000), "takes the limit for milliseconds: it is in seconds"),
        (right + 1, "is the first batch that no longer fits: one text fewer"),
        (right - 1, "leaves room for one more: memory may be used up to its last byte, and time exactly"),
    )
    for value, words in mistakes:
        assert found != value, where + f"{found} {words}"
    raise AssertionError(where + f"expected {right}, got {found}")


def _integer(value: object) -> int | None:
    """A whole number, numpy's as well; None for another kind of value, and for True and False."""
    return operator.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None


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
    method = plan.get("method", "AdamW mixed") if isinstance(plan, dict) else None
    how = METHODS.get(method) if isinstance(method, str) else None
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
    heads = _integer(plan.get("heads", 12)) if isinstance(plan, dict) else None
    narrow = heads is not None and heads > 0 and 768 % heads == 0 and 768 // heads < apply.HEAD_WIDTH
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
    removed, f = _integer(given.get("removed", 0)), _integer(given.get("ffn_width", 3072))
    if removed is not None and f is not None:
        left = 12 - removed
        assert left >= apply.HEADS_LEFT, f"of 12 heads {left} would be left: order C keeps at least {apply.HEADS_LEFT}"
        assert f >= apply.FFN_LEFT, f"ffn_width, what stays, is {f:,}: below what order C keeps, {apply.FFN_LEFT:,}"
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
            assert not more.fits, (
                f"it removes more than it must: {words} would keep the limits too, with {duration(more.seconds)}"
            )


def agrees_with_its_plan(attempt: Callable) -> None:
    """A.6: attempt() → (order, plan, text). The plan keeps its limits, and the text has its numbers."""
    found = attempt()
    assert isinstance(found, tuple | list) and len(found) == 3, "return three things: the order, the plan, the text"
    name, plan, text = found
    known = isinstance(name, str) and name in apply.ORDERS
    assert known, f"the order is {name!r}: name one of {', '.join(apply.ORDERS)}, then give the plan, then the text"
    assert isinstance(text, str), f"the text is of type {type(text).__name__}: write sentences"
    rules = {"A": fine_tunes_within_limits, "B": decodes_within_limits, "C": answers_in_time}
    try:
        rules[name](lambda: plan)
    except AssertionError as error:
        raise AssertionError(f"the plan is not what order {name} asks for: {error}") from None
    words = len(text.split())
    assert words in WORDS, f"your text has {words} words: between {WORDS.start} and {WORDS.stop - 1}, please"
    _says_its_numbers(text, apply.need(name, plan))
    assert re.search(r"assum|measur|roofline|lower bound|at least", text, re.IGNORECASE), (
        "say of the time whether it is measured, a bound, or rests on an assumption"
    )


def _says_its_numbers(text: str, needs: apply.Need) -> None:
    """The text has what a plan needs and both limits. A limit counts for a need only where it is said twice."""
    said = [(float(number.replace(",", "")) * UNITS[unit], unit) for number, unit in QUANTITY.findall(text)]
    memory, seconds = needs.parts.total, needs.seconds
    for what, units, value, limit, near, need in (
        ("memory", ("MB", "GB"), memory, needs.setting.budget, 0.02, f"needs {megabytes(memory)}"),
        ("time", ("ms", "s"), seconds, needs.setting.limit, 0.03, f"takes at least {duration(seconds)}"),
    ):
        numbers = [number for number, unit in said if unit in units]
        limits = [number for number in numbers if abs(number / limit - 1) < 1e-6]
        others = [number for number in numbers if number not in limits[:1]] + limits[1:]
        assert any(abs(number / value - 1) < near for number in others), (
            f"your plan {need}, which your text does not say (in {' or '.join(units)}, within {100 * near:.0f} %)"
        )
        assert limits, f"your text does not name the limit of {what}"
