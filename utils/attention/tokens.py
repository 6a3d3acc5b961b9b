"""What a tokenizer makes of a text, said in the reader's own characters.

Labels come from character offsets, so that they are written as the text is: lower-casing, accents that a tokenizer
takes off, Hangul that it splits into letters, and bytes that are no character do not show.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field

LABEL_LENGTH = 40  # characters of a label; longer ones end in an ellipsis
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "↵"}


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


def checked_text(text: object, name: str = "text") -> str:
    """``text`` if it is a string with something to read in it. Raises TypeError or ValueError."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be one str, got {type(text).__name__}: for several texts call once for each")
    if not text.strip():
        raise ValueError(f"{name} is empty: give at least one word")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} holds half a surrogate pair at character {error.start}: it is no valid text"
        ) from None
    return text


def encode(tokenizer, text: str, limit: int | None = None, *, target: bool = False, name: str = "text") -> Encoded:
    """The pieces of ``text`` with its special tokens.

    limit: the most tokens the model takes; a longer text is cut and a notice says how much was kept. target: the text
    is in the target language of a translation model. Raises TypeError for a text that is no string, ValueError for
    one with nothing to read in it.
    """
    text = checked_text(text, name)
    options = {"return_special_tokens_mask": True, "return_offsets_mapping": _has_offsets(tokenizer), "verbose": False}
    argument = {"text_target": text} if target else {"text": text}
    found = tokenizer(**argument, **options)
    notices = []
    if limit is not None and len(found["input_ids"]) > limit:
        total = len(found["input_ids"])
        found = tokenizer(**argument, **options, truncation=True, max_length=limit)
        notices.append(f"{name}: kept {len(found['input_ids']):,} of {total:,} tokens, because the model takes no more")
    ids, special = list(found["input_ids"]), [bool(mark) for mark in found["special_tokens_mask"]]
    if all(special):
        raise ValueError(f"{name} holds nothing that the tokenizer reads: {shorten(text)!r} gives no token")
    if "offset_mapping" in found:
        offsets = [None if mark else tuple(span) for mark, span in zip(special, found["offset_mapping"], strict=True)]
    else:
        offsets = aligned(tokenizer, text, ids, special)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    if offsets is None:
        notices.append(f"{name}: labels are the tokenizer's own pieces, because it tells no positions in the text")
        labels, words, word_labels = _from_pieces(pieces, special)
    else:
        labels, split = _labels(text, pieces, offsets)
        words, word_labels = _words(text, offsets)
        if split:
            notices.append(f"{name}: {split} pieces are only a part of a character, marked ⟨part/parts⟩")
    notices += _unknown(tokenizer, ids, labels, special, name)
    return Encoded(ids, labels, words, special, word_labels, notices)


def shorten(label: str) -> str:
    """A label of at most ``LABEL_LENGTH`` characters."""
    return label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…"


def characters(text: str) -> list[int]:
    """The number of the visible character that each code point belongs to.

    A base character and its marks, a Hangul syllable written in letters, and joined emoji are one character.
    """
    numbers, number, previous = [], -1, ""
    flags = 0  # regional indicators in a row: two make one flag
    for point in text:
        flags = flags + 1 if "\U0001f1e6" <= point <= "\U0001f1ff" else 0
        if not previous or not (_continues(point, previous) or (flags and flags % 2 == 0)):
            number += 1
        numbers.append(number)
        previous = point
    return numbers


def _continues(point: str, previous: str) -> bool:
    mark = unicodedata.category(point) in ("Mn", "Mc", "Me") and previous not in " \n\t\r"
    joined = point == "\u200d" or previous == "\u200d" or "\U0001f3fb" <= point <= "\U0001f3ff"
    jamo = "\u1160" <= point <= "\u11ff" and ("\u1100" <= previous <= "\u11ff" or "\uac00" <= previous <= "\ud7a3")
    return mark or joined or jamo


def _has_offsets(tokenizer) -> bool:
    return bool(getattr(tokenizer, "is_fast", False))


def aligned(tokenizer, text: str, ids: list[int], special: list[bool]) -> list[tuple[int, int] | None] | None:
    """Offsets where a tokenizer gives none: each piece is looked for in the text, in order. None if one is missing."""
    offsets, at = [], 0
    for piece, mark in zip(tokenizer.convert_ids_to_tokens(ids), special, strict=True):
        if mark:
            offsets.append(None)
            continue
        surface = piece.removeprefix("##").replace("▁", " ").strip()
        while at < len(text) and text[at].isspace():
            at += 1
        if not text[at : at + len(surface)].lower() == surface.lower():
            return None
        offsets.append((at, at + len(surface)))
        at += len(surface)
    return offsets


def _visible(text: str) -> str:
    """NFC, without outer blanks; blanks and control characters that are all there is become signs."""
    shown = unicodedata.normalize("NFC", text).strip()
    shown = shown or "".join(VISIBLE.get(point, "␣") for point in text)
    return shorten(
        "".join(VISIBLE.get(p, chr(0x2400 + ord(p)) if p < " " else p) for p in shown) if shown.strip() else shown
    )


