"""The frozen texts are what data/README.md says they are."""

import hashlib
import re
from pathlib import Path

import pytest

from utils.corpora import passages

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


def test_origin_and_licence_are_stated_in_the_file_and_beside_it():
    head = (DATA / "passages.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert "CPython 3.11.7" in head
    assert "PSF-2.0" in head
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (DATA / "passages.LICENSE.txt").read_text(encoding="utf-8")


def test_every_sha256_in_the_readme_is_that_of_its_file():
    rows = re.findall(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})`", (DATA / "README.md").read_text(encoding="utf-8"), re.M)
    assert "passages.jsonl" in dict(rows)
    for name, digest in rows:
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == digest, name


def test_the_script_that_rebuilds_the_passages_gives_the_same_ones():
    script = pytest.importorskip("tools.passages")
    if script.platform.python_version() != script.VERSION:
        pytest.skip(f"the passages come from Python {script.VERSION}")
    assert script.content() == script.FILE.read_text(encoding="utf-8")
