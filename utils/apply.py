"""The assessment "Apply": three orders with limits of memory and time, and what a plan for one of them needs.

A plan is a dictionary of what it changes, such as ``{"attention": "flash", "batch": 2}``. What it needs is computed by
``utils.planner``; the speeds of the machine are an assumption (``utils.budget_planner.MACHINE``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from utils.budget_planner import PARTS, Setting, costs, duration, megabytes
from utils.planner import BERT_BASE, GPT2, METHODS, Memory
from utils.planner.memory import method_of
from utils.planner.sizes import whole

SAID = {"optimiser": "the optimiser's states", "kv_cache": "the key/value cache", "context": "driver and libraries"}
NEAREST = 64  # columns of the feed-forward network are counted in blocks of 64
HEADS_LEFT, FFN_LEFT, HEAD_WIDTH = 4, 1536, 64  # what order C leaves of a layer at least; what order B asks of a head


@dataclass(frozen=True)
class Order:
    """One order. setting: where it starts; texts: those of a step or pass; free: what a plan may change."""

    setting: Setting
    texts: int
    free: tuple[str, ...]


ORDERS = {
    "A": Order(
        Setting(architecture=BERT_BASE, method="AdamW mixed", batch=8, limit=0.7),
        8,
        ("method", "attention", "checkpointing", "batch", "removed"),
    ),
    "B": Order(
        Setting(architecture=replace(GPT2, output="none"), batch=96, generate=True, limit=0.015),
        96,
        ("heads", "kv_heads", "attention"),
    ),
    "C": Order(
        Setting(architecture=BERT_BASE, limit=0.015),
        1,
        ("removed", "ffn_width", "attention"),
    ),
}
"""A: all weights of BERT-base are fine-tuned, 8 texts a step. B: a GPT-2-sized decoder answers 96 readers at once, with
scores over the vocabulary for the newest token only. C: BERT-base reads one text."""


@dataclass(frozen=True)
class Need:
    """What a plan needs. passes: how often the batch is run for one step, when its texts come in parts."""

    setting: Setting
    parts: Memory
    passes: int
    seconds: float

    @property
    def memory_over(self) -> int:
        """Bytes above the budget; negative: to spare."""
        return self.parts.total - self.setting.budget

    @property
    def time_over(self) -> float:
        """Seconds above the limit; negative: to spare."""
        return self.seconds - self.setting.limit

    @property
    def fits(self) -> bool:
        return self.memory_over <= 0 and self.time_over <= 0

    @property
    def largest(self) -> str:
        """The largest part of the memory, one of ``budget_planner.PARTS``."""
        return max(PARTS, key=lambda part: getattr(self.parts, part))


def order(name: str) -> Order:
    """One of the three. Raises ValueError for another name."""
    if name not in ORDERS:
        raise ValueError(f"no order is called {name!r}: there are {', '.join(ORDERS)}")
    return ORDERS[name]


def setting_of(name: str, plan: Mapping[str, object]) -> Setting:
    """The setting of an order after a plan's changes. Raises ValueError or TypeError for changes that make no plan."""
    given = order(name)
    if not isinstance(plan, Mapping):
        raise TypeError(f"a plan is a dictionary of what it changes, such as {{'attention': 'flash'}}, not {plan!r}")
    if unknown := [key for key in plan if key not in given.free]:
        raise ValueError(f"order {name} leaves {unknown[0]!r} as it is: a plan may change {', '.join(given.free)}")
    plan, a = dict(plan), given.setting.architecture
    if {"heads", "kv_heads"} & set(plan):
        a = a.with_heads(plan.pop("heads", a.heads), plan.pop("kv_heads", None))
    if "ffn_width" in plan:
        a = replace(a, ffn_width=plan.pop("ffn_width"))
    for key in ("batch", "removed"):
        if key in plan:
            whole(key, plan[key], least=int(key == "batch"))
    if not isinstance(plan.get("checkpointing", False), bool):
        raise TypeError(f"checkpointing is {plan['checkpointing']!r}: give True or False")
    found = replace(given.setting, architecture=a, **plan)
    method_of(found.method)
    if name == "A" and METHODS[found.method].trained == "nothing":
        raise ValueError(f"{found.method!r} trains nothing: order A is about fine-tuning")
    if found.batch > given.texts:
        raise ValueError(f"batch is {found.batch}, but a step has {given.texts} texts: give at most so many")
    return found


def need(name: str, plan: Mapping[str, object]) -> Need:
    """What a plan for an order needs. Texts beyond the batch run batch after batch, and the last may be smaller."""
    setting = setting_of(name, plan)
    found = costs(setting)
    whole_batches, rest = divmod(order(name).texts, setting.batch)
    seconds = whole_batches * found["seconds"]
    if rest:
        seconds += costs(replace(setting, batch=rest))["seconds"]
    parts = Memory(**{part: found[part] for part in Memory._fields})
    return Need(setting, parts, whole_batches + bool(rest), seconds)


def judge(name: str, plan: Mapping[str, object]) -> pd.DataFrame:
    """What a plan needs against the limits of an order: a row for memory, a row for time."""
    found = need(name, plan)
    largest = f"mostly {part_name(found.largest)}: {megabytes(getattr(found.parts, found.largest))}"
    batches = "1 batch of" if found.passes == 1 else f"{found.passes} batches of"
    batches += "" if order(name).texts % found.setting.batch == 0 else " up to"
    rows = {
        "memory": [
            megabytes(found.parts.total),
            megabytes(found.setting.budget),
            _margin(found.memory_over, megabytes),
        ],
        "time": [duration(found.seconds), duration(found.setting.limit), _margin(found.time_over, duration)],
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["needs", "limit", "margin"])
    return table.assign(**{"made of": [largest, f"{batches} {found.setting.batch}"]})


def _margin(over: float, shown: Callable[[float], str]) -> str:
    return f"{shown(abs(over))} {'too much' if over > 0 else 'to spare'}"


def part_name(part: str) -> str:
    """A part of the memory as a reader calls it."""
    return SAID.get(part, part)


def widest_keys() -> int:
    """H_kv d_h of the widest keys and values that keep both limits of order B, over all splits into heads of 64 up."""
    width = order("B").setting.architecture.width
    found = [0]
    for heads in (each for each in range(1, width // HEAD_WIDTH + 1) if width % each == 0):
        for kv_heads in (each for each in range(1, heads + 1) if heads % each == 0):
            for attention in ("eager", "flash"):
                each = need("B", {"heads": heads, "kv_heads": kv_heads, "attention": attention})
                found += [each.setting.architecture.key_width] if each.fits else []
    return max(found)
