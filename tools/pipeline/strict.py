"""How nbval is called: every output is compared with the stored one, apart from what sanitize.cfg names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.pipeline.products import ROOT

SANITIZE = ROOT / "tests" / "notebooks" / "sanitize.cfg"


def nbval(*arguments: str | Path, threads: int = 1, capture: bool = False) -> subprocess.CompletedProcess:
    """Run strict nbval. arguments: notebooks, folders, options of pytest. capture: keep what it prints (as text)."""
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", str(SANITIZE)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.pipeline.nbval_plugin", *options]
    env = os.environ | {"BOOK_THREADS": str(threads)}
    return subprocess.run([*command, *map(str, arguments)], cwd=ROOT, env=env, capture_output=capture, text=True)
