"""The phase-explorer: step through a training run and see two heads form, one in each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from utils.elements import Figure, palette, rich, table
from utils.payload import codes_to_weights, picture, weights_to_codes

LINES = ("accuracy", "previous", "induction")
LABELS = ("accuracy", "layer 0: weight on the token before", "layer 1: weight behind an earlier copy")
HINT = "Move the step, also by dragging along the curves, and watch the two maps."
LARGEST = 32  # tokens


def phase_explorer(
    maps: Mapping[int, tuple[np.ndarray, np.ndarray]],
    curve: Sequence[Mapping[str, float]],
    *,
    tokens: Sequence[str],
    names: tuple[str, str],
    step: int,
    title: str,
    alt: str,
) -> Figure:
    """Two maps at the steps that were kept, beside three curves over the whole run.

    maps: step → the map of the head of the first layer and of that of the second, each (n, n) with rows that sum to 1.
    curve: rows with "step", "accuracy", "previous" and "induction", each in [0, 1]. tokens: n short names of the text.
    names: of the two heads. step: shown first. Raises ValueError for what does not fit.
    """
    n = len(tokens)
    if not maps or step not in maps:
        raise ValueError(f"step {step} is not among those kept: {', '.join(map(str, maps)) or 'none'}")
    shapes = {np.shape(each) for pair in maps.values() for each in pair}
    if shapes != {(n, n)} or n > LARGEST:
        raise ValueError(f"maps of {n} tokens, at most {LARGEST}, are needed, got the shapes {sorted(shapes)}")
    if missing := [name for name in ("step", *LINES) if any(name not in row for row in curve)]:
        raise ValueError(f"rows of the curve need {', '.join(('step', *LINES))}; missing: {', '.join(missing)}")
    steps = sorted(maps)
    data = {
        "at": steps.index(step),
        "hint": HINT,
        "labels": list(LABELS),
        "names": list(names),
        "steps": steps,
        "title": title,
        "tokens": list(tokens),
        "x": [row["step"] for row in curve],
    }
    arrays = {
        "maps": np.stack([weights_to_codes(np.stack(maps[each])) for each in steps]),
        "lines": np.array([[row[name] for row in curve] for name in LINES], dtype=np.float32),
    }
    return Figure("phase-explorer", data, alt, _fallback(maps, curve, tokens, names, step, title), arrays)


def _fallback(maps, curve, tokens, names, step: int, title: str) -> str:
    """The two maps of the opening step, and that and some other rows of the curve, for where scripts do not run."""
    colour = palette()["amount"]["light"]
    shown = "".join(
        f'<img alt="{escape(name)}, step {step}" src="{picture(np.asarray(each), colour)}"> '
        for name, each in zip(names, maps[step], strict=True)
    )
    kept = {round(i * (len(curve) - 1) / 10) for i in (0, 3, 4, 5, 6, 10)}
    chosen = [row for i, row in enumerate(curve) if i in kept or row["step"] == step]
    rows = [[str(row["step"]), *(f"{row[name]:.2f}" for name in LINES)] for row in chosen]
    axes = f"Maps at step {step}. Text: {' '.join(tokens)}; row = query, column = key; the darker, the more weight."
    return f"<p><strong>{rich(title)}</strong></p><p>{shown}</p><p>{escape(axes)}</p>{table(['step', *LABELS], rows)}"


def stored_run(run: Mapping) -> tuple[dict[int, tuple[np.ndarray, np.ndarray]], list[dict[str, float]]]:
    """Maps and curve, as ``phase_explorer`` takes them, of a run that the sweep "open_questions" watched.

    The sweep holds lower triangles of the maps as codes, and the scores of all heads; kept are those of the two heads
    that it names.
    """
    n = 2 * len(run["segment"])

    def unpacked(codes: Sequence[int]) -> np.ndarray:
        square = np.zeros((n, n), dtype=np.uint8)
        square[np.tril_indices(n)] = codes
        return codes_to_weights(square)

    first, second = run["heads"]
    curve = [row | {"previous": row["previous"][first], "induction": row["induction"][second]} for row in run["curve"]]
    return {int(step): tuple(map(unpacked, pair)) for step, pair in run["codes"].items()}, curve
