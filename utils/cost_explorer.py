"""The cost-explorer: what n² counts in a layer, beside the work and the bytes that grow with n alone.

All numbers are those of ``utils.planner``. The element computes them again from a model's sizes, in
``utils/js/cost-explorer.js``; a test in the browser compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from math import ceil, log10

from utils import planner
from utils.elements import Figure, rich, table
from utils.payload import SVG, data_uri
from utils.planner import Architecture

LENGTHS = tuple(sorted([64 * 2**k for k in range(12)] + [96 * 2**k for k in range(11)]))  # 64 to 131,072
BYTES = 2  # of a number, as in float16
HINT = "Move the length, also by dragging in the chart, or choose another model. One text, forward, numbers of 2 bytes."


def costs(architecture: Architecture, n: int) -> dict[str, float]:
    """What one text of n tokens costs, by ``utils.planner``; positions are taken to reach as far as n.

    entries: scores a head. projections, ffn, scores: operations of one layer; share: that of scores in their sum.
    crossover: the n at which the share is a half. score_bytes: the scores of one layer, all heads; flash_bytes: what
    flash attention keeps instead when it trains (float32; all other bytes are of numbers of ``BYTES``). kv_bytes: keys
    and values of one layer. eager, flash: bytes live at the peak of a layer's forward pass.
    """
    a = replace(architecture, positions=0, output="none")
    work = planner.layer_flops(a, n)
    peaks = {kind: planner.transient(a, n, attention=kind, value_bytes=BYTES) for kind in ("eager", "flash")}
    return {
        "entries": n * n,
        "projections": work.projections,
        "ffn": work.ffn,
        "scores": work.scores,
        "share": work.scores / work.total,
        "crossover": planner.compute_crossover(a),
        "score_bytes": planner.score_matrix(a, n, value_bytes=BYTES),
        "flash_bytes": planner.flash_state(a, n),
        "kv_bytes": 2 * n * a.key_width * BYTES,
    } | peaks


def cost_explorer(models: Mapping[str, Architecture], *, n: int = 512, title: str, alt: str) -> Figure:
    """A calculator: operations of a layer over n on logarithmic axes, their shares, and bytes.

    models: name → architecture; the first is shown first. n: the length shown first, one of ``LENGTHS``.
    Raises ValueError for no model and for another length.
    """
    if not models:
        raise ValueError("no models: give at least one, such as {'BERT-base': planner.BERT_BASE}")
    if n not in LENGTHS:
        near = min(LENGTHS, key=lambda each: abs(each - n))
        raise ValueError(f"n is {n}: the figure has the lengths {LENGTHS[0]} to {LENGTHS[-1]}, the nearest is {near}")
    sizes = [
        {
            "name": name,
            "width": a.width,
            "heads": a.heads,
            "query": a.query_width,
            "key": a.key_width,
            "ffn": a.ffn_width,
            "gated": a.gated,
        }
        for name, a in models.items()
    ]
    data = {"bytes": BYTES, "hint": HINT, "lengths": LENGTHS, "models": sizes, "n": n, "title": title}
    return Figure("cost-explorer", data, alt, _fallback(models, n, title, alt))


def amount(value: float) -> str:
    """Three digits and a prefix, as the element writes it: 805306368 → "805 M"."""
    for size, prefix in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * size:
            digits = value / size
            return f"{digits:.{0 if digits >= 99.95 else 1 if digits >= 9.995 else 2}f}{prefix}"
    return f"{value:.0f} "


def _fallback(models: Mapping[str, Architecture], n: int, title: str, alt: str) -> str:
    """A picture and a table of the opening model."""
    name, architecture = next(iter(models.items()))
    rows = []
    for each in sorted({n, 128, 512, 2048, 4096, 8192, 65536}):
        found = costs(architecture, each)
        linear = found["projections"] + found["ffn"]
        shown = [amount(found["scores"]), amount(linear), f"{100 * found['share']:.0f} %"]
        rows.append([f"{each:,}", amount(found["entries"]), *shown, amount(found["score_bytes"]) + "B"])
    head = ["tokens n", "scores a head", "FLOPs in n²", "FLOPs in n", "share of n²", "scores, one layer"]
    picture = f'<img alt="{escape(alt)}" src="{_picture(architecture, n)}">'
    return f"<p><strong>{rich(title)}</strong></p>{picture}<p>{escape(name)}, one layer</p>{table(head, rows)}"


def _picture(architecture: Architecture, n: int) -> str:
    """Operations of the parts in n and in n² over n, logarithmic axes, as a data URI."""
    found = [costs(architecture, each) for each in LENGTHS]
    series = {"#686f7a": [c["projections"] + c["ffn"] for c in found], "#0c428d": [c["scores"] for c in found]}
    names = {"#686f7a": "in n", "#0c428d": "in n²"}
    low, high = (f(log10(v) for values in series.values() for v in values) for f in (min, max))
    left, right, top, bottom = 46, 316, 8, 160
    across = [left + (right - left) * log10(each / LENGTHS[0]) / log10(LENGTHS[-1] / LENGTHS[0]) for each in LENGTHS]
    body = (
        f'<rect width="360" height="190" fill="#fff"/><path d="M{left} 4V{bottom}H356" fill="none" stroke="#686f7a"/>'
    )
    for shade, values in series.items():
        heights = [bottom - (bottom - top) * (log10(v) - low) / (high - low) for v in values]
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in zip(across, heights, strict=True))
        body += f'<polyline points="{points}" fill="none" stroke="{shade}" stroke-width="2"/>'
        body += _words(right + 4, heights[-1] + 4, names[shade], fill=shade)
    for power in range(ceil(low), int(high) + 1, 2):
        y = bottom - (bottom - top) * (power - low) / (high - low)
        body += _words(left - 4, y + 4, amount(10**power).strip(), anchor="end")
    for each in (512, 4096, 32768):
        body += _words(across[LENGTHS.index(each)], bottom + 13, f"{each:,}", anchor="middle")
    body += _words(356, bottom + 27, "tokens n; vertical: FLOPs of a layer", anchor="end")
    at = across[LENGTHS.index(n)]
    body += f'<path d="M{at:.0f} 4V{bottom}" stroke="#1c2430" stroke-dasharray="3 3"/>'
    svg = f'<svg xmlns="{SVG}" width="360" height="190">{body}</svg>'
    return data_uri(svg.encode(), "image/svg+xml")


def _words(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#686f7a") -> str:
    """A label of the picture."""
    style = 'font-family="sans-serif" font-size="11"'
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{fill}" {style}>{escape(text)}</text>'
