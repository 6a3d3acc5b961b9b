"""What needs a run of its own: claims about a trained model, without the trained weights.

Strict nbval does the rest: it runs the stored notebooks and compares outputs, coded numbers of figures included, and
runs the solutions of chapters (tools/pipeline/nbval_plugin.py).
"""

from __future__ import annotations

import pytest

from tools.pipeline.execute import execute
from tools.pipeline.products import all_products, products_of
from tools.pipeline.source import solved_notebook

SOURCES = sorted({product.source for product in all_products() if product.source.parent.name in ("chapters", "labs")})

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


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}/{source.stem}")
def test_claims_about_a_trained_model_fail_with_random_weights(source):
    notebook = solved_notebook(source)
    claims = [i for i, cell in enumerate(notebook.cells) if "claim" in cell.metadata.get("tags", [])]
    assert claims, "no cell carries the tag claim: mark the assertions that need the trained weights"
    del notebook.cells[claims[-1] + 1 :]
    run = execute(notebook, products_of(source)[0].notebook.parent, prelude=RANDOM_WEIGHTS, allow_errors=True)
    for position in claims:
        errors = [out.ename for out in run.notebook.cells[position].outputs if out.output_type == "error"]
        assert errors == ["AssertionError"], (
            f"cell {position} holds its claim even with random weights (or stopped otherwise: {errors}):\n"
            + notebook.cells[position].source
        )
