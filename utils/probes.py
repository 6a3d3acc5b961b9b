"""Linear probes: what can be read out of a representation by one matrix, on texts the matrix has not seen."""

from __future__ import annotations

import torch
from torch import Tensor

from utils.corpora import passages

IGNORED = -1  # a position without a target


def equal_length(tokenizer, length: int, words: int, n: int | None = None) -> Tensor:
    """Passages as token ids, cut to one length, without padding: (texts, length), special tokens at both ends.

    words: of the first ``n`` passages of at least so many words (each cut there) those are kept that are long enough.
    Raises ValueError if none is.
    """
    batch = tokenizer(passages(n, words=words), truncation=True, max_length=length)
    rows = [row for row in batch["input_ids"] if len(row) == length]
    if not rows:
        raise ValueError(f"no passage of {words} words has {length} tokens: take more words, or a smaller length")
    return torch.tensor(rows)


def common_targets(ids: Tensor, ordinary: Tensor, count: int = 100) -> Tensor:
    """The commonest tokens as classes: ids (texts, tokens) → (texts, tokens), 0 for the commonest, −1 for the others.

    ordinary: boolean, of the same shape; only such positions are counted and get a class. Ties go to the smaller id.
    Raises ValueError if there are fewer than ``count`` different tokens.
    """
    found, times = ids[ordinary].unique(return_counts=True)
    if len(found) < count:
        raise ValueError(f"{count} classes are asked for, but the texts have {len(found)} different ordinary tokens")
    chosen = found[times.argsort(descending=True, stable=True)[:count]]
    classes = torch.full((int(ids.max()) + 1,), IGNORED)
    classes[chosen] = torch.arange(count)
    return torch.where(ordinary, classes[ids], IGNORED)


def shifted(targets: Tensor, offset: int) -> Tensor:
    """The target that stands ``offset`` tokens further on: (texts, tokens) → the same shape, −1 beyond the ends."""
    moved = torch.full_like(targets, IGNORED)
    n = targets.shape[-1]
    if abs(offset) < n:
        moved[..., max(0, -offset) : n - max(0, offset)] = targets[..., max(0, offset) : n + min(0, offset)]
    return moved


def split_by_text(texts: int, seed: int = 0, share: float = 0.75) -> Tensor:
    """Which texts a probe is fitted on: boolean (texts,), drawn at random; the others are to test it.

    Whole texts are held out, because neighbouring positions of one text share what was said before.
    """
    order = torch.randperm(texts, generator=torch.Generator().manual_seed(seed))
    chosen = torch.zeros(texts, dtype=torch.bool)
    chosen[order[: round(share * texts)]] = True
    return chosen


def probe_accuracy(features: Tensor, targets: Tensor, train: Tensor, penalty: float = 0.01) -> float:
    """Share of held-out positions whose target a ridge regression reads right.

    features: (texts, tokens, width). targets: (texts, tokens), whole numbers from 0; −1 is left out. train: (texts,),
    True for the texts it is fitted on. Features are standardised with the mean and spread of the training part; one
    output a class; the greatest wins. penalty: added to the diagonal of the covariance matrix.
    Null models: the share of the commonest class (``majority``), features of random weights, random projections.
    Raises ValueError for shapes that do not fit or a part without any target.
    """
    if features.ndim != 3 or targets.shape != features.shape[:2] or train.shape != targets.shape[:1]:
        raise ValueError(
            "features (texts, tokens, width), targets (texts, tokens) and train (texts,) are needed, got the shapes "
            f"{tuple(features.shape)}, {tuple(targets.shape)} and {tuple(train.shape)}"
        )
    known = targets != IGNORED
    fit, test = known & train[:, None], known & ~train[:, None]
    if not fit.any() or not test.any():
        raise ValueError("a part of the texts has no target: give more texts, or more classes")
    x, y = features[fit].double(), targets[fit]
    mean, spread = x.mean(0), x.std(0) + 1e-6
    x = torch.nn.functional.pad((x - mean) / spread, (0, 1), value=1.0)
    wanted = torch.nn.functional.one_hot(y, int(targets.max()) + 1).double()
    grown = x.T @ x / len(x) + penalty * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(grown, x.T @ wanted / len(x))
    seen = torch.nn.functional.pad((features[test].double() - mean) / spread, (0, 1), value=1.0)
    return float(((seen @ weights).argmax(-1) == targets[test]).double().mean())


def majority(targets: Tensor, train: Tensor) -> float:
    """Accuracy of always naming the commonest target of the training texts; arguments as in ``probe_accuracy``."""
    known = targets != IGNORED
    commonest = targets[known & train[:, None]].mode().values
    return float((targets[known & ~train[:, None]] == commonest).double().mean())


def random_projection(features: Tensor, width: int, seed: int = 0) -> Tensor:
    """Features in ``width`` random orthogonal directions: (..., many) → (..., width). The null model of a head."""
    many = features.shape[-1]
    if not 1 <= width <= many:
        raise ValueError(f"width must be from 1 to {many}, the width of the features, got {width}")
    drawn = torch.randn(many, width, generator=torch.Generator().manual_seed(seed))
    return features @ torch.linalg.qr(drawn)[0].to(features)
