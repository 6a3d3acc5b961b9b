"""What needs a run of its own: claims about a trained model, without the trained weights.

Strict nbval does the rest: it runs the stored notebooks and compares outputs, coded numbers of figures included, and
runs the solutions of chapters (tools/pipeline/nbval_plugin.py). Here nothing is compared but which cell stops, and why:
the cells run in a fork of this process, which has imported the large libraries once for all notebooks.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tools.notebooks import RUNS
from tools.pipeline.execute import TIMEOUT
from tools.pipeline.products import all_products, products_of
from tools.pipeline.source import solved_notebook

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="runs notebooks in forks")

LIBRARIES = (
    *("ipywidgets", "matplotlib.pyplot", "pandas", "scipy.stats", "seaborn", "sklearn.linear_model", "torch"),
    *(f"transformers.models.{name}.modeling_{name}" for name in ("bart", "bert", "gpt2")),
)

# Runs before the notebook: the book's models keep shape and tokenizer, and lose everything they have learned.
RANDOM_WEIGHTS = """
def _swap():
    from utils import models
    original = models.load
    def load(name="minilm", **options):
        loaded = original(name, **options)
        return loaded._replace(model=models.untrained(loaded.model, seed=12345)) if name in models.EMBEDDED else loaded
    models.load = load
_swap()
"""


def _sources() -> list[Path]:
    """The sources of chapters and labs, the longest run first."""
    runs = json.loads(RUNS.read_text("utf8"))
    products = [product for product in all_products() if product.source.parent.name in ("chapters", "labs")]
    seconds = {product.source: runs.get(product.name, {}).get("cpu_seconds", 0) for product in products}
    return sorted(seconds, key=seconds.get, reverse=True)


@pytest.fixture(scope="module")
def libraries():
    """Imported before the forks. One thread: a fork takes no others along."""
    for name in LIBRARIES:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)


def _run(cells: list[str], folder: Path, sender: Connection) -> None:
    """In the fork: run the cells one after the other and send the name of each one's error, or None."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    for name in [name for name in sys.modules if name.split(".")[0] == "utils"]:
        del sys.modules[name]  # the notebook imports them itself, after the weights are swapped
    os.chdir(folder)
    sys.modules["matplotlib"].use("agg")
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf8")
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    results = [shell.run_cell(cell) for cell in cells]
    errors = [result.error_before_exec or result.error_in_exec for result in results]
    sender.send([type(error).__name__ if error else None for error in errors])


def stops(cells: list[str], folder: Path) -> list[str | None]:
    """The name of the error at which each cell stops, or None."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(cells, folder, sender))
    process.start()
    sender.close()
    try:
        assert receiver.poll(TIMEOUT), f"the run did not end in {TIMEOUT} s"
        return receiver.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the run ended before its last cell; exit code {process.exitcode}") from None
    finally:
        process.kill()  # nothing happens where it has ended
        process.join()


@pytest.mark.parametrize("source", _sources(), ids=lambda source: f"{source.parent.name}/{source.stem}")
def test_claims_about_a_trained_model_fail_with_random_weights(libraries, source):
    cells = solved_notebook(source).cells
    claims = [i for i, cell in enumerate(cells) if "claim" in cell.metadata.get("tags", [])]
    assert claims, "no cell carries the tag claim: mark the assertions that need the trained weights"
    code = [cell.source if cell.cell_type == "code" else "" for cell in cells[: claims[-1] + 1]]
    found = stops([RANDOM_WEIGHTS, *code], products_of(source)[0].notebook.parent)
    assert found[0] is None
    for position in claims:
        assert found[position + 1] == "AssertionError", (
            f"cell {position} holds its claim even with random weights (or stopped otherwise: {found[position + 1]}):\n"
            + cells[position].source
        )
