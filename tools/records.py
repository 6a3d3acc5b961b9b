"""What the published notebooks recorded (utils.claims.record), claim by claim."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from utils import claims

ROOT = Path(__file__).resolve().parents[1]
READING = "a matter of reading"
RESULTS = (*claims.MEASURED, READING)


def toc_files(toc: dict) -> list[str]:
    """Every document of _toc.yml, without suffix, in order."""
    found = [toc["root"]] if "root" in toc else []
    for entry in [*toc.get("parts", []), *toc.get("chapters", []), *toc.get("sections", [])]:
        found += [entry["file"]] if "file" in entry else []
        found += toc_files({key: value for key, value in entry.items() if key in ("chapters", "sections")})
    return found


def documents(root: Path = ROOT) -> list[str]:
    """Every document of the book's _toc.yml."""
    return toc_files(yaml.safe_load((root / "_toc.yml").read_text("utf8")))


def _in_order(value: object, text: str) -> dict[str, str]:
    """The parts of a recorded value as the notebook shows them: stored notebooks sort keys, their text does not."""
    shown = "; " + text.rpartition("\n  ")[2]
    parts = claims.parts(value)
    return {name: parts[name] for name in sorted(parts, key=lambda name: shown.find(f"; {name}: "))}


def recorded(documents: list[str], root: Path = ROOT) -> dict[str, list[dict]]:
    """Claim id → what the notebooks recorded for it: ``value``, ``verdict``, ``parts`` (as shown), ``notebook``."""
    found: dict[str, list[dict]] = {}
    for document in documents:
        path = root / f"{document}.ipynb"
        cells = json.loads(path.read_text("utf8"))["cells"] if path.exists() else []
        for output in (output.get("data", {}) for cell in cells for output in cell.get("outputs", [])):
            if data := output.get(claims.RECORD_TYPE):
                parts = _in_order(data["value"], "".join(output["text/plain"]))
                found.setdefault(data["claim"], []).append({**data, "parts": parts, "notebook": document})
    return found


def result(records: list[dict]) -> str:
    """What was measured for one claim, in one of RESULTS; notebooks that differ make it conditional."""
    verdicts = {record["verdict"] for record in records}
    if not verdicts:
        return READING
    return verdicts.pop() if len(verdicts) == 1 else "holds with conditions"


def address(record: dict) -> str:
    """The output that recorded it, from the root of the site."""
    return f"{record['notebook']}.html#{claims.anchor(record['claim'], 'measured')}"


def title(document: str) -> str:
    """A notebook in words: ``chapters/07-rank-collapse`` is chapter 7."""
    folder, _, name = document.partition("/")
    number = re.match(r"\d+", name)
    return f"{folder.rstrip('s')} {int(number[0]) if number else f'“{name.capitalize()}”'}"


def slug(words: object) -> str:
    """As a value in an address: ``does not hold`` is ``does-not-hold``."""
    return str(words).replace(" ", "-")
