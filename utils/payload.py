"""Numbers inside an HTML output: compact, deterministic, and readable again from the stored notebook."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping

import numpy as np

STEPS = 254  # codes 0 … 254 hold the square root of a weight; 255 means missing
MISSING = 255
SVG = "http://www.w3.org/2000/svg"
DTYPES = {"uint8": "<u1", "float32": "<f4", "int16": "<i2"}


def weights_to_codes(weights: np.ndarray) -> np.ndarray:
    """Square root of each weight in 8 bits. weights: (…, keys), each in [0, 1] or NaN → uint8 of the same shape.

    Rounds to the nearest code; where rounding would change the sum of a row by more than 0.001, the codes that cost
    least are rounded the other way. Decoded and renormalised weights are then within 0.005 of the exact ones:
    half a step near 1 is 1 / 254, and the sum of a row is off by at most 0.001.
    """
    weights = np.asarray(weights, dtype=np.float64)
    missing = np.isnan(weights)
    exact = np.where(missing, 0.0, weights).clip(0.0, 1.0)
    codes = np.rint(np.sqrt(exact) * STEPS)
    error = (codes / STEPS) ** 2 - exact
    excess = np.where(missing.any(-1), 0.0, error.sum(-1))
    for row in np.argwhere(np.abs(excess) > 1e-3):
        row = tuple(row)
        codes[row] = _keep_sum(codes[row], exact[row], error[row], excess[row])
    codes[missing] = MISSING
    return codes.astype(np.uint8)


def _keep_sum(codes: np.ndarray, exact: np.ndarray, error: np.ndarray, excess: float) -> np.ndarray:
    """Round some codes of one row the other way, cheapest first, until the row's sum is right again."""
    sign = np.sign(excess)
    other = (codes - sign).clip(0, STEPS)
    cost = np.abs((other / STEPS) ** 2 - exact)
    change = (codes / STEPS) ** 2 - (other / STEPS) ** 2
    order = np.argsort(cost + (error * sign <= 0), kind="stable")
    order = order[(error[order] * sign > 0) & (cost[order] < 3e-3)]
    count = int(np.searchsorted(np.cumsum(change[order] * sign), abs(excess) - 5e-4))
    flipped = codes.copy()
    flipped[order[:count]] = other[order[:count]]
    return flipped


def codes_to_weights(codes: np.ndarray) -> np.ndarray:
    """Inverse of ``weights_to_codes``, as the figure reads it: rows sum to 1, empty rows stay 0, missing stays NaN."""
    weights = np.where(codes == MISSING, np.nan, (codes.astype(np.float64) / STEPS) ** 2)
    sums = weights.sum(-1, keepdims=True)
    return np.divide(weights, sums, out=weights.copy(), where=sums > 0)


def pack(arrays: Mapping[str, np.ndarray]) -> dict[str, dict]:
    """Arrays as base64 for JSON. Floats are stored as float32; uint8 and int16 as they are."""
    packed = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        kind = "float32" if array.dtype.kind == "f" else str(array.dtype)
        if kind not in DTYPES:
            raise ValueError(f"array {name!r} has type {array.dtype}: expected one of {', '.join(DTYPES)}")
        coded = base64.b64encode(np.ascontiguousarray(array, dtype=DTYPES[kind]).tobytes()).decode("ascii")
        packed[name] = {"base64": coded, "shape": list(array.shape), "type": kind}
    return packed


def unpack(html: str) -> dict[str, np.ndarray]:
    """The arrays of a stored figure, read back from its HTML (for tests that compare with tolerance).

    Weights come decoded, with rows that sum to 1.
    """
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    if not found:
        raise ValueError("no figure data in this HTML: expected a script of type application/json")
    arrays = {}
    for name, item in json.loads(found.group(1)).get("arrays", {}).items():
        raw = np.frombuffer(base64.b64decode(item["base64"]), dtype=DTYPES[item["type"]]).reshape(item["shape"])
        arrays[name] = codes_to_weights(raw) if item["type"] == "uint8" else raw
    return arrays


def picture(values: np.ndarray, colour: str, *, side: int = 32, levels: int = 8) -> str:
    """A small drawing of a matrix as a data URI: amounts in [0, 1] are the opacity of one colour, NaN is a grey cell.

    values: (rows, columns); larger ones are reduced to at most ``side`` cells by the largest value of each block.
    Amounts are shown in ``levels`` steps of their square root. ``colour`` is a hex value.
    """
    values = _reduce(np.asarray(values, dtype=np.float64), side)
    steps = np.where(np.isnan(values), -1, np.rint(np.sqrt(np.nan_to_num(values).clip(0, 1)) * levels)).astype(int)
    paths = ""
    for step in (-1, *range(1, levels + 1)):
        cells = "".join(f"M{c} {r}h1" for r, c in np.argwhere(steps == step))
        shade, opacity = ("#888888", 0.4) if step < 0 else (colour, step / levels)
        paths += f'<path d="{cells}" stroke="{shade}" stroke-opacity="{opacity:g}"/>' if cells else ""
    rows, columns = values.shape
    view = f'viewBox="0 -.5 {columns} {rows}" width="{max(1, 256 // columns) * columns}"'
    return data_uri(f'<svg xmlns="{SVG}" {view} shape-rendering="crispEdges">{paths}</svg>'.encode(), "image/svg+xml")


def data_uri(content: bytes, kind: str) -> str:
    """Bytes as a data URI of the MIME type ``kind``."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _reduce(values: np.ndarray, side: int) -> np.ndarray:
    for axis in (0, 1):
        step = -(-values.shape[axis] // side)
        if step > 1:
            starts = np.arange(0, values.shape[axis], step)
            values = np.fmax.reduceat(values, starts, axis=axis)
    return values
