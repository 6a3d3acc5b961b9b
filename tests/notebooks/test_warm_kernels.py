"""Kernels that are forks of one process: as if each had started from nothing, but for the time."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import local_provisioner

from tools.pipeline.execute import kernel_environment
from tools.pipeline.warm_kernels import LIBRARIES, Nursery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forks on Linux only")


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def kernel(nursery, monkeypatch, tmp_path) -> Iterator[Callable]:
    """kernel(VARIABLE="value") starts one in tmp_path: its manager, and ``ask(code)`` → what the code prints."""
    monkeypatch.setattr(local_provisioner, "launch_kernel", nursery.launch)
    started = []

    def start(**environment: str) -> tuple[KernelManager, Callable[[str], str]]:
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(env=kernel_environment() | environment, cwd=str(tmp_path))
        client = manager.client()
        started.append((manager, client))
        client.start_channels()
        client.wait_for_ready(timeout=60)

        def ask(code: str) -> str:
            told: list[str] = []
            hook = lambda message: told.append(message["content"].get("text", ""))  # noqa: E731
            client.execute_interactive(code, output_hook=hook, timeout=60)
            return "".join(told).strip()

        return manager, ask

    yield start
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def ended(manager: KernelManager) -> bool:
    """Whether the kernel has ended, after at most ten seconds."""
    limit = time.monotonic() + 10
    while manager.is_alive() and time.monotonic() < limit:
        time.sleep(0.05)
    return not manager.is_alive()


def test_a_kernel_has_its_folder_its_environment_and_nothing_of_another(kernel, tmp_path):
    (_, first), (_, second) = kernel(SAID="first"), kernel(SAID="second")
    first("import os, json; json.left = left = 1; os.environ['LEFT'] = '1'")
    code = "import os, json; print(os.getcwd(), os.environ['SAID'], 'LEFT' in os.environ, hasattr(json, 'left'), '{}')"
    assert second(code.format("second")) == f"{tmp_path} second False False second"
    assert second("print('left' in globals())") == "False"
    assert first("import os; print(os.environ['SAID'], left)") == "first 1"


def test_libraries_are_loaded_and_nothing_that_looks_for_a_notebook_or_is_the_books(kernel):
    _, ask = kernel()
    ask("import sys; loaded = set(sys.modules)")
    assert ask(f"print({set(LIBRARIES)!r} <= loaded)") == "True"
    assert ask("print(sorted(loaded & {'pandas', 'matplotlib.pyplot', 'seaborn', 'utils'}))") == "[]"
    assert ask("print('torch' in globals())") == "False"


def test_modules_are_looked_for_where_a_kernel_of_its_own_looks(kernel, nursery, monkeypatch):
    ask = "import sys; print(sys.path)"
    warm = kernel()[1](ask)
    monkeypatch.undo()
    assert warm == kernel()[1](ask)


def test_the_guard_refuses_the_network(kernel):
    _, ask = kernel()
    ask("import socket\ntry: socket.create_connection(('192.0.2.1', 80))\nexcept Exception as e: error = e")
    assert ask("print(type(error).__name__)") == "ConnectionRefusedByGuard"


@pytest.mark.parametrize("how", ["killed", "exits"])
def test_a_kernel_that_ends_is_noticed_and_leaves_the_others(kernel, how):
    (manager, ask), (other, still) = kernel(), kernel()
    pid = int(ask("import os; print(os.getpid())"))
    assert manager.is_alive() and os.getpgid(pid) == pid
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        manager.client().stop_channels()
        manager.shutdown_kernel()
    assert ended(manager) and other.is_alive()
    assert still("print(1)") == "1"


def test_the_end_of_the_process_that_forks_is_told(tmp_path):
    lost = Nursery()
    with pytest.raises(RuntimeError, match="ended with exit code 1"):
        lost.launch(["-f", "none.json"], env=kernel_environment() | {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/no"})
    lost.close()
