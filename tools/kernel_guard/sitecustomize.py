"""Loaded by every Python that a notebook run starts (the runner puts this folder on PYTHONPATH).

It does two things, both with audit hooks, which cannot be taken out again:
* it refuses every connection and every look-up of a name beyond this machine;
* it notes the files of the book that a notebook opens, so that its digest covers them.

Code that opens sockets without Python's socket module is not seen; hub clients are told by their own variables to stay
offline (tools/pipeline/execute.py).
"""

from __future__ import annotations

import ipaddress
import os
import sys
import time

ROOT = os.environ.get("BOOK_ROOT", "")
_opened: set[str] = set()


class ConnectionRefusedByGuard(RuntimeError):
    """Not an OSError, so that a library cannot take it for a network that is down and go on."""


def is_local(host: object) -> bool:
    """Whether a host, as given to the socket module, is this machine."""
    if host is None or host in ("", b"", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:
        return False


def _refuse(host: object) -> None:
    raise ConnectionRefusedByGuard(
        f"no network in a notebook run: refused to reach {host!r} (only loopback is allowed)"
    )


def _guard(event: str, arguments: tuple) -> None:
    if event == "socket.getaddrinfo" or event.startswith("socket.gethostby"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if not isinstance(address, tuple):  # a Unix socket, or one that is connected already
            return
        host = address[0]
    else:
        return
    if not is_local(host):
        _refuse(host)


def _name(path: str) -> str:
    """A path relative to the book's folder; empty if it lies elsewhere."""
    return path[len(ROOT) + 1 :].replace(os.sep, "/") if path.startswith(ROOT + os.sep) else ""


def _note(event: str, arguments: tuple) -> None:
    if event == "open" and isinstance(arguments[0], str) and ROOT:
        name = _name(os.path.abspath(arguments[0]))
        if name and not name.startswith(".") and "__pycache__" not in name:  # not .venv, .git
            _opened.add(name)


def record() -> dict:
    """What this process used: files of the book (relative, sorted), peak memory in MB (or None), processor seconds."""
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "utils"]
    imported = {_name(getattr(module, "__file__", None) or "") for module in modules} - {""}
    try:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak_mb = round(peak / (2**20 if sys.platform == "darwin" else 2**10))
    except ImportError:  # Windows
        peak_mb = None
    return {"files": sorted(_opened | imported), "peak_mb": peak_mb, "cpu_seconds": time.process_time()}


sys.addaudithook(_guard)
sys.addaudithook(_note)
