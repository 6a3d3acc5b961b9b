"""A text task with few examples: which part of Python's library does the first sentence of a docstring come from?

Five topics, 580 sentences out of CPython 3.11.7 (data/topics.jsonl). Each *module* lies in one split alone, so that
names of a module cannot be learned by heart.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor

from utils.models import load

FILE = Path(__file__).resolve().parent.parent / "data" / "topics.jsonl"
LENGTH = 24  # tokens; a longer sentence is cut


class TextTask(NamedTuple):
    """Sentences and who is who.

    texts, modules: of each sentence. topics: names of the classes. labels: (sentences,), index of its topic.
    ids, mask: (sentences, length) tokens, and 1 where one stands. train, validation, test: indices of sentences.
    """

    texts: list[str]
    modules: list[str]
    topics: list[str]
    labels: Tensor
    ids: Tensor
    mask: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor

    def sample(self, examples: int, seed: int = 0) -> TextTask:
        """The same task with ``examples`` training sentences, as many of each topic; more hold fewer of one seed.

        Raises ValueError if the number is no multiple of the topics, or more than there are.
        """
        each, rest = divmod(examples, len(self.topics))
        most = min(int((self.labels[self.train] == k).sum()) for k in range(len(self.topics)))
        if rest or not 1 <= each <= most:
            raise ValueError(
                f"examples must be a multiple of {len(self.topics)}, at most {most * len(self.topics)}, got {examples}"
            )
        order = self.train[torch.randperm(len(self.train), generator=torch.Generator().manual_seed(seed))]
        chosen = [order[self.labels[order] == k][:each] for k in range(len(self.topics))]
        return self._replace(train=torch.stack(chosen, 1).flatten())


@cache
def topics() -> TextTask:
    """The task with all its training sentences, in tokens of MiniLM."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()[1:]]
    names = sorted({row["topic"] for row in rows})
    texts = [row["text"] for row in rows]
    coded = load("minilm").tokenizer(texts, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
    splits = [
        torch.tensor([i for i, row in enumerate(rows) if row["split"] == name])
        for name in ("train", "validation", "test")
    ]
    labels = torch.tensor([names.index(row["topic"]) for row in rows])
    modules = [row["module"] for row in rows]
    return TextTask(texts, modules, names, labels, coded["input_ids"], coded["attention_mask"], *splits)


def bag_of_words(task: TextTask) -> float:
    """Test accuracy of logistic regression on tf–idf weighted words of the training sentences: no network at all.

    Its penalty (1 or 0.1, inverse of ``C``) is chosen on the validation sentences.
    """
    part = {name: getattr(task, name).tolist() for name in ("train", "validation", "test")}
    texts = {name: [task.texts[i] for i in rows] for name, rows in part.items()}
    labels = {name: task.labels[rows].numpy() for name, rows in part.items()}
    models = [
        make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=c, max_iter=2000)) for c in (1, 10)
    ]
    fitted = [model.fit(texts["train"], labels["train"]) for model in models]
    best = max(fitted, key=lambda model: model.score(texts["validation"], labels["validation"]))
    return float(best.score(texts["test"], labels["test"]))
