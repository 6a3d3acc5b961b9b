"""What needs a run of its own: solutions of chapters, coded numbers of figures, and claims without the weights.

Strict nbval runs the stored notebooks; these runs use the solved source.
"""

from __future__ import annotations

import nbformat
import numpy as np
import pytest

from tools.grade import check_results
from tools.pipeline.execute import execute
from tools.pipeline.products import all_products, products_of
from tools.pipeline.source import BEGIN, solved_notebook
from utils.payload import unpack

SOURCES = sorted({product.source for product in all_products()})
WITH_CLAIMS = [source for source in SOURCES if source.parent.name in ("chapters", "labs")]
NAME = {"ids": lambda source: f"{source.parent.name}/{source.stem}"}

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


def coded(cell) -> list[dict[str, np.ndarray]]:
    """The numbers of each interactive figure that a cell shows."""
    shown = (output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))
    return [unpack(html) for html in shown if '"base64":"' in html]


@pytest.mark.parametrize("source", SOURCES, **NAME)
def test_solutions_pass_and_figures_agree_with_the_stored_ones(source):
    products = products_of(source)
    run = execute(solved_notebook(source), products[0].notebook.parent)
    if BEGIN in source.read_text("utf8"):
        results = check_results(run.notebook)
        assert results and [r for r in results if r[1] != "passed"] == []
    for product in products:
        stored = nbformat.read(product.notebook, as_version=4)
        for position, (before, now) in enumerate(zip(stored.cells, run.notebook.cells, strict=True)):
            pairs = zip(coded(before), coded(now), strict=True)
            for arrays, again in pairs:
                assert arrays.keys() == again.keys()
                for name, values in arrays.items():
                    where = f"{product.name}, cell {position}, {name}"
                    np.testing.assert_allclose(again[name], values, rtol=2e-3, atol=0.01, err_msg=where)


@pytest.mark.parametrize("source", WITH_CLAIMS, **NAME)
def test_claims_about_a_trained_model_fail_with_random_weights(source):
    notebook = solved_notebook(source)
    claims = [i for i, cell in enumerate(notebook.cells) if "claim" in cell.metadata.get("tags", [])]
    assert claims, "no cell carries the tag claim: mark the assertions that need the trained weights"
    run = execute(notebook, products_of(source)[0].notebook.parent, prelude=RANDOM_WEIGHTS, allow_errors=True)
    for position in claims:
        errors = [out.ename for out in run.notebook.cells[position].outputs if out.output_type == "error"]
        assert errors == ["AssertionError"], (
            f"cell {position} holds its claim even with random weights (or stopped otherwise: {errors}):\n"
            + notebook.cells[position].source
        )
