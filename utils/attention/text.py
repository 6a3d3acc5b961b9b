"""Characters and words of a text as a reader sees them, and labels that can be read."""

from __future__ import annotations

import unicodedata
from collections import Counter

LABEL_LENGTH = 40  # characters of a label; longer ones end in an ellipsis
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "↵"}

Span = tuple[int, int]  # code points from the first to before the last


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


def count(number: int, noun: str) -> str:
    """ "1 piece", "2 pieces"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def shorten(label: str) -> str:
    """A label of at most ``LABEL_LENGTH`` characters."""
    return label if len(label) <= LABEL_LENGTH else label[: LABEL_LENGTH - 1] + "…"


def visible(text: str) -> str:
    """NFC, without outer blanks, with signs for blanks and control characters; invisible text as its code points."""
    shown = unicodedata.normalize("NFC", text)
    shown = shown.strip() or shown
    if shown and all(unicodedata.category(point) in ("Cf", "Co", "Cn", "Zs") and point != " " for point in shown):
        return shorten(" ".join(f"U+{ord(point):04X}" for point in shown))
    if not shown.strip():
        return shorten("".join(VISIBLE.get(point, "␣") for point in shown))
    return shorten("".join(VISIBLE.get(p, chr(0x2400 + ord(p)) if p < " " else p) if p != " " else p for p in shown))


def trimmed(text: str, span: Span) -> Span:
    """The span without outer blanks, unless it is nothing but blanks."""
    inner = text[slice(*span)]
    if not inner.strip():
        return span
    return span[0] + len(inner) - len(inner.lstrip()), span[1] - len(inner) + len(inner.rstrip())


def characters(text: str) -> list[int]:
    """The number of the visible character that each code point belongs to.

    A base character and its marks, a Hangul syllable written in letters, and joined emoji are one character.
    """
    numbers, number, previous, flags = [], -1, "", 0
    for point in text:
        flags = flags + 1 if "\U0001f1e6" <= point <= "\U0001f1ff" else 0  # two of these letters make one flag
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


def whole_characters(numbers: list[int], span: Span) -> Span:
    """The span, widened to whole characters; ``numbers`` as ``characters`` gives them."""
    start, end = span
    if start >= end:
        return span
    while start > 0 and numbers[start - 1] == numbers[start]:
        start -= 1
    while end < len(numbers) and numbers[end] == numbers[end - 1]:
        end += 1
    return start, end


def labels_of(text: str, spans: list[Span | None], numbers: list[int]) -> tuple[list[str | None], int]:
    """A label for each span of a piece (None where there is none), and how many pieces are a part of a character.

    A piece that shares its one character with others is labelled by it and by its place: "나⟨1/2⟩".
    """
    spans = [None if span is None or span[0] >= span[1] else trimmed(text, span) for span in spans]
    covers = [range(0) if span is None else range(numbers[span[0]], numbers[span[1] - 1] + 1) for span in spans]
    total, seen = Counter(each for cover in covers for each in cover), Counter()
    labels, split = [], 0
    for span, cover in zip(spans, covers, strict=True):
        seen.update(cover)
        if span is None:
            labels.append(None)
            continue
        label, shared = visible(text[slice(*whole_characters(numbers, span))]), any(total[each] > 1 for each in cover)
        if shared:
            split += 1
            label += f"⟨{seen[cover[0]]}/{total[cover[0]]}⟩" if len(cover) == 1 else "⟨part⟩"
        labels.append(label)
    return labels, split


def word_numbers(text: str, numbers: list[int]) -> list[int | None]:
    """A word number for each code point, None for blanks.

    Letters, digits and marks in a row are a word, an apostrophe inside them too, a point or comma between digits too.
    Every other sign, and every Han character, is a word of its own.
    """
    words, word, previous = [], -1, None
    for position in range(len(text)):
        if position and numbers[position] == numbers[position - 1]:
            words.append(words[-1])
            continue
        kind = _kind(text, position, previous)
        word += kind is not None and not (kind == "word" and previous == "word")
        words.append(None if kind is None else word)
        previous = kind
    return words


def _kind(text: str, position: int, previous: str | None) -> str | None:
    """ "word" for a character that joins others, "other" for one that stands alone, None for a blank."""
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


def words_of(
    text: str, spans: list[Span | None], blank: list[bool], numbers: list[int]
) -> tuple[list[int | None], list[str]]:
    """The word of each piece, counted from 0, and the words' labels. spans: None for a special token.

    A piece belongs to the word it begins in; a blank piece to the word after it.
    """
    of_point = word_numbers(text, numbers)
    found: list[int | None] = [None] * len(spans)
    following: int | None = None
    for index in reversed(range(len(spans))):
        span = spans[index]
        if span is not None:
            inside = [] if blank[index] else [word for word in of_point[slice(*span)] if word is not None]
            alone = -1 - index  # a blank with no word after it
            found[index] = inside[0] if inside else alone if following is None else following
        following = found[index]
    order = {word: rank for rank, word in enumerate(dict.fromkeys(word for word in found if word is not None))}
    words = [None if word is None else order[word] for word in found]
    extent: dict[int, Span] = {}
    for index, word in enumerate(words):
        if word is not None and (not blank[index] or word not in extent):
            start, end = extent.get(word, spans[index]) if not blank[index] else spans[index]
            extent[word] = (min(start, spans[index][0]), max(end, spans[index][1]))
    shown = [text[slice(*whole_characters(numbers, extent[rank]))] for rank in range(len(order))]
    return words, [visible(each or " ") for each in shown]
