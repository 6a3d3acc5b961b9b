"""Scores of a translator: sacreBLEU, chrF, loss, and what it is compared with."""

from __future__ import annotations

import sacrebleu
import torch
from sacrebleu.metrics.bleu import BLEUScore
from torch.nn import functional

from tools.translator.train import Ids, tensors
from utils.translator import Translator

TOKENIZE = {"de": "13a", "ko": "char"}  # sacreBLEU's default, and characters where words are no safe unit


def bleu(translations: list[str], references: list[str], target: str) -> BLEUScore:
    return sacrebleu.corpus_bleu(translations, [references], tokenize=TOKENIZE[target])


@torch.inference_mode()
def nll(model: Translator, sources: Ids, targets: Ids, size: int = 100) -> float:
    """Teacher-forced loss in nats per target token."""
    total = count = 0.0
    for first in range(0, len(sources), size):
        batch = tensors(sources, targets, list(range(first, min(first + size, len(sources)))))
        labels = batch["labels"].flatten()
        logits = model(**batch).logits.flatten(0, 1)
        total += functional.cross_entropy(logits, labels, reduction="sum").item()
        count += (labels != -100).sum().item()
    return total / count
