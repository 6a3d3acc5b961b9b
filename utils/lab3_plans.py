"""What Lab 3 asks of the choice of a plan, as in ``utils.lab3``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

PLANS = pd.DataFrame(
    [
        ("A", 72, 22.7, 100.0, 0.64, 0.64),
        ("B", 54, 21.8, 90.0, 0.63, 0.60),
        ("C", 36, 20.9, 80.0, 0.61, 0.55),
        ("D", 36, 20.9, 80.0, 0.56, 0.58),
        ("E", 18, 20.1, 70.0, 0.61, 0.45),
        ("F", 6, 19.5, 64.0, 0.50, 0.44),
    ],
    columns=["plan", "kept", "parameters", "ms", "rebuilt", "old index"],
)
CONSTRAINTS = [
    ({"ms": 85.0}, False, "D"),
    ({"ms": 85.0}, True, "E"),
    ({"parameters": 20.0}, True, "F"),
    ({"ms": 95.0, "parameters": 21.0}, False, "D"),
    ({"ms": 80.0}, False, "D"),
    ({"ms": 95.0, "parameters": 22.0}, True, "B"),
    ({}, True, "A"),
    ({"ms": 50.0}, True, "none"),
]


def chooses_under_constraints(attempt: Callable) -> None:
    """L3.5: attempt(plans, limits, rebuild) → name of the best plan within the limits, or "none"."""
    for turn in (1, -1):
        for limits, rebuild, right in CONSTRAINTS:
            table = PLANS.iloc[::turn].sample(frac=1, random_state=3) if turn < 0 else PLANS
            found = attempt(table.reset_index(drop=True).copy(), dict(limits), rebuild)
            assert isinstance(found, str), f"return the name of a plan, a text, not {type(found).__name__}"
            if found != right:
                _explain(found, right, limits, rebuild)


def _explain(found: str, right: str, limits: dict, rebuild: bool) -> None:
    said = ", ".join(f"{name} ≤ {limit:g}" for name, limit in limits.items()) or "no limit"
    case = f"{said}, index {'rebuilt' if rebuild else 'not rebuilt'}"
    known = PLANS.set_index("plan")
    assert found in known.index or found == "none", f"{case}: there is no plan {found!r}"
    assert right != "none", f"{case}: no plan fits. Say “none”; {found} breaks the limit"
    on = [name for name, limit in limits.items() if known.loc[right, name] == limit]
    touch = f"{right} lies exactly on the limit of {on[0]}: a value equal to its limit is within it" if on else ""
    assert found != "none", f"{case}: {touch or f'{right} fits'}"
    row, best = known.loc[found], known.loc[right]
    over = [f"{name} {row[name]:g}" for name, limit in limits.items() if row[name] > limit]
    assert not over, f"{case}: {found} has {' and '.join(over)}: it breaks a limit. All limits count at once"
    column, other = ("rebuilt", "old index") if rebuild else ("old index", "rebuilt")
    if row[column] == best[column]:
        raise AssertionError(f"{case}: {found} and {right} find as much; of equal plans take the one with fewer heads")
    assert not on or row[on[0]] == limits[on[0]], f"{case}: {touch}"
    if found == _best(limits, other):
        raise AssertionError(f"{case}: {found} is best by “{other}”; this deployment is judged by “{column}”")
    raise AssertionError(
        f"{case}: {found} has {column} {row[column]:.2f}, {right} has {best[column]:.2f} and fits, too"
    )


def _best(limits: dict, column: str) -> str:
    """The plan within the limits that finds most by a column."""
    fits = np.all([PLANS[name] <= limit for name, limit in limits.items()] or [np.ones(len(PLANS), bool)], axis=0)
    return PLANS[fits].sort_values([column, "kept"], ascending=[False, True])["plan"].iloc[0]
