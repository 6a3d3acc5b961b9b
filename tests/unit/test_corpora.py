"""The frozen texts are what data/README.md says they are."""

import hashlib
import platform
import re
from pathlib import Path

import pytest

from tools import frozen
from utils.corpora import docstring_pairs, passages

DATA = Path(__file__).resolve().parents[2] / "data"


def test_passages_are_many_small_and_in_a_fixed_order():
    texts = passages()
    assert len(texts) == len(set(texts)) >= 200
    assert (DATA / "passages.jsonl").stat().st_size <= 400_000
    assert passages() == texts
    assert passages(5) == texts[:5]
    assert all(25 <= len(text.split()) <= 120 and text.endswith(".") for text in texts)


def test_passages_of_one_length():
    texts = passages(words=40)
    assert {len(text.split()) for text in texts} == {40}
    whole = [text for text in passages() if len(text.split()) >= 40]
    assert all(long.startswith(short) for short, long in zip(texts, whole, strict=True))
    assert passages(3, words=40) == texts[:3]


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"n": 0}, ValueError, "n must be from 1 to"),
        ({"n": -1}, ValueError, "n must be from 1 to"),
        ({"n": 10_000}, ValueError, "there are"),
        ({"n": 2.0}, TypeError, "n must be a whole number, got 2.0"),
        ({"n": True}, TypeError, "got True"),
        ({"n": "3"}, TypeError, "got '3'"),
        ({"words": 0}, ValueError, "words must be from 1 to"),
        ({"words": 121}, ValueError, "the longest passage has"),
        ({"words": 1.5}, TypeError, "words must be a whole number"),
        ({"n": 300, "words": 100}, ValueError, "with 100 words there are"),
    ],
)
def test_numbers_are_checked(arguments, error, words):
    with pytest.raises(error, match=words):
        passages(**arguments)


def test_docstring_pairs_are_many_small_and_in_a_fixed_order():
    pairs = docstring_pairs()
    assert len(pairs) >= 300
    assert (DATA / "docstrings.jsonl").stat().st_size <= 300_000
    assert docstring_pairs() == pairs
    assert docstring_pairs(7) == pairs[:7]
    assert all(5 <= len(query.split()) <= 25 and 25 <= len(passage.split()) <= 120 for query, passage in pairs)


def test_a_docstring_query_has_one_answer_and_no_passage_quotes_it():
    queries, answers = zip(*docstring_pairs(), strict=True)
    assert len(set(queries)) == len(set(answers)) == len(queries)
    everything = "\n".join(answers).lower()
    assert not [query for query in queries if query.lower().rstrip(".") in everything]
    for texts in (queries, answers):
        bags = [frozenset(re.findall("[a-z]+", text.lower())) for text in texts]
        shared = [len(a & b) / len(a | b) for i, a in enumerate(bags) for b in bags[:i]]
        assert max(shared) < 0.5


@pytest.mark.parametrize("n, error", [(0, ValueError), (10_000, ValueError), (1.5, TypeError), (True, TypeError)])
def test_the_number_of_docstring_pairs_is_checked(n, error):
    with pytest.raises(error, match="n must be"):
        docstring_pairs(n)


@pytest.mark.parametrize("name", ["passages.jsonl", "docstrings.jsonl"])
def test_origin_and_licence_are_stated_in_the_file_and_beside_it(name):
    head = (DATA / name).read_text(encoding="utf-8").splitlines()[0]
    assert "CPython 3.11.7" in head
    assert "PSF-2.0" in head
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (DATA / "passages.LICENSE.txt").read_text(encoding="utf-8")


def test_the_readme_has_a_row_for_every_text_sweep_and_weight():
    named = set(re.findall(r"^\| `([^`]+)` \|", (DATA / "README.md").read_text(encoding="utf-8"), re.M))
    kinds = ("*.jsonl", "*.tsv", "sweeps/**/*.*", "*/model.safetensors")
    files = {path.relative_to(DATA).as_posix() for kind in kinds for path in DATA.rglob(kind)}
    assert len(files) > 30 and sorted(files - named) == []


def test_every_sha256_in_the_readme_is_that_of_its_file():
    rows = re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})`", (DATA / "README.md").read_text(encoding="utf-8"), re.M)
    assert {"passages.jsonl", "docstrings.jsonl"} <= set(dict(rows))
    for name, digest in rows:
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize("name", ["tools.passages", "tools.docstrings"])
def test_the_script_that_rebuilds_a_corpus_gives_the_same_one(name):
    script = pytest.importorskip(name)
    if platform.python_version() != frozen.VERSION:
        pytest.skip(f"the texts come from Python {frozen.VERSION}")
    assert script.content() == script.FILE.read_text(encoding="utf-8")
