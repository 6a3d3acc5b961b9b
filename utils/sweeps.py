"""Results of the longer sweeps (data/sweeps/), which a script in tools/sweeps made once and a notebook only reads."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).resolve().parent.parent / "data" / "sweeps"


def sweep(name: str) -> dict:
    """Everything that a sweep stored: script, date, machine, seeds, ``columns`` and ``rows``.

    Raises ValueError for a name that is not there.
    """
    known = sorted(path.stem for path in FOLDER.glob("*.json"))
    if name not in known:
        raise ValueError(f"no sweep is called {name!r}: there are {', '.join(known) or 'none'}")
    return json.loads((FOLDER / f"{name}.json").read_text("utf8"))


def sweep_table(name: str) -> pd.DataFrame:
    """The rows of a sweep as a table; whatever else it stored is in ``table.attrs``."""
    content = sweep(name)
    if not {"columns", "rows"} <= set(content):
        raise ValueError(f"the sweep {name!r} is no single table: read it with sweep({name!r})")
    table = pd.DataFrame(content.pop("rows"), columns=content.pop("columns"))
    table.attrs = content
    return table
