"""Stored sweeps say what made them, and are read as tables."""

from __future__ import annotations

import pytest

from utils.sweeps import sweep, sweep_table


@pytest.mark.parametrize("name", ["probes", "shared_directions"])
def test_a_table_has_its_columns_and_its_making(name):
    table = sweep_table(name)
    assert len(table) > 50 and table.attrs["script"] == f"python -m tools.sweeps.{name}"
    assert {"date", "machine", "seeds", "torch"} <= set(table.attrs)
    assert sweep(name)["columns"] == list(table)


def test_an_unknown_sweep_is_named():
    with pytest.raises(ValueError, match="no sweep is called 'nothing'"):
        sweep("nothing")
