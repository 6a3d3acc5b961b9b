"""The live explorer of Lab 1: its callback is a plain function that never raises for what a reader can type."""

from __future__ import annotations

import pytest

from utils.elements import Figure
from utils.widgets import MAX_TOKENS, sentence_explorer, sentence_view

KOREAN = "나는 학교에 갔다"


def test_a_sentence_gives_a_figure_and_its_length(minilm):
    view = sentence_view(*minilm, "The cat sat on the mat.")
    assert isinstance(view.figure, Figure)
    assert view.message == "9 tokens."


def test_blanks_around_a_sentence_change_nothing(minilm):
    assert sentence_view(*minilm, "  The cat.\n").figure.html() == sentence_view(*minilm, "The cat.").figure.html()


def test_korean_is_drawn_and_the_reader_is_told_what_the_tokenizer_did(minilm):
    view = sentence_view(*minilm, KOREAN)
    assert "학교에" in view.figure.html()
    assert "갔다" in view.message


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_sentence_is_asked_for(minilm, text):
    assert sentence_view(*minilm, text) == (None, "Write a sentence first.")


@pytest.mark.parametrize("text", ["\ud800", "\u200b", "\x00"])
def test_a_text_with_nothing_to_read_gives_a_message(minilm, text):
    view = sentence_view(*minilm, text)
    assert view.figure is None and view.message


@pytest.mark.parametrize("text", ["🙂", "a", "שלום עולם", "e\u0301", "<img src=x onerror=alert(1)>", "</script>"])
def test_awkward_texts_are_drawn(minilm, text):
    assert sentence_view(*minilm, text).figure is not None


def test_a_long_text_is_refused_with_its_length(minilm):
    assert sentence_view(*minilm, "a " * (MAX_TOKENS - 2)).figure is not None
    view = sentence_view(*minilm, "a " * (MAX_TOKENS - 1))
    assert view.figure is None
    assert f"{MAX_TOKENS + 1} tokens" in view.message and f"at most {MAX_TOKENS}" in view.message
    assert "shorten" in sentence_view(*minilm, "word " * 10_000).message


@pytest.mark.parametrize("switch", ["words", "special"])
def test_the_switches_reach_the_figure(minilm, switch):
    figures = [sentence_view(*minilm, "The locksmith left.", **{switch: value}).figure for value in (True, False)]
    assert [figure.data["open"][switch] for figure in figures] == [True, False]


def test_every_family_can_be_explored(family):
    assert sentence_view(family.model, family.tokenizer, "The cat sat on the mat.").figure is not None


def test_the_model_is_as_before(tiny_bert):
    model = tiny_bert.model.train()
    backend = model.config._attn_implementation
    sentence_view(model, tiny_bert.tokenizer, "The cat.")
    assert model.training and model.config._attn_implementation == backend


def parts(explorer):
    box, row, message, output = explorer.children
    return box, row.children, message, output


def test_the_widget_shows_its_first_sentence_without_printing(tiny_bert, capsys):
    explorer = sentence_explorer(tiny_bert.model, tiny_bert.tokenizer, "The cat sat.")
    _, _, message, output = parts(explorer)
    assert "tokens" in message.value
    assert "<attention-explorer" in output.outputs[0]["data"]["text/html"]
    assert capsys.readouterr() == ("", "")


def test_the_button_draws_what_the_box_holds_and_clears_what_cannot_be_drawn(tiny_bert):
    box, (words, _, button), message, output = parts(sentence_explorer(tiny_bert.model, tiny_bert.tokenizer, "Cat."))
    first = output.outputs
    box.value, words.value = "The dog sat on the mat.", True
    button.click()
    assert output.outputs != first
    box.value = " "
    button.click()
    assert output.outputs == () and message.value == "Write a sentence first."


def test_what_a_reader_types_is_escaped_in_the_message(minilm):
    explorer = sentence_explorer(*minilm, "<b>갔다</b> 갔다")
    assert "<b>" not in parts(explorer)[2].value


def test_the_plain_text_of_the_widget_has_no_address(tiny_bert):
    assert "0x" not in repr(sentence_explorer(tiny_bert.model, tiny_bert.tokenizer, "Cat."))
