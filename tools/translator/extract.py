"""Parallel sentences out of Debian's LibreOffice packages (MPL-2.0): help pages and interface strings.

Every translated help paragraph keeps the HTML id of its English source, so paragraphs align exactly by page and id.
A paragraph is split into sentences when both sides have the same number of them. Interface strings come from the
gettext catalogues; they have no page and are only ever used for training.
"""

from __future__ import annotations

import gettext
import hashlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lxml import html

PACKAGES = {
    "de": ("libreoffice-help-en-us", "libreoffice-help-de", "libreoffice-l10n-de"),
    "ko": ("libreoffice-help-en-us", "libreoffice-help-ko", "libreoffice-l10n-ko"),
}
HELP = Path("usr/share/libreoffice/help")
INTERFACE = ""  # the page of an interface string
SPACE = re.compile(r"\s+")
SENTENCE_END = {
    "en": re.compile(r"(?<=[.!?])\s+(?=[\"'„«“(]?[A-ZÄÖÜ0-9])"),
    "ko": re.compile(r"(?<=[.!?])\s+"),
}
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|z\. ?B|d\. ?h|bzw|usw|etc|ca|ggf|Nr|No|vs|cf|Abb|evtl|sog)\.\s*$")


class Pair(NamedTuple):
    """One aligned sentence: English, its translation, and the help page it stands on."""

    source: str
    target: str
    page: str


def fetch(target: str, folder: Path) -> list[Path]:
    """The packages of ``target`` in ``folder``: those already there, the others by ``apt-get download``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES[target]:
        if not list(folder.glob(f"{name}_*.deb")):
            done = subprocess.run(["apt-get", "download", name], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(
                    f"apt-get download {name} failed ({done.stderr.strip()[-200:]}). "
                    f"Run `apt-get update` first, or put the package's .deb file into {folder} yourself."
                )
    return [sorted(folder.glob(f"{name}_*.deb"))[-1] for name in PACKAGES[target]]


def unpack(packages: list[Path], folder: Path) -> Path:
    """Unpack each package (nothing is installed); returns the common root."""
    for package in packages:
        stamp = folder / f".{package.name}"
        if not stamp.exists():
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
            stamp.touch()
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def paragraphs(root: Path, language: str) -> dict[tuple[str, str], str]:
    """Text of every help paragraph and heading, keyed by (page, HTML id). Program code is left out."""
    folder = root / HELP / ("en-US" if language == "en" else language) / "text"
    found: dict[tuple[str, str], str] = {}
    for file in sorted(folder.rglob("*.html")):
        area = html.fromstring(file.read_bytes().decode("utf8")).get_element_by_id("DisplayArea", None)
        if area is None:
            continue
        for element in area.iter("p", "h1", "h2", "h3", "h4", "h5", "h6"):
            name, kind = element.get("id"), element.get("class", "")
            if not name or "code" in kind or "code" in name or any(True for _ in element.iter("pre", "code")):
                continue
            for span in list(element.iter("span")):  # one branch of "on a Mac press …, else …" is enough
                if span.get("class") in ("MAC", "WIN", "UNIX"):
                    span.drop_tree()
            text = SPACE.sub(" ", element.text_content()).strip()
            if text:
                found.setdefault((file.relative_to(folder).as_posix(), name), text)
    return found


def sentences(text: str, language: str) -> list[str]:
    """Split at the end of sentences, but not after an abbreviation."""
    done, part = [], ""
    for piece in SENTENCE_END.get(language, SENTENCE_END["en"]).split(text):
        part = f"{part} {piece}".strip()
        if not ABBREVIATION.search(part):
            done.append(part)
            part = ""
    return [*done, part] if part else done


def help_pairs(root: Path, target: str) -> Iterator[Pair]:
    """Aligned sentences of the help, page by page; untranslated paragraphs are left out."""
    translated = paragraphs(root, target)
    for (page, name), source in paragraphs(root, "en").items():
        other = translated.get((page, name))
        if other is None or other == source:
            continue
        left, right = sentences(source, "en"), sentences(other, target)
        if len(left) != len(right):
            left, right = [source], [other]
        yield from (Pair(a, b, page) for a, b in zip(left, right, strict=True) if a != b)


def interface_pairs(root: Path, target: str) -> Iterator[Pair]:
    """Interface strings of two words and more, without the marks of keyboard shortcuts."""
    for file in sorted(root.rglob(f"{target}/LC_MESSAGES/*.mo")):
        with file.open("rb") as stream:
            catalogue = gettext.GNUTranslations(stream)._catalog  # the public interface cannot list its messages
        for message, translation in sorted(catalogue.items(), key=str):
            if isinstance(message, str) and message:
                source = message.rsplit("\x04", 1)[-1].replace("~", "").replace("_", "")
                other = re.sub(r"\(~?_?[A-Z]\)", "", translation).replace("~", "").replace("_", "")
                if source != other and len(source.split()) > 1:
                    yield Pair(source, other, INTERFACE)
