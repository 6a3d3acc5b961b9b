"""What a tokenizer makes of a text, said in the reader's own characters.

Labels come from character offsets, so that they are written as the text is: lower-casing, accents that a tokenizer
takes off, Hangul that it splits into letters, and bytes that are no character do not show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from utils.attention.text import Span, characters, checked_text, count, labels_of, shorten, visible, words_of

BLANKS = str.maketrans("▁Ġ", "  ")  # how SentencePiece and byte-level tokenizers write a blank


@dataclass(frozen=True)
class Encoded:
    """The pieces of one text: a list entry a piece, special tokens included."""

    ids: list[int]
    labels: list[str]
    words: list[int | None]  # the word that a piece belongs to, counted from 0; None for a special token
    special: list[bool]
    word_labels: list[str]  # by word
    notices: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


def encode(tokenizer, text: str, limit: int | None = None, *, target: bool = False, name: str = "text") -> Encoded:
    """The pieces of ``text`` with its special tokens.

    limit: the most tokens the model takes; a longer text is cut and a notice says how much was kept. target: the text
    is in the target language of a translation model. A tokenizer that tells no positions in the text (a slow one) is
    followed piece by piece; where that fails, its own pieces are the labels, and a notice says so.
    Raises TypeError for a text that is no string, ValueError for one with nothing to read in it.
    """
    if not callable(tokenizer) or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(f"tokenizer must be a transformers tokenizer, got {type(tokenizer).__name__}")
    text = checked_text(text, name)
    options = {"return_special_tokens_mask": True, "return_offsets_mapping": _has_offsets(tokenizer), "verbose": False}
    argument = {"text_target": text} if target else {"text": text}
    found, notices = tokenizer(**argument, **options), []
    if limit is not None and len(found["input_ids"]) > limit:
        total = len(found["input_ids"])
        found = tokenizer(**argument, **options, truncation=True, max_length=limit)
        notices.append(f"{name}: kept {len(found['input_ids']):,} of {total:,} tokens, because the model takes no more")
    ids = list(found["input_ids"])
    special = _special(tokenizer, ids, found["special_tokens_mask"])
    if all(special):
        raise ValueError(f"{name} holds nothing to read: {shorten(text)!r} gives no token but special ones")
    pieces = tokenizer.convert_ids_to_tokens(ids)
    spans = _spans(found.get("offset_mapping"), text, pieces, special)
    if spans is None:
        notices.append(f"{name}: labels are the tokenizer's own pieces, because it tells no positions in the text")
        labels, words, word_labels = _from_pieces(pieces, special)
    else:
        labels, words, word_labels, split = _from_spans(text, pieces, spans)
        if split:
            notices.append(f"{name}: {count(split, 'piece')} stand for a part of a character, marked ⟨part/parts⟩")
    return Encoded(ids, labels, words, special, word_labels, notices + _unknown(tokenizer, ids, labels, special, name))


def _has_offsets(tokenizer) -> bool:
    return bool(getattr(tokenizer, "is_fast", False))


def _special(tokenizer, ids: list[int], added: list[int]) -> list[bool]:
    """True for tokens that the tokenizer added, and for others that stand in the text, but for unknown and mask."""
    content = {getattr(tokenizer, "unk_token_id", None), getattr(tokenizer, "mask_token_id", None)}
    names = set(getattr(tokenizer, "all_special_ids", ())) - content
    return [bool(mark) or number in names for number, mark in zip(ids, added, strict=True)]


def _spans(offsets: list[Span] | None, text: str, pieces: list[str], special: list[bool]) -> list[Span | None] | None:
    """Where each piece stands in the text, None for a special token; None if the positions cannot be told."""
    if offsets is not None:
        return [None if mark else tuple(span) for span, mark in zip(offsets, special, strict=True)]
    spans, at = [], 0
    for piece, mark in zip(pieces, special, strict=True):
        surface = "" if mark else piece.removeprefix("##").translate(BLANKS).strip()
        while surface and at < len(text) and text[at].isspace():
            at += 1
        if text[at : at + len(surface)].lower() != surface.lower():
            return None
        spans.append(None if mark else (at, at + len(surface)))
        at += len(surface)
    return spans


def _from_spans(
    text: str, pieces: list[str], spans: list[Span | None]
) -> tuple[list[str], list[int | None], list[str], int]:
    """Labels, words, word labels, and the number of pieces that are a part of a character."""
    numbers = characters(text)
    bare = [piece.translate(BLANKS) for piece in pieces]
    blank = [
        span is not None and (not piece.strip() or span[0] >= span[1]) for piece, span in zip(bare, spans, strict=True)
    ]
    shown = [
        None if empty and not text[slice(*span)].isspace() else span for span, empty in zip(spans, blank, strict=True)
    ]
    labels, split = labels_of(text, shown, numbers)
    for index, label in enumerate(labels):
        if label is None:
            labels[index] = shorten(pieces[index]) if spans[index] is None else visible(bare[index])
    words, word_labels = words_of(text, spans, blank, numbers)
    return labels, words, word_labels, split


def _from_pieces(pieces: list[str], special: list[bool]) -> tuple[list[str], list[int | None], list[str]]:
    """Labels and words from the pieces' own marks: "▁" or "Ġ" begin a word, "##" continues one."""
    marks = any(piece != piece.translate(BLANKS) for piece in pieces)
    labels, words, word_labels = [], [], []
    for piece, mark in zip(pieces, special, strict=True):
        bare = piece.translate(BLANKS).removeprefix("##")
        labels.append(shorten(piece) if mark else visible(bare))
        begins = bare.startswith(" ") if marks else not piece.startswith("##")
        if not mark and (begins or not words or words[-1] is None):
            word_labels.append("")
        if not mark:
            word_labels[-1] += bare.strip()
        words.append(None if mark else len(word_labels) - 1)
    return labels, words, [visible(label or " ") for label in word_labels]


def _unknown(tokenizer, ids: list[int], labels: list[str], special: list[bool], name: str) -> list[str]:
    """A notice when pieces of the text are unknown to the tokenizer."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    lost = [label for number, label, mark in zip(ids, labels, special, strict=True) if number == unknown and not mark]
    if unknown is None or not lost:
        return []
    shown = ", ".join(dict.fromkeys(lost[:3])) + (", …" if len(lost) > 3 else "")
    return [f"{name}: the model does not know {count(len(lost), 'piece')} and cannot tell such pieces apart: {shown}"]
