"""The small notebook that the pipeline's own tests use, and the notebooks of the book."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from xdist.scheduler import LoadScopeScheduling

from tools.pipeline.execute import Run, execute
from tools.pipeline.normalise import normalise
from tools.pipeline.source import solved_notebook, without_solutions

FIXTURES = Path(__file__).parent / "fixtures"


class Files(LoadScopeScheduling):
    """The tests of a file share one process and its fixtures; live runs are dealt out singly."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return nodeid if file.endswith("test_live.py") else file


def pytest_xdist_make_scheduler(config, log) -> Files:
    return Files(config, log)


@pytest.fixture(scope="session")
def small_source() -> Path:
    return FIXTURES / "01_small.py"


@pytest.fixture(scope="session")
def small_run(small_source, tmp_path_factory) -> Run:
    """The student's copy of the small notebook, executed once."""
    run = execute(without_solutions(solved_notebook(small_source)), tmp_path_factory.mktemp("run"))
    normalise(run.notebook)
    return run


@pytest.fixture(scope="session")
def read():
    """read(path) -> the stored notebook."""
    return lambda path: nbformat.read(path, as_version=4)
