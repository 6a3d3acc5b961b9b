"""Kernels for nbval that start as forks of one process: it has imported the large libraries, which takes 5 s.

A fork has its own memory, folder and environment; the book's own code is not imported before it. Notebooks are made and
graded in kernels that start from nothing (execute.py). ``python -m tools.pipeline.warm_kernels`` is the process that
forks: it reads requests from its input and answers each, in lines of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from tools.pipeline.products import ROOT

# Not pandas (with sklearn) and pyplot (with seaborn): they look for a notebook when they are imported.
LIBRARIES = (
    *("ipykernel.kernelapp", "matplotlib.figure", "scipy.stats", "torch.utils.flop_counter"),
    *(f"transformers.models.{name}.modeling_{name}" for name in ("bart", "bert", "gpt2")),
)
OPTION = "-f"  # of the command that starts a kernel: its connection file follows


class Kernel:
    """A forked kernel, with the part of subprocess.Popen that jupyter_client asks for."""

    stdin = stdout = stderr = None

    def __init__(self, nursery: Nursery, pid: int):
        self.nursery, self.pid, self.returncode = nursery, pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.nursery.ask(wait=self.pid, block=False)
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self.nursery.ask(wait=self.pid, block=True)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks, as seen by the one that tests. It starts with the first kernel, in its environment."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None

    def _start(self, environment: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-m", __name__], env=environment, cwd=ROOT, text=True, **pipes)

    def ask(self, **request: object) -> int | None:
        """The answer to a request (see ``_answers``). Raises RuntimeError if the process has ended."""
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            code = self.process.wait()
            raise RuntimeError(f"the process that forks kernels ended with exit code {code}; stderr says why") from None

    def launch(self, command: list[str], *, env: dict[str, str], cwd: str | None = None, **_: object) -> Kernel:
        """Instead of jupyter_client's ``launch_kernel``. command: as it would start a kernel anew."""
        if self.process is None:
            self._start(env)
        arguments = command[command.index(OPTION) :]
        return Kernel(self, self.ask(fork=arguments, environment=dict(env), folder=str(cwd or os.getcwd())))

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.communicate()


def _run(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """In the fork: a kernel, until it is told to end."""
    from ipykernel.kernelapp import IPKernelApp

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.environ.clear()
    os.environ.update(environment | {"JPY_PARENT_PID": str(os.getppid())})
    os.chdir(folder)
    del sys.path[0]  # the folder from which this module was started; IPython puts the notebook's in
    IPKernelApp.launch_instance(arguments)


def _fork(arguments: list[str], environment: dict[str, str], folder: str) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            _run(arguments, environment, folder)
            code = 0
        finally:
            os._exit(code)
    os.setpgid(pid, pid)  # here too: whoever comes first; signals go to the group
    return pid


def _wait(pid: int, block: bool) -> int | None:
    """The exit code of a kernel, or None while it runs."""
    found, status = os.waitpid(pid, 0 if block else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _answers(requests: Iterator[str]) -> Iterator[int | None]:
    for line in requests:
        match json.loads(line):
            case {"fork": arguments, "environment": environment, "folder": folder}:
                yield _fork(arguments, environment, folder)
            case {"wait": pid, "block": block}:
                yield _wait(pid, block)


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for answer in _answers(sys.stdin):
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
