"""Run a notebook in a fresh kernel: one thread, no network, no progress bars."""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.pipeline.products import ROOT

GUARD = ROOT / "tools" / "kernel_guard"
TIMEOUT = 600
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_REPORT = "import json, sitecustomize; print(json.dumps(sitecustomize.record()))"


class NotebookError(RuntimeError):
    """A cell stopped, or wrote what it must not write; the message names the cell.

    position: of the cell at which a run ended, counted from 0.
    """

    def __init__(self, message: str, position: int = 0):
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class Run:
    """An executed notebook and what the run used.

    files: paths below the root that were imported or opened. seconds: with the start of the kernel. cpu_seconds: of
    the kernel's process, which a busy machine changes little.
    """

    notebook: NotebookNode
    files: list[str]
    seconds: float
    cpu_seconds: float
    peak_mb: int | None


def kernel_environment(threads: int = 1, root: Path = ROOT) -> dict[str, str]:
    """The variables under which notebooks are generated and tested, on top of those that are set."""
    count = str(threads)
    earlier = os.environ.get("PYTHONPATH", "")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(GUARD), *([earlier] if earlier and str(GUARD) not in earlier else [])]),
        "BOOK_ROOT": str(root),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait do not take a core from those that work
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TQDM_DISABLE": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def execute(
    notebook: NotebookNode, folder: Path, *, prelude: str = "", allow_errors: bool = False, timeout: int = TIMEOUT
) -> Run:
    """Execute a copy of the notebook in ``folder``.

    prelude: code that runs first and is not kept (grading uses it to limit memory).
    timeout: seconds a cell may take.
    allow_errors: go on after a cell that stops and keep its error as an output; otherwise NotebookError.
    """
    work = copy.deepcopy(notebook)
    work.cells = [new_code_cell(prelude), *work.cells, new_code_cell(_REPORT)]
    client = NotebookClient(
        work,
        timeout=timeout,
        kernel_name="python3",
        allow_errors=allow_errors,
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=40"],
        resources={"metadata": {"path": str(folder)}},
    )
    reached = [0]
    client.on_cell_start = lambda cell, cell_index: reached.append(cell_index)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="book-ipython-") as profile:
        try:
            client.execute(env=kernel_environment() | {"IPYTHONDIR": profile})
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            raise NotebookError(_ANSI.sub("", str(error)), max(0, reached[-1] - 1)) from None  # 1: the prelude
    seconds = time.perf_counter() - start
    report = json.loads(work.cells[-1].outputs[0].text)
    work.cells = work.cells[1:-1]
    return Run(work, report["files"], seconds, report["cpu_seconds"], report["peak_mb"])
