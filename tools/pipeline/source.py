"""Text source to a notebook without outputs: the solved one, and the one with stubs."""

from __future__ import annotations

import copy
from pathlib import Path

import jupytext
from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"


def solved_notebook(source: Path) -> NotebookNode:
    """The notebook of a py:percent file as its author wrote it, solutions included."""
    notebook = jupytext.reads(source.read_text("utf8"), fmt="py:percent")
    extra = {key: value for key, value in notebook.metadata.items() if key not in ("jupytext", "kernelspec")}
    notebook.metadata = NotebookNode(extra | {"kernelspec": KERNEL, "language_info": LANGUAGE})
    tidy_cells(notebook, source.stem.replace("_", "-"))
    return notebook


def tidy_cells(notebook: NotebookNode, slug: str) -> None:
    """Cell ids that depend on nothing but the position, and no traces of the text format."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for position, cell in enumerate(notebook.cells):
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's note on blank lines
        cell.id = f"{slug[:55]}-{position:02d}"


def without_solutions(notebook: NotebookNode) -> NotebookNode:
    """A copy in which nbgrader's own preprocessor has put a stub in the place of each solution."""
    from nbgrader.preprocessors import ClearSolutions

    stubbed, _ = ClearSolutions(enforce_metadata=False).preprocess(copy.deepcopy(notebook), {})
    return stubbed


def has_solution(cell: NotebookNode) -> bool:
    return BEGIN in cell.source
