"""Labels and words, as the reader wrote them."""

import unicodedata

import pytest
from families import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizer

from utils.attention.text import LABEL_LENGTH, characters, visible, word_numbers
from utils.attention.tokens import encode


@pytest.fixture(scope="module")
def kinds():
    return tokenizers()


def test_labels_are_written_as_the_text_is(minilm):
    found = encode(minilm.tokenizer, "The CAFÉ naïvely opens.")
    assert found.labels == ["[CLS]", "The", "CAFÉ", "naïve", "ly", "opens", ".", "[SEP]"]
    assert found.words == [None, 0, 1, 2, 2, 3, 4, None]
    assert found.word_labels == ["The", "CAFÉ", "naïvely", "opens", "."]
    assert found.special == [True, *[False] * 6, True]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_hangul_that_falls_into_letters_is_labelled_by_syllables(minilm, form):
    found = encode(minilm.tokenizer, unicodedata.normalize(form, "나는 학교에 갔다"))
    assert found.word_labels == ["나는", "학교에", "갔다"]
    assert found.labels[1:3] == ["나⟨1/2⟩", "나⟨2/2⟩"]
    assert found.labels[3:6] == ["는⟨1/3⟩", "는⟨2/3⟩", "는⟨3/3⟩"]
    assert all(unicodedata.is_normalized("NFC", label) for label in found.labels + found.word_labels)
    assert found.notices == [
        "text: 12 pieces stand for a part of a character, marked ⟨part/parts⟩",
        "text: the model does not know 1 piece and cannot tell such pieces apart: 갔다",
    ]


def test_bytes_are_labelled_by_their_character(kinds):
    found = encode(kinds["bytes"], "café 🙂")
    assert found.labels == ["c", "a", "f", "é⟨1/2⟩", "é⟨2/2⟩", "␣", "🙂⟨1/4⟩", "🙂⟨2/4⟩", "🙂⟨3/4⟩", "🙂⟨4/4⟩"]
    assert found.word_labels == ["café", "🙂"]
    assert found.words == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_a_blank_piece_belongs_to_the_word_after_it(kinds):
    found = encode(kinds["unigram"], "the cat")
    assert found.labels == ["the", "␣", "c", "at", "</s>"]
    assert found.words == [0, 1, 1, 1, None]
    assert found.word_labels == ["the", "cat"]


def test_unknown_pieces_keep_their_text_and_are_named(minilm):
    found = encode(minilm.tokenizer, "a 🙂 b")
    assert found.labels == ["[CLS]", "a", "🙂", "b", "[SEP]"]
    assert found.notices == ["text: the model does not know 1 piece and cannot tell such pieces apart: 🙂"]


def test_a_long_text_is_cut_and_the_notice_counts(minilm):
    found = encode(minilm.tokenizer, "one two three four five", limit=5)
    assert found.labels == ["[CLS]", "one", "two", "three", "[SEP]"]
    assert found.notices == ["text: kept 5 of 7 tokens, because the model takes no more"]
    assert encode(minilm.tokenizer, "one two three four five", limit=7).notices == []


def test_fixed_padding_in_a_tokenizer_file_does_not_reach_the_labels(minilm):
    assert len(encode(minilm.tokenizer, "hi")) == 3  # the file of this tokenizer asks for 128


def test_special_tokens_in_the_text_are_special_but_a_mask_is_content(minilm):
    found = encode(minilm.tokenizer, "a [SEP] b [MASK]")
    assert found.labels == ["[CLS]", "a", "[SEP]", "b", "[MASK]", "[SEP]"]
    assert found.special == [True, False, True, False, False, True]
    with pytest.raises(ValueError, match="nothing to read"):
        encode(minilm.tokenizer, "[CLS] [SEP]")


def test_long_labels_are_shortened(minilm):
    found = encode(minilm.tokenizer, "x" * 10_000)
    assert len(found) == 3
    assert len(found.labels[1]) == LABEL_LENGTH
    assert found.labels[1].endswith("…")


