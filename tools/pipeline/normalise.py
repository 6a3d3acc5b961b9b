"""An executed notebook without what changes from run to run."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.pipeline import pictures
from tools.pipeline.execute import NotebookError
from tools.pipeline.source import LANGUAGE

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def normalise(notebook: NotebookNode) -> NotebookNode:
    """In place: counts 1..n, no timestamps, no widget state, pictures with a palette.

    Anything on stderr is an error, with the cell's source.
    """
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = NotebookNode(LANGUAGE)  # a kernel adds its version
    count = 0
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = [_normalise_output(output, count, cell.source) for output in _joined(cell.outputs)]
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What was printed in pieces, in one piece: how a kernel cuts it is chance."""
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _normalise_output(output: NotebookNode, count: int, source: str) -> NotebookNode:
    if output.output_type == "stream" and output.name == "stderr":
        raise NotebookError(f"a cell writes to stderr, which readers would see:\n{source}\n---\n{output.text}")
    if "execution_count" in output:
        output.execution_count = count
    if "data" in output:
        output.data.pop(WIDGET_VIEW, None)
        pictures.reduce_output(output)
    return output


def write(notebook: NotebookNode, path: Path) -> None:
    """Write in one step, so that a stopped run leaves no half notebook behind."""
    nbformat.validate(notebook)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(nbformat.writes(notebook, version=4).rstrip("\n") + "\n", encoding="utf8", newline="\n")
    os.replace(draft, path)
