"""The pruning-explorer: what a model is worth while its heads go out one after the other, and which are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral, Real

import numpy as np

from utils.elements import Figure, palette, rich, table
from utils.payload import SVG, data_uri
from utils.pruning_paths import PruningPath, head_masks

__all__ = ["PruningPath", "head_masks", "pruning_explorer"]

ROLES = ("positional", "syntactic", "sink", "rare", "unlabelled")
POSITIONAL = ("previous token", "next token", "same token")
HINT = "Move the slider, or drag along the curve, and heads go out."
LARGEST = 1024  # heads of a grid


def pruning_explorer(
    paths: Sequence[PruningPath],
    *,
    metric: str,
    higher_is_better: bool,
    kept: int,
    path: int | str = 0,
    reference: float | None = None,
    roles: np.ndarray | Sequence[Sequence[str]] | None = None,
    groups: Mapping[str, int] | None = None,
    rows: Sequence[str] | None = None,
    spread: str = "",
    title: str = "",
    alt: str,
) -> Figure:
    """Curves over the heads that are kept, beside the grid of heads, which go out as the reader moves along a curve.

    metric: what the values are, with its unit. kept, path: the step that is shown first, by its heads; the path by its
    number or name. reference: value of the whole model, by default that of the opening path with all heads. roles:
    (rows, heads), "positional" (or "previous token", …, as ``head_roles`` says), "syntactic", "sink", "rare" or
    "unlabelled". groups: attention type → rows, a grid each; rows: their labels, by default the number of the layer.
    spread: what the bands show. The fallback prints values with three digits: take them from a stored sweep, or round
    them so that another processor prints the same. Raises ValueError for what does not fit together.
    """
    if not isinstance(metric, str) or not metric.strip():
        raise ValueError(f"metric must say what the values are, such as 'BLEU', got {metric!r}")
    paths = list(paths)
    shape = _shape(paths)
    start = _opening(paths, path, kept)
    at = paths[start].kept.tolist().index(int(kept))
    groups = _groups(groups, shape[0])
    labels = _labels(rows, groups)
    codes = _roles(roles, shape)
    total = shape[0] * shape[1]
    if reference is None and paths[start].kept[0] == total:
        reference = paths[start].value[0]
    elif reference is not None and (not isinstance(reference, Real) or not np.isfinite(reference)):
        raise ValueError(f"reference must be the {metric} of the whole model, a number, got {reference!r}")
    data = {
        "better": "higher" if higher_is_better else "lower",
        "groups": [{"name": name, "rows": count} for name, count in groups.items()],
        "hint": HINT,
        "metric": metric,
        "path": start,
        "paths": [_described(each) for each in paths],
        "rows": labels,
        "shape": list(shape),
        "spread": spread,
        "step": at,
        "title": title,
    }
    arrays = _arrays(paths, codes, reference)
    return Figure("pruning-explorer", data, alt, _fallback(paths[start], at, codes, reference, metric, title), arrays)


def _shape(paths: list[PruningPath]) -> tuple[int, int]:
    """Rows and heads of the grid."""
    if not paths or not all(isinstance(each, PruningPath) for each in paths):
        got = next((type(each).__name__ for each in paths if not isinstance(each, PruningPath)), "none")
        raise ValueError(f"paths must be one or more PruningPath, got {got}")
    names = [each.name for each in paths]
    if len(set(names)) < len(names):
        raise ValueError(f"two paths have the same name: {', '.join(map(repr, names))}")
    shapes = sorted({each.masks.shape[1:] for each in paths if each.masks is not None})
    if len(shapes) != 1:
        raise ValueError(f"the masks of all paths must have the same rows and heads, got {shapes or 'no masks at all'}")
    total = int(np.prod(shapes[0]))
    if total > LARGEST:
        raise ValueError(f"a grid of {total} heads is too large for this figure: at most {LARGEST}")
    for each in paths:
        if each.kept.max() > total:
            raise ValueError(f"path {each.name!r} keeps {each.kept.max()} heads, the grid has {total}")
    return tuple(map(int, shapes[0]))


def _opening(paths: list[PruningPath], path: int | str, kept: int) -> int:
    names = [each.name for each in paths]
    known = ", ".join(map(repr, names))
    if isinstance(path, str):
        if path not in names:
            raise ValueError(f"no path is called {path!r}: there are {known}")
        path = names.index(path)
    if not isinstance(path, Integral) or not 0 <= path < len(paths):
        raise ValueError(f"path must be a name or a number from 0 to {len(paths) - 1}, got {path!r}")
    if paths[path].masks is None:
        raise ValueError(f"path {names[path]!r} has no masks and cannot be shown first: choose another one")
    steps = paths[path].kept.tolist()
    if kept not in steps:
        raise ValueError(f"path {names[path]!r} has no step with {kept!r} heads: it has {', '.join(map(str, steps))}")
    return int(path)


def _groups(groups: Mapping[str, int] | None, rows: int) -> dict[str, int]:
    if groups is None:
        return {"": rows}
    wrong = [each for each in groups.values() if not isinstance(each, Integral) or isinstance(each, bool) or each < 1]
    if wrong or sum(groups.values()) != rows:
        raise ValueError(f"groups must split the {rows} rows of the masks, name → rows, got {dict(groups)!r}")
    return {str(name): int(count) for name, count in groups.items()}


def _labels(rows: Sequence[str] | None, groups: dict[str, int]) -> list[str]:
    if rows is None:
        return [str(row) for count in groups.values() for row in range(count)]
    if isinstance(rows, str) or len(rows) != sum(groups.values()):
        raise ValueError(f"rows must be {sum(groups.values())} labels, one a row of the masks, got {rows!r}")
    return [str(each) for each in rows]


def _roles(roles, shape: tuple[int, int]) -> np.ndarray | None:
    """The roles as places in ROLES: (rows, heads)."""
    if roles is None:
        return None
    given = np.asarray(roles, dtype=object)
    if given.shape != shape:
        raise ValueError(
            f"roles must be {shape[0]} rows of {shape[1]} heads like the masks, got the shape {given.shape}"
        )
    names = [["positional" if each in POSITIONAL else each for each in row] for row in given]
    unknown = [each for row in names for each in row if each not in ROLES]
    if unknown:
        raise ValueError(f"no role is called {unknown[0]!r}: there are {', '.join((*ROLES, *POSITIONAL))}")
    return np.array([[ROLES.index(each) for each in row] for row in names], dtype=np.int16)


def _described(path: PruningPath) -> dict:
    return {
        "masks": path.masks is not None,
        "more": list(path.more),
        "name": path.name,
        "null": path.null,
        "spread": path.low is not None,
        "steps": len(path.kept),
    }


def _arrays(paths: list[PruningPath], codes: np.ndarray | None, reference: float | None) -> dict[str, np.ndarray]:
    """The numbers of all paths, one after the other; a mask is its heads, row by row, sixteen bits a number."""
    arrays = {
        "kept": np.concatenate([each.kept for each in paths]).astype(np.int16),
        "value": np.concatenate([each.value for each in paths]),
        "masks": np.concatenate([_packed(each.masks).ravel() for each in paths if each.masks is not None]),
    }
    spreads = [(each.low, each.high) for each in paths if each.low is not None]
    more = [values for each in paths for values in each.more.values()]
    if spreads:
        arrays |= {
            name: np.concatenate(part) for name, part in zip(("low", "high"), zip(*spreads, strict=True), strict=True)
        }
    if more:
        arrays["more"] = np.concatenate(more)
    if codes is not None:
        arrays["roles"] = codes
    if reference is not None:
        arrays["reference"] = np.array([float(reference)])
    return arrays


def _packed(masks: np.ndarray) -> np.ndarray:
    """(steps, rows, heads) → (steps, ⌈rows · heads / 16⌉), the first head in the lowest bit."""
    flat = masks.reshape(len(masks), -1)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 16)))
    return np.packbits(flat, axis=1, bitorder="little").view("<i2")


def _fallback(path: PruningPath, at: int, codes, reference, metric: str, title: str) -> str:
    """The grid at the opening step and a table of the opening path, for where scripts do not run."""
    rows = [
        [f"{kept}" + " (shown)" * (step == at), f"{value:.3g}"]
        for step, (kept, value) in enumerate(zip(path.kept, path.value, strict=True))
    ]
    heading = f"<p><strong>{rich(title)}</strong></p>" if title else ""
    whole = "" if reference is None else f"; the whole model: {reference:.3g}"
    note = f"<p>{escape(path.name)}: {escape(metric)} by the heads kept{whole}</p>"
    alt = f"Heads kept at {path.kept[at]} of {path.masks[at].size}: filled; taken out: crossed"
    return (
        f'{heading}<img alt="{alt}" src="{_picture(path.masks[at], codes)}">{note}{table(["heads kept", metric], rows)}'
    )


def _picture(mask: np.ndarray, codes: np.ndarray | None) -> str:
    """The grid of heads as a drawing in a data URI: kept heads filled in the colour of their role, others crossed."""
    side, cells = 20, ""
    for (row, head), kept in np.ndenumerate(mask):
        shade = palette()["null" if codes is None else ROLES[codes[row, head]]]["light"]
        x, y = head * side + 2, row * side + 2
        cells += (
            f'<rect x="{x}" y="{y}" width="16" height="16" fill="{shade}"/>'
            if kept
            else f'<path d="M{x + 3} {y + 3}l10 10m0-10l-10 10" stroke="{shade}"/>'
        )
    size = f'width="{mask.shape[1] * side}" height="{mask.shape[0] * side}"'
    svg = f'<svg xmlns="{SVG}" {size}><rect width="100%" height="100%" fill="#fff"/>{cells}</svg>'
    return data_uri(svg.encode(), "image/svg+xml")
