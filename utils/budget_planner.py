"""The budget-planner: the memory of a model by part against a budget, and its least time against a limit.

All numbers are those of ``utils.planner``. The element computes them again from the sizes, in
``utils/js/budget-planner.js``; a test in the browser compares the two over a grid of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape

from utils import planner
from utils.elements import Figure, palette, rich, table
from utils.payload import SVG, data_uri
from utils.planner import CONTEXT_BYTES, METHODS, Architecture, Machine

MACHINE = Machine(flop_per_second=4e12, bytes_per_second=50e9)
"""An assumption, and no product: what a small GPU might reach, 4 TFLOP/s and 50 GB/s. Measure your own."""

HINT = "Open a setting, then change one thing at a time. Bytes and FLOPs are counted; the speeds are an assumption."
PARTS = ("weights", "gradients", "optimiser", "activations", "kv_cache", "context")
COLOURS = ("value", "key", "output", "query", "key", "null")  # gradients and a cache are never there together
VALUES = {
    "layers": (1, 2, 4, 6, 8, 12, 16, 24, 32, 48),
    "width": (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096),
    "vocabulary": (1000, 8000, 16000, 30522, 32000, 50257, 128256),
    "tokens": (16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 32768),
    "batch": (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512),
}
"""What the sliders of the element offer; the value of an opening setting is added."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One plan and its limits.

    architecture: before pruning. removed: query heads taken out of every layer. generate: the time is that of one more
    token for each text, with a full cache, instead of a whole pass (decoders only). budget and context: bytes. limit:
    seconds, or None. Positions are taken to reach as far as ``tokens``.
    """

    architecture: Architecture
    tokens: int = 512
    batch: int = 1
    method: str = "inference float16"
    attention: str = "eager"
    removed: int = 0
    checkpointing: bool = False
    generate: bool = False
    budget: int = 2 * 10**9
    context: int = CONTEXT_BYTES
    machine: Machine = MACHINE
    limit: float | None = None

    @property
    def left(self) -> Architecture:
        """The architecture after pruning, with enough positions."""
        a = self.architecture.without_heads(self.removed)
        return replace(a, positions=max(a.positions, self.tokens)) if a.positions else a


def costs(setting: Setting) -> dict[str, float]:
    """What a setting costs, by ``utils.planner``.

    Keys: parameters, trainable, the parts of ``planner.Memory`` and their total, all in bytes; work (FLOPs of the pass,
    the training step or the next tokens) and moved (bytes read or written for it), seconds; largest: the largest batch
    that keeps both limits, 0 when one text is too many.
    """
    s = setting
    parts = _memory(s)
    return {
        "parameters": planner.parameters(s.left).total,
        "trainable": planner.trainable(s.left, METHODS[s.method].trained),
        **parts._asdict(),
        "total": parts.total,
        "work": seconds(replace(s, machine=Machine(1.0, 1e300))),
        "moved": seconds(replace(s, machine=Machine(1e300, 1.0))),
        "seconds": seconds(s),
        "largest": planner.largest_batch(lambda batch: fits(replace(s, batch=batch))),
    }


def seconds(setting: Setting) -> float:
    """The lower bound of ``planner.seconds``, or of ``planner.seconds_per_token`` for a setting that generates."""
    s = setting
    if s.generate:
        return planner.seconds_per_token(s.left, s.tokens, s.batch, s.method, machine=s.machine)
    options = {"machine": s.machine, "checkpointing": s.checkpointing}
    return planner.seconds(s.left, s.tokens, s.batch, s.method, **options)


def fits(setting: Setting) -> bool:
    """Whether a setting keeps its limits."""
    in_time = setting.limit is None or seconds(setting) <= setting.limit
    return in_time and _memory(setting).total <= setting.budget


def _memory(s: Setting) -> planner.Memory:
    options = {"attention": s.attention, "checkpointing": s.checkpointing, "context": s.context}
    return planner.memory(s.left, s.tokens, s.batch, s.method, **options)


def budget_planner(settings: Mapping[str, Setting], *, title: str, alt: str) -> Figure:
    """A calculator: bytes by part against the budget, time against the limit, and what single changes would do.

    settings: name → setting; the first is shown first, the others can be chosen.
    Raises ValueError for no setting, and for one that ``utils.planner`` refuses.
    """
    if not settings:
        raise ValueError("no settings: give at least one, such as {'BERT-base': Setting(architecture=BERT_BASE)}")
    for each in settings.values():
        costs(each)
    data = {
        "colours": dict(zip(PARTS, COLOURS, strict=True)),
        "hint": HINT,
        "methods": {name: list(how) for name, how in METHODS.items()},
        "settings": [{"name": name, **flat(each)} for name, each in settings.items()],
        "title": title,
        "values": {name: list(values) for name, values in VALUES.items()},
    }
    return Figure("budget-planner", data, alt, _fallback(settings, title, alt))


def flat(setting: Setting) -> dict[str, object]:
    """A setting as the element keeps it: sizes and limits side by side."""
    found = asdict(setting)
    found.pop("machine")
    return found.pop("architecture") | found | setting.machine._asdict()


def megabytes(value: float) -> str:
    """Whole megabytes of 10⁶ bytes, as the element writes them."""
    return f"{int(value / 1e6 + 0.5):,} MB"


def duration(value: float) -> str:
    """Three digits, in milliseconds below a second."""
    size, unit = (value, "s") if value >= 0.9995 else (1e3 * value, "ms")
    return f"{size:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f} {unit}"


def _fallback(settings: Mapping[str, Setting], title: str, alt: str) -> str:
    """A picture of the first setting and a table of all."""
    rows, names = [], {"kv_cache": "key/value cache", "optimiser": "optimiser states"}
    for name, setting in settings.items():
        found = costs(setting)
        limit = "" if setting.limit is None else f" of {duration(setting.limit)}"
        shown = [megabytes(found[part]) for part in PARTS]
        total = f"{megabytes(found['total'])} of {megabytes(setting.budget)}"
        rows.append([name, *shown, total, duration(found["seconds"]) + limit, "yes" if fits(setting) else "no"])
    head = ["setting", *(names.get(part, part) for part in PARTS), "together", "at least", "fits"]
    picture = f'<img alt="{escape(alt)}" src="{_picture(next(iter(settings.values())))}">'
    return f"<p><strong>{rich(title)}</strong></p>{picture}{table(head, rows)}"


def _picture(setting: Setting) -> str:
    """A stacked bar of the parts with a line at the budget, as a data URI."""
    found = costs(setting)
    scale, at = 340 / max(found["total"], setting.budget), 10.0
    body = '<rect width="360" height="70" fill="#fff"/>'
    for part, colour in zip(PARTS, COLOURS, strict=True):
        wide = found[part] * scale
        body += f'<rect x="{at:.1f}" y="20" width="{wide:.1f}" height="30" fill="{palette()[colour]["light"]}"/>'
        at += wide
    line = 10 + setting.budget * scale
    body += f'<path d="M{line:.1f} 8V62" stroke="#1c2430" stroke-width="2" stroke-dasharray="4 3"/>'
    svg = f'<svg xmlns="{SVG}" width="360" height="70">{body}</svg>'
    return data_uri(svg.encode(), "image/svg+xml")
