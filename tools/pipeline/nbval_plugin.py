"""What strict nbval needs here, as a pytest plugin (conftest.py loads it): the environment, and readable reports.

* Kernels get the guard, one thread (BOOK_THREADS sets another number) and no progress bars, as when the notebooks are
  made. On Linux they are forks of one process (warm_kernels.py).
* A semicolon that ends a cell keeps its value silent. nbval runs cells outside IPython's history, where IPython looks
  for the semicolon.
* Where two outputs differ, the first place is shown. pytest's own comparison of two long lines takes minutes.
* The coded numbers of interactive figures, which the sanitiser hides, are compared with tolerance.
* A notebook with stubs that has no solved twin, a chapter, gets an item more for each solution: it runs in the kernel
  of the notebook, after its last cell, and its check must pass.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from jupyter_client.provisioning import local_provisioner
from nbformat import NotebookNode
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.grade import check_results
from tools.pipeline.execute import kernel_environment
from tools.pipeline.products import KINDS, products_of
from tools.pipeline.source import has_solution, solved_notebook
from tools.pipeline.warm_kernels import Nursery
from utils.payload import unpack

AROUND = 80
PROFILE = pytest.StashKey[str]()
NURSERY = pytest.StashKey[Nursery]()
TOLERANCE = {"rtol": 2e-3, "atol": 0.01}  # of coded numbers: codes flip between processors

_compare_texts = IPyNbCell.compare_outputs


def _execute_in_history(self: RunningKernel, source: str, allow_stdin: bool | None = None) -> str:
    return self.kc.execute(source, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


def coded(outputs: list[NotebookNode]) -> list[dict[str, np.ndarray]]:
    """The numbers of each interactive figure among the outputs of a cell."""
    shown = (output.get("data", {}).get("text/html", "") for output in outputs)
    return [unpack(html) for html in shown if '"base64":"' in html]


def _compare_outputs(self: IPyNbCell, test: list, ref: list, skip_compare: tuple | None = None) -> bool:
    """Texts as nbval compares them, then the coded numbers."""
    if not _compare_texts(self, test, ref, skip_compare):
        return False
    try:
        for now, stored in zip(coded(test), coded(ref), strict=True):
            assert now.keys() == stored.keys(), f"arrays {sorted(now)}, stored {sorted(stored)}"
            for name, values in stored.items():
                np.testing.assert_allclose(now[name], values, **TOLERANCE, err_msg=f"coded numbers {name!r}")
    except (AssertionError, ValueError) as error:
        self.comparison_traceback.append(str(error))
        return False
    return True


class SolutionCell(IPyNbCell):
    """A cell with its solution, run after the notebook with stubs: its check must pass."""

    def runtest(self) -> None:
        super().runtest()
        results = check_results(NotebookNode(cells=[NotebookNode(outputs=self.test_outputs)]))
        if not results or any(status != "passed" for _, status, _ in results):
            self.raise_cell_error(f"the solution does not pass its check: {results or 'no check in the cell'}")

    def reportinfo(self) -> tuple:
        path, line, _ = super().reportinfo()
        return path, line, f"{path}::{self.name}"


def solutions(notebook: Path) -> list[NotebookNode]:
    """The cells with solutions of a notebook that has stubs and no solved twin, as its author wrote them."""
    kind, root = notebook.parent.name, notebook.parents[1]
    source = root / "source" / kind / f"{notebook.stem.replace('-', '_')}.py"
    if kind not in KINDS or not source.is_file() or any(p.solved for p in products_of(source, root)):
        return []
    return [cell for cell in solved_notebook(source).cells if has_solution(cell)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After the last cell of each notebook, its solutions."""
    last = {item.parent: place for place, item in enumerate(items) if isinstance(item.parent, IPyNbFile)}
    for notebook, place in reversed(last.items()):
        items[place + 1 : place + 1] = [
            SolutionCell.from_parent(
                notebook, name=f"Solution {number}", cell_num=number, cell=cell, options=defaultdict(bool)
            )
            for number, cell in enumerate(solutions(notebook.path), start=1)
        ]


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.nbval or PROFILE in config.stash:
        return
    config.stash[PROFILE] = tempfile.mkdtemp(prefix="book-ipython-")
    threads = int(os.environ.get("BOOK_THREADS", "1"))
    os.environ.update(kernel_environment(threads) | {"IPYTHONDIR": config.stash[PROFILE]})
    RunningKernel.execute_cell_input = _execute_in_history
    IPyNbCell.compare_outputs = _compare_outputs
    config.stash[NURSERY] = Nursery()
    if sys.platform == "linux":
        local_provisioner.launch_kernel = config.stash[NURSERY].launch


def pytest_unconfigure(config: pytest.Config) -> None:
    if PROFILE in config.stash:
        shutil.rmtree(config.stash[PROFILE], ignore_errors=True)
        config.stash[NURSERY].close()


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """The first place at which two texts differ, with what stands around it."""
    if PROFILE not in config.stash or not isinstance(left, str) or not isinstance(right, str):
        return None
    pairs = zip(left, right, strict=False)
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    part = slice(max(0, first - AROUND), first + AROUND)
    return [f"the texts differ at character {first}", f"stored: …{left[part]}…", f"now:    …{right[part]}…"]
