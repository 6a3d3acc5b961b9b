"""The stored runs of chapters 8 and 9 (data/sweeps/transfer.json), and a fair choice among learning rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from utils.sweeps import sweep_table

SETTING = ["task", "body", "rung", "examples", "input_scale", "read", "steps"]
USUAL = {"task": "digits", "examples": 1000, "input_scale": 0.02, "read": 1}
RATE_ALIKE = 0.002  # validation accuracies closer than this are a tie: the smaller rate is taken


def runs(**where: object) -> pd.DataFrame:
    """Stored runs, a row each, of the usual setting (``USUAL``) unless told: ``runs(task="bit xor", read=5)``.

    where: column → value, or None for every value. Raises ValueError for a column that is not there or if no run fits.
    """
    table = sweep_table("transfer")
    chosen = USUAL | where
    if wrong := [name for name in chosen if name not in table]:
        raise ValueError(f"no column {wrong[0]!r}: the runs have {', '.join(table)}")
    if where.get("task", "digits") != "digits":
        chosen = {name: value for name, value in chosen.items() if name in where or name == "input_scale"}
    for name, value in chosen.items():
        table = table if value is None else table[table[name] == value]
    if table.empty:
        raise ValueError(f"no stored run has {', '.join(f'{k} = {v}' for k, v in chosen.items() if v is not None)}")
    return table


def tuned(table: pd.DataFrame) -> pd.DataFrame:
    """Of each setting only the runs at one learning rate: that with the best *validation* accuracy, mean of its seeds.

    The test set has no say in the choice. A rate that fewer seeds have tried than another was given up after the first
    seed and is left out. Of rates that tie within ``RATE_ALIKE`` the smallest is taken.
    """
    need = {*SETTING, "learning_rate", "seed", "validation"}
    if missing := sorted(need - set(table)):
        raise ValueError(f"the table lacks the column {missing[0]!r}: pass the rows of runs()")
    kept = []
    for _, group in table.groupby(SETTING, sort=False):
        rates = group.groupby("learning_rate")["validation"]
        known = rates.mean()[rates.size() == rates.size().max()].sort_index()
        best = known.index[(known >= known.max() - RATE_ALIKE).argmax()]
        kept.append(group[group["learning_rate"] == best])
    return pd.concat(kept)


def summary(table: pd.DataFrame, by: list[str], value: str = "test") -> pd.DataFrame:
    """Mean, lowest and highest ``value`` over seeds, and how many: one row for each combination of ``by``, in order."""
    groups = table.groupby(by, sort=False)[value]
    return groups.agg(mean="mean", lowest="min", highest="max", seeds="size")


def with_spread(table: pd.DataFrame, by: list[str], value: str = "test") -> pd.Series:
    """The same as words: "0.91 (0.90 to 0.93)", mean and range over seeds."""
    return summary(table, by, value).apply(_in_words, axis=1)


def _in_words(row: pd.Series) -> str:
    return f"{row['mean']:.2f} ({row['lowest']:.2f} to {row['highest']:.2f})"


def by_body(settings: Mapping[str, Mapping[str, object]]) -> pd.DataFrame:
    """Test accuracies at the best rate in words, a row a setting, a column a body; one seed gives a number alone.

    settings: name → conditions as in ``runs``, without ``body``.
    """
    rows = {}
    for name, where in settings.items():
        found = summary(tuned(runs(**where)), ["body"])
        rows[name] = found.apply(lambda row: _in_words(row) if row["seeds"] > 1 else f"{row['mean']:.2f}", axis=1)
    return pd.DataFrame(rows).T


def first_above(curve: Sequence[float], level: float = 0.95, every: int = 25) -> str:
    """Steps until a curve, one value after every ``every`` steps, is first above ``level``: "75", or "never"."""
    return next((str(every * n) for n, value in enumerate(curve, start=1) if value > level), "never")


def by_seed(**where: object) -> pd.Series:
    """Test accuracies of stored runs at their best rate, indexed by seed; ``where`` as in ``runs``, for one setting.

    Raises ValueError if the runs are of several settings.
    """
    table = tuned(runs(**where))
    if len(table[SETTING].drop_duplicates()) > 1:
        differ = [name for name in SETTING if table[name].nunique() > 1]
        raise ValueError(f"these runs differ in {', '.join(differ)}: name one value of each")
    return table.set_index("seed")["test"]
