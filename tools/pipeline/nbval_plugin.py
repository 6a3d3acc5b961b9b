"""What strict nbval needs here, as a pytest plugin (conftest.py loads it): the environment, and readable reports.

* Kernels get the guard, one thread (BOOK_THREADS sets another number) and no progress bars, as when the notebooks are
  made.
* A semicolon that ends a cell keeps its value silent. nbval runs cells outside IPython's history, where IPython looks
  for the semicolon.
* Where two outputs differ, the first place is shown. pytest's own comparison of two long lines takes minutes.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from nbval.kernel import RunningKernel

from tools.pipeline.execute import kernel_environment

AROUND = 80
PROFILE = pytest.StashKey[str]()


def _execute_in_history(self: RunningKernel, source: str, allow_stdin: bool | None = None) -> str:
    return self.kc.execute(source, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.nbval or PROFILE in config.stash:
        return
    config.stash[PROFILE] = tempfile.mkdtemp(prefix="book-ipython-")
    threads = int(os.environ.get("BOOK_THREADS", "1"))
    os.environ.update(kernel_environment(threads) | {"IPYTHONDIR": config.stash[PROFILE]})
    RunningKernel.execute_cell_input = _execute_in_history


def pytest_unconfigure(config: pytest.Config) -> None:
    if PROFILE in config.stash:
        shutil.rmtree(config.stash[PROFILE], ignore_errors=True)


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """The first place at which two texts differ, with what stands around it."""
    if PROFILE not in config.stash or not isinstance(left, str) or not isinstance(right, str):
        return None
    pairs = zip(left, right, strict=False)
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
    part = slice(max(0, first - AROUND), first + AROUND)
    return [f"the texts differ at character {first}", f"stored: …{left[part]}…", f"now:    …{right[part]}…"]
