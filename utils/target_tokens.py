"""What kind of token each piece of a German text is: function word, other word, mark."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from utils.bootstrap import ratio_interval

IGNORED = -100  # label of padding
FUNCTION_WORDS = frozenset(
    "der die das den dem des ein eine einen einem einer eines und oder in im an am auf aus bei mit nach von vom zu zum "
    "zur für über unter als wie ist sind wird werden wurde wurden kann können sie es sich nicht nur auch wenn dass ob "
    "so um durch".split()
)
CLASSES = ("function word", "other word, first piece", "other word, later piece", "mark", "end")


def token_classes(tokenizer, labels: Tensor) -> list[list[str]]:
    """What each German target token is, by text: one of ``CLASSES``; padding is left out. labels: (texts, length)."""
    found = []
    for row in labels.tolist():
        pieces = tokenizer.convert_ids_to_tokens([token for token in row if token != IGNORED])
        follows = [*(not piece.startswith("▁") and any(map(str.isalnum, piece)) for piece in pieces[1:]), False]
        found.append([_class(piece, after) for piece, after in zip(pieces, follows, strict=True)])
    return found


def _class(piece: str, goes_on: bool) -> str:
    word = piece.strip("▁").lower()
    if piece == "</s>":
        return "end"
    if not any(map(str.isalnum, word)):
        return "mark"
    if not piece.startswith("▁"):
        return "other word, later piece"
    return "function word" if word in FUNCTION_WORDS and not goes_on else "other word, first piece"


def ratio(above: Sequence[Tensor], below: Sequence[Tensor], draws: int = 500, seed: int = 0) -> tuple[float, ...]:
    """Sum of all values above by the sum below, and the middle 95 % over texts drawn with replacement: three numbers.

    above, below: the values by text, of the same texts. Raises ValueError for other numbers of texts, or a sum of 0.
    """
    if len(above) != len(below):
        raise ValueError(f"both sides need the same texts, got {len(above)} and {len(below)}")
    if not len(above) or not float(sum(part.double().sum() for part in below)):
        raise ValueError("the values below add up to 0: there is no ratio")
    sums = (torch.stack([part.double().sum() for part in side]) for side in (above, below))
    return ratio_interval(*sums, draws, seed)
