"""Series with spread for the curve-explorer: any table or mapping to lines, choices and points."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd

from utils.elements import Figure, table
from utils.payload import SVG, data_uri

DASHES = ["none", "8 4", "2 3", "10 3 2 3"]  # of lines that a colour alone would tell apart, as in curve-explorer.js


def curve_explorer(
    series: pd.DataFrame | Mapping[str, Sequence],
    *,
    x: str,
    y: str,
    low: str | None = None,
    high: str | None = None,
    by: str | None = None,
    sliders: Sequence[str] | Mapping[str, str] = (),
    null: Sequence[str] = (),
    dots: bool = False,
    title: str = "",
    x_label: str | None = None,
    y_label: str | None = None,
    spread: str = "",
    x_log: bool = False,
    y_log: bool = False,
    y_range: tuple[float, float] | None = None,
    start: Mapping[str, Hashable] | None = None,
    at: float | None = None,
    alt: str,
) -> Figure:
    """Lines over x that the reader changes with sliders and switches; values are read with mouse, touch or arrow keys.

    series: a table with one row a point, or name → values of shape (steps,) or (repeats, steps) over 0, 1, …
    x, y, low, high: columns. Without ``low``/``high``, rows that share x, line and choice are repeats: the line is
    their mean, the band their range, and ``dots`` shows each. by: column that names the lines (coloured in order of
    appearance, those in ``null`` grey). sliders: columns (or column → label) that choose what is shown; numbers become
    a slider, words a switch. ``start`` gives their first values, ``at`` the x first read. Labels should carry units;
    ``spread`` says what the band is. y_range: fixed limits, else those of all choices together.
    """
    frame, by = _frame(series, x, y, by)
    sliders = dict(sliders) if isinstance(sliders, Mapping) else {name: name for name in sliders}
    _check(frame, [x, y, *sliders] + [c for c in (low, high, by) if c], (low, high), x, y, null, by)
    choices = [_choice(frame[name], label, (start or {}).get(name)) for name, label in sliders.items()]
    names = list(frame[by].drop_duplicates()) if by else [None]
    arrays, segments, dotted = _points(frame, x, y, low, high, by, names, list(sliders), choices, dots)
    arrays = {k: v for k, v in arrays.items() if len(v) and not np.isnan(v).all()}
    band = "low" in arrays
    how = "Move the controls; " if any(len(c["values"]) > 1 for c in choices) else ""
    hint = f"{how}point at the curve, or focus it and use the arrow keys, to read values."
    hint = (hint[0].upper() + hint[1:]) + (f" Band: {spread or 'smallest to largest value'}." if band else "")
    data = {
        "at": at,
        "choices": choices,
        "dotted": dotted,
        "hint": hint,
        "names": [None if n is None else str(n) for n in names],
        "nulls": [i for i, n in enumerate(names) if n is not None and str(n) in {str(v) for v in null}],
        "segments": segments,
        "title": title,
        "x": {"label": x_label or x, "log": x_log},
        "y": {"label": y_label or y, "log": y_log, "range": list(y_range) if y_range else None},
    }
    return Figure("curve-explorer", data, alt, _fallback(data, arrays, alt), arrays)


def _frame(series, x: str, y: str, by: str | None) -> tuple[pd.DataFrame, str | None]:
    if isinstance(series, pd.DataFrame):
        return series, by
    rows = []
    for name, values in series.items():
        for repeat in np.atleast_2d(np.asarray(values, dtype=float)):
            rows += [(str(name), step, value) for step, value in enumerate(repeat)]
    return pd.DataFrame(rows, columns=[by or "line", x, y]), by or "line"


def _check(frame, columns, bounds, x, y, null, by) -> None:
    missing = [name for name in columns if name not in frame]
    if missing:
        raise ValueError(f"no column {missing[0]!r}: the table has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise ValueError("the table has no rows")
    if (bounds[0] is None) != (bounds[1] is None):
        raise ValueError("a band needs both low= and high=")
    for name in (x, y, *[b for b in bounds if b]):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"column {name!r} must hold numbers, it has type {frame[name].dtype}")
    unknown = [n for n in null if by is None or str(n) not in set(frame[by].map(str))]
    if unknown:
        raise ValueError(f"null model {unknown[0]!r} is not among the lines of column {by!r}")


def _choice(column: pd.Series, label: str, start) -> dict:
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    values = sorted(column.unique()) if numeric else list(column.drop_duplicates())
    if start is not None and start not in values:
        raise ValueError(f"start value {start!r} of {column.name!r} is not one of {', '.join(map(str, values))}")
    shown = [f"{v:g}" if numeric else str(v) for v in values]
    first = values.index(start) if start is not None else 0
    return {"label": label, "name": str(column.name), "slider": bool(numeric), "start": first, "values": shown}


def _points(frame, x, y, low, high, by, names, sliders, choices, dots):
    """All points one after the other, and where each line of each choice begins and ends."""
    columns = {name: [] for name in ("x", "y", "low", "high", "dot_x", "dot_y")}
    segments, dotted = [], []
    keys = [*sliders, *([by] if by else [])]
    orders = [{v: i for i, v in enumerate(_values(frame[name]))} for name in sliders]
    groups = frame.groupby(keys, sort=True, dropna=False) if keys else [((), frame)]
    for key, part in groups:
        place = [order[value] for order, value in zip(orders, key, strict=False)]
        place.append(names.index(key[-1]) if by else 0)
        at = part.groupby(x, sort=True)
        mean = at[y].mean()
        repeats = not low and bool((at.size() > 1).any())
        bounds = (at[low].mean(), at[high].mean()) if low else (at[y].min(), at[y].max()) if repeats else None
        first = len(columns["x"])
        columns["x"] += list(mean.index)
        columns["y"] += list(mean)
        for name, bound in zip(("low", "high"), bounds or (mean * np.nan,) * 2, strict=True):
            columns[name] += list(bound)
        segments.append([*place, first, len(columns["x"])])
        if dots and repeats:
            first = len(columns["dot_x"])
            columns["dot_x"] += list(part[x])
            columns["dot_y"] += list(part[y])
            dotted.append([*place, first, len(columns["dot_x"])])
    arrays = {name: np.asarray(values, dtype=np.float32) for name, values in columns.items()}
    return arrays, segments, dotted


def _values(column: pd.Series) -> list:
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return sorted(column.unique()) if numeric else list(column.drop_duplicates())


def _fallback(data: dict, arrays: dict, alt: str) -> str:
    """A picture and a table of the opening choice, for where scripts do not run."""
    start = [choice["start"] for choice in data["choices"]]
    lines = [s[len(start) :] for s in data["segments"] if s[: len(start)] == start]
    chosen = ", ".join(f"{c['label']} {c['values'][c['start']]}" for c in data["choices"])
    steps = sorted({float(v) for _, a, b in lines for v in arrays["x"][a:b]})
    steps = [steps[i] for i in sorted({round(p * (len(steps) - 1) / 5) for p in range(6)})] if steps else []
    rows = []
    for line, a, b in lines:
        values = dict(zip(arrays["x"][a:b].tolist(), arrays["y"][a:b].tolist(), strict=True)) if b > a else {}
        rows.append(
            [data["names"][line] or data["y"]["label"], *(f"{values[s]:.2g}" if s in values else "–" for s in steps)]
        )
    title = f"<p><strong>{escape(data['title'])}</strong></p>" if data["title"] else ""
    note = f"<p>{escape(data['y']['label'])}{escape(f' ({chosen})' if chosen else '')}</p>"
    head = table([data["x"]["label"], *(f"{s:.3g}" for s in steps)], rows)
    return f'{title}<img alt="{escape(alt)}" src="{_picture(lines, data, arrays)}">{note}{head}'


def _picture(lines: list, data: dict, arrays: dict) -> str:
    """The lines of one choice as a small drawing, their names below with the dashes of each, in a data URI."""
    xs, ys = arrays["x"].astype(float), arrays["y"].astype(float)
    xs = np.log(xs) if data["x"]["log"] else xs
    ys = np.log(np.where(ys > 0, ys, np.nan)) if data["y"]["log"] else ys
    px = 10 + 340 * (xs - np.nanmin(xs)) / (np.ptp(xs) or 1)
    py = 170 - 160 * (ys - np.nanmin(ys)) / ((np.nanmax(ys) - np.nanmin(ys)) or 1)
    colours = ["#1b4f9c", "#b34c00", "#0d7351", "#7d2a8c"]
    body, height = "", 180
    for line, a, b in lines:
        shade = "#686f7a" if line in data["nulls"] else colours[line % 4]
        place = data["nulls"].index(line) if line in data["nulls"] else line + line // 4
        style = f'fill="none" stroke="{shade}" stroke-width="2" stroke-dasharray="{DASHES[place % 4]}"'
        points = " ".join(f"{px[i]:.0f},{py[i]:.0f}" for i in range(a, b) if np.isfinite(py[i]))
        body += f'<polyline points="{points}" {style}/>'
        if name := data["names"][line]:
            body += f'<path d="M10 {height + 10}h34" {style}/><text x="52" y="{height + 15}">{escape(name)}</text>'
            height += 20
    frame = f'<rect width="360" height="{height}" fill="#fff"/><path d="M10 4V170H356" fill="none" stroke="#686f7a"/>'
    font = 'font-family="sans-serif" font-size="14"'
    svg = f'<svg xmlns="{SVG}" width="360" height="{height}" {font}>{frame}{body}</svg>'
    return data_uri(svg.encode(), "image/svg+xml")