def _labels(text: str, pieces: list[str], offsets: list[tuple[int, int] | None]) -> tuple[list[str], int]:
    """A label a piece, and how many pieces are a part of one character."""
    number = characters(text)
    spans = [None if span is None or span[0] >= span[1] else _trimmed(text, *span) for span in offsets]
    covers = [range(0) if span is None else range(number[span[0]], number[span[1] - 1] + 1) for span in spans]
    total = Counter(each for cover in covers for each in cover)
    first, last = {}, {}
    for position, each in enumerate(number):
        first.setdefault(each, position)
        last[each] = position + 1
    labels, seen, split = [], Counter(), 0
    for piece, offset, cover in zip(pieces, offsets, covers, strict=True):
        seen.update(cover)
        if offset is None:
            labels.append(shorten(piece))
        elif not cover:
            labels.append(_visible(piece.replace("▁", " ").replace("Ġ", " ")))
        else:
            label = _visible(text[first[cover[0]] : last[cover[-1]]])
            shared = [each for each in cover if total[each] > 1]
            if shared and len(cover) == 1:
                label += f"⟨{seen[cover[0]]}/{total[cover[0]]}⟩"
            elif shared:
                label += "⟨part⟩"
            split += bool(shared)
            labels.append(label)
    return labels, split


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without outer blanks, unless it is nothing but blanks."""
    inner = text[start:end]
    if not inner.strip():
        return start, end
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _word_starts(text: str) -> list[int | None]:
    """A word number for each code point, None for blanks.

    Letters, digits and marks in a row are a word, an apostrophe inside them too, a point or comma between digits too.
    Every other sign, and every Han character, is a word of its own.
    """
    number, words, at = characters(text), [], -1
    previous = None  # kind of the character before: "word", "other" or None
    for position in range(len(text)):
        if position and number[position] == number[position - 1]:
            words.append(words[-1])
            continue
        kind = _kind(text, position, previous)
        at += kind is not None and not (kind == "word" and previous == "word")
        words.append(None if kind is None else at)
        previous = kind
    return words


def _kind(text: str, position: int, previous: str | None) -> str | None:
    point = text[position]
    if point.isspace():
        return None
    if "\u3400" <= point <= "\u9fff" or "\uf900" <= point <= "\ufaff" or "\U00020000" <= point <= "\U0003ffff":
        return "other"
    if point == "_" or unicodedata.category(point)[0] in "LNM":
        return "word"
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    inside = (point in "'’" and after.isalpha()) or (point in ".," and before.isdigit() and after.isdigit())
    return "word" if previous == "word" and inside else "other"


def _words(text: str, offsets: list[tuple[int, int] | None]) -> tuple[list[int | None], list[str]]:
    """The word of each piece and the words' labels. A blank piece belongs to the word after it."""
    of_point = _word_starts(text)
    found: list[int | None] = []
    for span in offsets:
        inside = [] if span is None else [word for word in of_point[span[0] : span[1]] if word is not None]
        found.append(inside[0] if inside else None)
    following: int | None = None
    for index in reversed(range(len(offsets))):
        if offsets[index] is None:
            following = None
        elif found[index] is None:
            found[index] = following if following is not None else -1 - index
        following = found[index] if offsets[index] is not None else None
    order = {word: rank for rank, word in enumerate(dict.fromkeys(word for word in found if word is not None))}
    words = [None if word is None else order[word] for word in found]
    labels = []
    for rank in range(len(order)):
        spans = [offsets[index] for index, word in enumerate(words) if word == rank]
        labels.append(_visible(text[min(start for start, _ in spans) : max(end for _, end in spans)]))
    return words, labels


def _from_pieces(pieces: list[str], special: list[bool]) -> tuple[list[str], list[int | None], list[str]]:
    """Labels and words from the pieces' own marks: "▁" or "Ġ" begin a word, "##" continues one."""
    marks = any("▁" in piece or "Ġ" in piece for piece in pieces)
    labels, words, word_labels = [], [], []
    for piece, mark in zip(pieces, special, strict=True):
        shown = piece.replace("▁", " ").replace("Ġ", " ").removeprefix("##")
        labels.append(shorten(piece) if mark else _visible(shown))
        begins = shown.startswith(" ") if marks else not piece.startswith("##")
        if mark:
            words.append(None)
        elif begins or not words or words[-1] is None:
            word_labels.append(shown.strip())
            words.append(len(word_labels) - 1)
        else:
            word_labels[-1] += shown.strip()
            words.append(len(word_labels) - 1)
    return labels, words, [_visible(label) for label in word_labels]


def _unknown(tokenizer, ids: list[int], labels: list[str], special: list[bool], name: str) -> list[str]:
    """A notice when pieces of the text are unknown to the tokenizer."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    lost = [label for number, label, mark in zip(ids, labels, special, strict=True) if number == unknown and not mark]
    if unknown is None or not lost:
        return []
    shown = ", ".join(dict.fromkeys(lost[:3])) + (", …" if len(lost) > 3 else "")
    return [
        f"{name}: {len(lost)} of {len(ids)} pieces are unknown to the tokenizer and look the same to the model: {shown}"
    ]
