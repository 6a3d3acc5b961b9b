"""The switches of Lab 2: what they do is a plain function that never raises for what a reader can type."""

from __future__ import annotations

import pytest

from utils.head_switches import (
    found_passages,
    heads_named,
    search_answer,
    search_switches,
    translation_answer,
    translation_switches,
)
from utils.heads import Head, ablated, heads_of
from utils.models import load
from utils.search_index import embed
from utils.translator import translate

PAIRS = [("what sat where?", "the cat sat on the mat"), ("who ran?", "a dog ran away"), ("how does it end?", "the end")]


@pytest.fixture(scope="module")
def translator():
    return load("translator")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("0.1", {(0, 1)}),
        (" 0.1 , 1.0,", {(0, 1), (1, 0)}),
        ("0.1, 0.1, 0.*", {(0, 0), (0, 1), (0, 2), (0, 3)}),
        ("*.2", {(0, 2), (1, 2), (2, 2)}),
    ],
)
def test_names_are_heads(tiny_bert, text, expected):
    assert {(head.layer, head.head) for head in heads_named(tiny_bert.model, text)} == expected


def test_a_star_is_all_and_a_type_is_one_of_three(translator):
    assert heads_named(translator.model, "encoder *.*, decoder *.*, cross *.*") == heads_of(translator.model)
    assert heads_named(translator.model, "cross 2.3") == [Head(2, 3, "cross")]
    assert heads_named(translator.model, "2.3") == [Head(2, 3, "encoder")]


@pytest.mark.parametrize(
    ("text", "words"), [("5", "names no head"), ("a.b", "names no head"), ("99.0", "no such"), ("cross 0.0", "no such")]
)
def test_what_names_no_head_is_refused(tiny_bert, text, words):
    with pytest.raises(ValueError, match=words):
        heads_named(tiny_bert.model, text)


def test_found_passages_are_the_nearest_without_the_heads(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    out = heads_named(model, "1.*")
    found = found_passages(model, tokenizer, PAIRS, "what sat where?", out, k=2)
    with ablated(model, out):
        vectors = embed(model, tokenizer, ["what sat where?", *(passage for _, passage in PAIRS)])
    cosines = vectors[1:] @ vectors[0]
    assert [number for number, _ in found] == cosines.argsort(descending=True)[:2].tolist()
    assert found[0][1] == pytest.approx(float(cosines.max()), abs=1e-5)


def test_the_answer_says_how_many_heads_are_out_and_marks_the_right_passage(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    html = search_answer(model, tokenizer, PAIRS, "who ran?", "0.*")
    assert f"4 of {len(heads_of(model))} heads out" in html and "<b>its own: </b>a dog ran away" in html
    assert "its own" not in search_answer(model, tokenizer, PAIRS, "another query", "")


@pytest.mark.parametrize(
    ("query", "out", "words"),
    [
        (" ", "", "Write a query"),
        ("<b>", "x", "names no head"),
        ("who?", "7.7", "no such encoder head"),
        ("word " * 3000, "", "the model reads"),
    ],
)
def test_what_a_reader_can_type_gives_a_sentence(tiny_bert, query, out, words):
    assert words in search_answer(tiny_bert.model, tiny_bert.tokenizer, PAIRS, query, out)


def test_a_translation_stands_beside_the_one_without_heads(translator):
    text, out = "The file could not be opened.", "cross 2.*"
    html = translation_answer(*translator, text, out)
    assert translate(*translator, [text])[0] in html and "8 heads out" in html
    assert "the same" in translation_answer(*translator, text, "")
    assert "Write a sentence" in translation_answer(*translator, "", out)
    assert "names no head" in translation_answer(*translator, text, "<script>") and "<script>" not in html


def test_the_widgets_show_an_answer_and_say_in_plain_text_what_to_do(tiny_bert, translator):
    box = search_switches(tiny_bert.model, tiny_bert.tokenizer, PAIRS, "who ran?", "0.0")
    other = translation_switches(*translator, "Open the file.", "cross 2.*")
    assert "1 of" in box.children[-1].value and "8 heads out" in other.children[-1].value
    box.children[1].value = "0.*"
    box.children[2].click()
    assert "4 of" in box.children[-1].value
    assert "JupyterLab" in repr(box)
