"""Read and write data/sweeps/<name>.json: results, and beside them what made them."""

from __future__ import annotations

import json
import platform
from datetime import date
from pathlib import Path

import torch

from utils.sweeps import FOLDER, sweep


def earlier(name: str, weights: str) -> dict | None:
    """What an earlier run of a sweep left, if it was about the model with the same SHA-256; then it can go on."""
    content = sweep(name) if (FOLDER / f"{name}.json").is_file() else None
    return content if content and content["made"].get("model") == weights else None


def made(script: str, **facts: object) -> dict[str, object]:
    """Script, date, machine and versions of a sweep, and what else it depends on (seeds, models, sentences)."""
    return {
        "script": f"python -m tools.sweeps.{script}",
        "date": date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} thread",
        "python": platform.python_version(),
        "torch": torch.__version__,
        **facts,
    }


def write(name: str, content: dict) -> Path:
    """Write a sweep, one row of each table a line, so that a change can be read."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    parts = (f" {json.dumps(key)}: {_value(value)}" for key, value in content.items())
    file = FOLDER / f"{name}.json"
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return file


def _value(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value) + "\n ]"
    return json.dumps(value, ensure_ascii=False)
