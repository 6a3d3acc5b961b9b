"""Pictures of the book: each function takes data and returns the axes it drew on.

One visual language: colours from ``palette.json``, style from ``book.mplstyle``. Null models are grey. Amounts run from
the background to full colour; differences have the background at zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import FancyArrowPatch

PALETTE = json.loads(files("utils").joinpath("palette.json").read_text("utf8"))


def colour(name: str, theme: str = "light") -> str:
    """The hex value of a named colour of the book, for example ``colour("query")``."""
    if name not in PALETTE:
        raise ValueError(f"no colour is called {name!r}: choose from {', '.join(sorted(PALETTE))}")
    return PALETTE[name][theme]


def use_style() -> None:
    """Draw every following picture in the style of the book."""
    plt.style.use(str(files("utils").joinpath("book.mplstyle")))


def amounts() -> LinearSegmentedColormap:
    """Colours for amounts ≥ 0: zero is the background."""
    return LinearSegmentedColormap.from_list("amounts", [colour("background"), "#9db8dc", colour("amount")])


def differences() -> LinearSegmentedColormap:
    """Colours for signed values: zero is the background, negative is orange, positive is blue."""
    stops = [colour("negative"), "#e0ab83", colour("background"), "#9db8dc", colour("positive")]
    return LinearSegmentedColormap.from_list("differences", stops)


def heatmap(
    matrix: np.ndarray,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str = "",
    signed: bool = False,
    numbers: bool = False,
    limit: float | None = None,
    row_label: str = "query (reads)",
    column_label: str = "key (is read)",
    value_label: str = "attention weight",
    ax: Axes | None = None,
) -> Axes:
    """One matrix as a heat map with its scale: row = query, column = key.

    matrix: (rows, columns). ``signed`` centres the scale on zero; ``limit`` is its largest value (default: that of the
    matrix); ``numbers`` writes each value into its cell.
    """
    matrix = np.asarray(matrix, dtype=float)
    if matrix.ndim != 2:
        raise ValueError(f"a heat map needs a matrix (rows, columns), got an array of shape {matrix.shape}")
    limit = float(np.nanmax(np.abs(matrix))) if limit is None else limit
    ax = ax or plt.subplots()[1]
    sns.heatmap(
        matrix,
        ax=ax,
        cmap=differences() if signed else amounts(),
        vmin=-limit if signed else 0.0,
        vmax=limit,
        annot=matrix.round(2) + 0.0 if numbers else False,  # + 0.0: no "-0.00"
        fmt=".2f",
        square=True,
        xticklabels="auto" if columns is None else list(columns),
        yticklabels="auto" if rows is None else list(rows),
        cbar_kws={"label": value_label, "shrink": 0.8},
    )
    ax.set(xlabel=column_label, ylabel=row_label)
    ax.set_title(title)
    ax.tick_params(length=0)
    plt.setp(ax.get_yticklabels(), rotation=0)
    return ax


def head_grid(values: np.ndarray, *, title: str = "", value_label: str = "", signed: bool = False, **options) -> Axes:
    """One number per head, as a grid. values: (layers, heads); other options as in ``heatmap``."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 2:
        raise ValueError(f"a head grid needs values of shape (layers, heads), got {values.shape}")
    options = {"row_label": "layer", "column_label": "head", "value_label": value_label} | options
    return heatmap(values, range(values.shape[0]), range(values.shape[1]), title=title, signed=signed, **options)


def strips(
    groups: Mapping[str, Sequence[float]],
    *,
    x: str,
    title: str = "",
    null: Sequence[str] = (),
    reference: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Every value of each group as a dot, its mean as a bar; groups named in ``null`` are grey.

    groups: name → values. ``reference`` draws one thin vertical line.
    """
    ax = ax or plt.subplots(figsize=(6.5, 0.55 * len(groups) + 1.2))[1]
    generator = np.random.default_rng(0)
    for row, (name, values) in enumerate(groups.items()):
        values = np.asarray(values, dtype=float).ravel()
        shade = colour("null") if name in null else colour("query")
        ax.scatter(values, row + generator.uniform(-0.22, 0.22, len(values)), s=12, color=shade, alpha=0.55, lw=0)
        ax.plot([values.mean()] * 2, [row - 0.36, row + 0.36], color=shade, lw=2.5)
    if reference is not None:
        ax.axvline(reference, color=colour("text"), lw=0.8, zorder=0)
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.4, -0.6)
    ax.set_xlabel(x)
    ax.set_title(title)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def layers(
    series: Mapping[str, np.ndarray],
    *,
    y: str,
    title: str = "",
    null: Sequence[str] = (),
    first: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """A line per series over the layers, labelled at its end; 2-d series show mean and range as a band.

    series: name → (layers,) or (repeats, layers). ``first`` is the number of the first layer.
    """
    ax = ax or plt.subplots()[1]
    ends = []
    for index, (name, values) in enumerate(series.items()):
        values = np.atleast_2d(np.asarray(values, dtype=float))
        steps = np.arange(first, first + values.shape[1])
        shade = colour("null") if name in null else f"C{index}"
        ax.plot(steps, values.mean(0), color=shade, marker="o", ms=4)
        if len(values) > 1:
            ax.fill_between(steps, values.min(0), values.max(0), color=shade, alpha=0.18, lw=0)
        ends.append((values.mean(0)[-1], steps[-1], name, shade))
    highest = -np.inf
    for end, step, name, shade in sorted(each for each in ends if np.isfinite(each[0])):
        height = ax.transData.transform((step, end))[1] * 72 / ax.figure.dpi  # in points
        highest = max(height, highest + 12)  # names stay a line apart
        offset = (6, highest - height)
        ax.annotate(name, (step, end), offset, textcoords="offset points", color=shade, va="center")
    ax.set(xlabel="layer", ylabel=y, xticks=steps)
    ax.set_title(title)
    return ax


def flow(
    weights: np.ndarray,
    tokens: Sequence[str],
    *,
    title: str = "",
    threshold: float = 0.15,
    reading: bool = False,
    low: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Attention as arrows between tokens in a row; the width of an arrow is its weight.

    weights: (tokens, tokens), row = query. Arrows show the flow of content, key → query; with ``reading`` they show
    where a query looks, query → key. Weights below ``threshold`` and those of a token on itself are left out. With
    ``low`` an arrow over many tokens is bent less, so that it fits above a long row.
    """
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (len(tokens), len(tokens)):
        raise ValueError(f"{len(tokens)} tokens need weights of shape {(len(tokens),) * 2}, got {weights.shape}")
    ax = ax or plt.subplots(figsize=(6.5, 2.4))[1]
    shade = colour("query") if reading else colour("value")
    for query, key in np.argwhere(weights >= threshold):
        if query == key:
            continue
        start, end = (query, key) if reading else (key, query)
        style = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 16, "shrinkB": 16, "color": shade}
        bend = f"arc3,rad={-2 / (3.5 + abs(end - start)) if low else -0.45}"
        ax.add_patch(FancyArrowPatch((start, 0), (end, 0), connectionstyle=bend, lw=5 * weights[query, key], **style))
    for place, token in enumerate(tokens):
        ax.text(place, 0, token, ha="center", va="center", bbox={"boxstyle": "round,pad=0.3", "fc": "w", "ec": "none"})
    ax.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-1.0, 1.0))
    ax.axis("off")
    ax.set_title(title)
    return ax
