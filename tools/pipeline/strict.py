"""How nbval is called: every output is compared with the stored one, in a kernel without network."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.pipeline.execute import kernel_environment
from tools.pipeline.products import ROOT

SANITIZE = ROOT / "tests" / "notebooks" / "sanitize.cfg"


def nbval(*arguments: str | Path, threads: int = 1, capture: bool = False) -> subprocess.CompletedProcess:
    """Run strict nbval. arguments: notebooks, folders, options of pytest. capture: keep what it prints (as text)."""
    options = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", str(SANITIZE), "-p", "tools.pipeline.brief"]
    command = [sys.executable, "-m", "pytest", "-q", *options, *map(str, arguments)]
    with tempfile.TemporaryDirectory(prefix="book-ipython-") as profile:
        env = kernel_environment(threads) | {"IPYTHONDIR": profile}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=capture, text=True)