class Slow(PreTrainedTokenizer):
    """A tokenizer without character offsets. Pieces: words, cut after three letters."""

    model_input_names = ["input_ids"]
    lower = True

    def __init__(self):
        self.seen = ["<unk>", "</s>"]
        super().__init__(unk_token="<unk>", eos_token="</s>")

    vocab_size = property(lambda self: len(self.seen))

    def get_vocab(self):
        return {piece: number for number, piece in enumerate(self.seen)}

    def _tokenize(self, text, **_):
        return [self.mark(word[at : at + 3], at) for word in text.split() for at in range(0, len(word), 3)]

    def mark(self, piece, at):
        return ("▁" if at == 0 else "") + (piece.lower() if self.lower else piece)

    def _convert_token_to_id(self, token):
        if token not in self.seen:
            self.seen.append(token)
        return self.seen.index(token)

    def _convert_id_to_token(self, index):
        return self.seen[index]

    def build_inputs_with_special_tokens(self, ids, other=None):
        return [*ids, 1]

    def get_special_tokens_mask(self, ids, other=None, already_has_special_tokens=False):
        return [int(number == 1) for number in ids] if already_has_special_tokens else [0] * len(ids) + [1]


def test_a_slow_tokenizer_is_followed_through_the_text():
    found = encode(Slow(), "The Reader sees")
    assert found.labels == ["The", "Rea", "der", "see", "s", "</s>"]
    assert found.word_labels == ["The", "Reader", "sees"]
    assert found.words == [0, 1, 1, 2, 2, None]
    assert found.notices == []


def test_a_slow_tokenizer_that_changes_the_text_gives_its_own_pieces_and_a_notice():
    tokenizer = Slow()
    tokenizer.mark = lambda piece, at: ("▁" if at == 0 else "") + piece[::-1]
    found = encode(tokenizer, "The Reader sees")
    assert found.labels == ["ehT", "aeR", "red", "ees", "s", "</s>"]
    assert found.words == [0, 1, 1, 2, 2, None]
    assert found.word_labels == ["ehT", "aeRred", "eess"]
    assert "tells no positions" in found.notices[0]


def test_characters_join_marks_jamo_flags_and_joined_emoji():
    for text in ("e\u0301", "\u1102\u1161", "🇰🇷", "👨\u200d👩\u200d👧", "👍🏽", "हि"):
        assert characters(text) == [0] * len(text), text
    assert characters("ab") == [0, 1]
    assert characters("🇰🇷🇺🇸") == [0, 0, 1, 1]
    assert characters("가나") == [0, 1]
    assert characters("a \u0301") == [0, 1, 2]  # a mark on a blank is no mark of the blank


@pytest.mark.parametrize(
    "text, words",
    [
        ("The cat's 3.14, well-known!", ["The", "cat's", "3.14", ",", "well", "-", "known", "!"]),
        ("snake_case e\u0301te\u0301", ["snake_case", "e\u0301te\u0301"]),
        ("日本の本", ["日", "本", "の", "本"]),
        ("don’t 'quote'", ["don’t", "'", "quote", "'"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
    ],
)
def test_words_of_a_text(text, words):
    numbers = word_numbers(text, characters(text))
    found = {}
    for point, number in zip(text, numbers, strict=True):
        if number is not None:
            found[number] = found.get(number, "") + point
    assert list(found.values()) == words


def test_signs_stand_for_what_cannot_be_seen():
    assert visible("\n") == "↵"
    assert visible("  ") == "␣␣"
    assert visible("\x00") == "␀"
    assert visible("\u200b") == "U+200B"
    assert visible(" a b ") == "a b"


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(text=st.text(max_size=30), kind=st.sampled_from(["wordpiece", "bytes", "bytes with both", "unigram"]))
def test_any_text_gives_a_label_and_a_word_for_each_piece(kinds, text, kind):
    try:
        found = encode(kinds[kind], text)
    except ValueError:
        return
    assert len(found.ids) == len(found.labels) == len(found.words) == len(found.special)
    assert all(label.strip() for label in found.labels + found.word_labels)
    assert "\ufffd" in text or not any("\ufffd" in label for label in found.labels)
    assert [word is None for word in found.words] == found.special
    ordered = [word for word in found.words if word is not None]
    assert ordered == sorted(ordered)
    assert sorted(set(ordered)) == list(range(len(found.word_labels)))
    assert all(len(label) <= LABEL_LENGTH + 12 for label in found.labels)
