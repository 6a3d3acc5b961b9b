"""Stored sweeps say what made them, and are read as tables."""

from __future__ import annotations

import pytest

from utils.sweeps import FOLDER, sweep, sweep_table

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_says_what_made_it(name):
    content = sweep(name)
    assert content["script"] == f"python -m tools.sweeps.{name}" or content["script"].startswith("python -m ")
    assert {"date", "machine", "torch"} <= set(content)


@pytest.mark.parametrize("name", ["probes", "shared_directions"])
def test_a_table_has_its_columns_and_its_making(name):
    table = sweep_table(name)
    assert len(table) > 50 and table.attrs["script"] == f"python -m tools.sweeps.{name}"


def test_an_unknown_sweep_is_named():
    with pytest.raises(ValueError, match="no sweep is called 'nothing'"):
        sweep("nothing")
