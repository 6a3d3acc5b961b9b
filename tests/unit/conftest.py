"""Fixtures for the unit tests: tiny random models of every family, and MiniLM.

Libraries are imported where they are used: the process that deals out the tests reads this file, too, and needs none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from families import Family


@pytest.fixture(scope="session")
def make():
    """make("bert") gives a fresh tiny random ``Family(name, model, tokenizer)``; keywords change its config."""
    import families

    return partial(families.build, kinds=families.tokenizers())


def pytest_generate_tests(metafunc) -> None:
    """A test with the fixture ``family`` runs once for each of them, unless it names its own."""
    own = any("family" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "family" in metafunc.fixturenames and not own:
        import families

        metafunc.parametrize("family", families.FAMILIES, indirect=True)


@pytest.fixture
def family(request, make) -> Family:
    """Every family in turn."""
    return make(request.param)


@pytest.fixture
def tiny_bert(make) -> Family:
    return make("bert")


@pytest.fixture(scope="session")
def minilm():
    """all-MiniLM-L6-v2, loaded once: do not change it."""
    from utils.models import load

    return load("minilm")


@pytest.fixture(scope="module")
def one_thread():
    """One thread of torch, whose record of memory and time others would blur."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
