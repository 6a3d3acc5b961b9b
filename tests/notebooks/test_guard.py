"""The guard inside a kernel: nothing leaves the machine, and what a notebook opens is known."""

from __future__ import annotations

import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools.pipeline.execute import GUARD, execute, kernel_environment
from tools.pipeline.products import ROOT

BEYOND = {  # 192.0.2.1 and 2001:db8:: are addresses of documentation: nobody is there
    "connect": "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)",
    "connect to IPv6": "import socket; socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
    "datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
    "look-up": "import socket; socket.getaddrinfo('host.invalid', 80)",
    "old look-up": "import socket; socket.gethostbyname('host.invalid')",
    "page": "import urllib.request; urllib.request.urlopen('http://host.invalid/')",
    "behind an except": "try:\n    urllib.request.urlopen('http://host.invalid/')\nexcept OSError:\n    pass",
    "child": "import subprocess, sys\n"
    "subprocess.run([sys.executable, '-c', 'import socket; socket.gethostbyname(\"host.invalid\")'], check=True)",
}
LOOPBACK = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    for host in ("127.0.0.1", "localhost"):
        socket.create_connection((host, server.getsockname()[1])).close()
left, right = socket.socketpair()
left.close(); right.close()
print("reached")
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    cells = [new_code_cell(source) for source in (*BEYOND.values(), LOOPBACK)]
    return execute(new_notebook(cells=cells), tmp_path_factory.mktemp("guard"), allow_errors=True).notebook.cells


@pytest.mark.parametrize("way", list(BEYOND))
def test_nothing_gets_beyond_this_machine(ran, way):
    (error,) = [out for out in ran[list(BEYOND).index(way)].outputs if out.output_type == "error"]
    if way == "child":
        assert error.ename == "CalledProcessError"
    else:
        assert error.ename == "ConnectionRefusedByGuard"
        assert "no network in a notebook run" in error.evalue


def test_loopback_works(ran):
    assert [output.get("text") for output in ran[-1].outputs] == ["reached\n"]


def test_the_guard_is_there_only_for_notebook_runs():
    code = "import sys; sys.exit('sitecustomize' in sys.modules and hasattr(sys.modules['sitecustomize'], 'record'))"
    environment = kernel_environment()
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 1
    assert str(GUARD) not in sys.path
    assert environment["HF_HUB_OFFLINE"] == environment["OMP_NUM_THREADS"] == "1"


def test_files_of_the_book_that_are_opened_are_noted(tmp_path):
    source = f"open({str(ROOT / 'requirements.txt')!r}).close(); open('own', 'w').close()"
    assert execute(new_notebook(cells=[new_code_cell(source)]), tmp_path).files == ["requirements.txt"]
