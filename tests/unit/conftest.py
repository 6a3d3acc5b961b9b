"""Fixtures for the unit tests: tiny random models of every family, and MiniLM."""

from __future__ import annotations

from functools import partial

import families
import pytest


@pytest.fixture(scope="session")
def make():
    """make("bert") gives a fresh tiny random ``Family(name, model, tokenizer)``; keywords change its config."""
    return partial(families.build, kinds=families.tokenizers())


@pytest.fixture(params=families.FAMILIES)
def family(request, make) -> families.Family:
    """Every family in turn."""
    return make(request.param)


@pytest.fixture
def tiny_bert(make) -> families.Family:
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
