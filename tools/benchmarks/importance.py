"""What scores of heads cost, and how well they rank heads by their exact effect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from tools.benchmarks.measure import Report, ratios, take_turns
from utils.corpora import passages
from utils.heads import ablated, heads_of
from utils.importance import ablation_effect, importance
from utils.models import load


def importance_cost(repeats: int) -> Report:
    """MiniLM's 72 heads: gradient scores beside training passes, exact effects beside ablating one head at a time."""
    model, tokenizer = load("minilm")
    heads, rows = heads_of(model), []
    for texts, tokens in ((4, 16), (8, 32)):
        batch = dict(tokenizer(passages(texts), return_tensors="pt", padding=True, truncation=True, max_length=tokens))

        def train(batch: dict = batch) -> None:
            model.zero_grad()
            _embeddings(model(**batch), batch).sum().backward()

        @torch.no_grad()
        def one_at_a_time(batch: dict = batch) -> None:
            for head in heads:
                with ablated(model, [head]):
                    _embeddings(model(**batch), batch).sum(1)

        def score(outputs, batch: dict) -> Tensor:
            return _embeddings(outputs, batch).sum(1)

        runs = {
            "train": train,
            "scores": lambda batch=batch: importance(model, [batch], score),
            "one": one_at_a_time,
            "effects": lambda batch=batch: ablation_effect(model, [batch], score),
        }
        seconds = take_turns(runs, repeats)
        for what, new, old in (
            ("scores / training pass", "scores", "train"),
            ("effects / one by one", "effects", "one"),
        ):
            ratio, least, most = ratios(seconds[new], seconds[old])
            rows.append(dict(texts=texts, tokens=tokens, what=what, ratio=ratio, least=least, most=most))
    model.zero_grad()
    table = pd.DataFrame(rows)
    worst = table.groupby("what")["ratio"].max()
    scores, effects = worst["scores / training pass"], worst["effects / one by one"]
    bars = {
        f"three gradient scores cost {scores:.2f} forward–backward passes, at most 4": scores <= 4,
        f"effects of 72 heads cost {effects:.2f} of one head at a time, at most 0.6": effects <= 0.6,
    }
    return Report(table, f"{repeats} repetitions; least and most: smallest and largest ratio of a round", bars)


def importance_ranks(_repeats: int, pairs: int = 64, tokens: int = 24) -> Report:
    """How well gradient scores rank MiniLM's heads by their exact effect, finding the second half of a passage."""
    model, tokenizer = load("minilm")
    batches = _halves(tokenizer, pairs, tokens)
    scores = importance(model, batches, contrast, represent=_embeddings)
    effect = ablation_effect(model, batches, contrast)["effect"].to_numpy()
    distance = np.mean([_moved(model, batch) for batch in batches], axis=0)
    random, rows = np.random.default_rng(0), []
    for against, truth in (("loss", effect), ("|loss|", np.abs(effect)), ("1 - cosine", distance)):
        null = np.quantile([spearmanr(random.random(len(truth)), truth).statistic for _ in range(500)], (0.025, 0.975))
        for name in ("absolute", "signed", "fisher"):
            values = scores[name].to_numpy()
            draws = random.integers(0, len(truth), (500, len(truth)))
            low, high = np.quantile([spearmanr(values[i], truth[i]).statistic for i in draws], (0.025, 0.975))
            rank = spearmanr(values, truth).statistic
            rows.append(dict(score=name, change=against, spearman=rank, low=low, high=high))
            rows[-1] |= dict(null_low=null[0], null_high=null[1])
    notes = (
        f"{pairs} pairs, 16 a batch, {tokens} tokens; without {(effect < 0).sum()} heads of {len(effect)} the loss "
        "is lower; low and high: 95 % of bootstrap samples of heads; null: 95 % of random scores"
    )
    return Report(pd.DataFrame(rows), notes, {})


def contrast(outputs, batch: dict) -> Tensor:
    """The loss of finding each answer (second half of the batch) by its query (first half) among all answers."""
    queries, answers = _embeddings(outputs, batch).chunk(2)
    return cross_entropy(20 * queries @ answers.T, torch.arange(len(queries)))


def _halves(tokenizer, pairs: int, tokens: int) -> list[dict]:
    """Batches of 16 first halves of passages and their 16 second halves."""
    halves = [text.split(". ") for text in passages()]
    halves = [(each[: len(each) // 2], each[len(each) // 2 :]) for each in halves if len(each) > 1][:pairs]
    batches = []
    for i in range(0, pairs, 16):
        texts = [". ".join(pair[side]) for side in (0, 1) for pair in halves[i : i + 16]]
        batches.append(dict(tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=tokens)))
    return batches


def _moved(model, batch: dict) -> np.ndarray:
    """By head, 1 − cosine between the embeddings with and without it, mean of the texts."""
    with torch.no_grad():
        whole = _embeddings(model(**batch), batch)

    def distance(outputs, batch: dict) -> Tensor:
        return 1 - (_embeddings(outputs, batch) * whole).sum(1)

    return ablation_effect(model, [batch], distance)["value"].to_numpy()


def _embeddings(outputs, batch: dict) -> Tensor:
    """MiniLM's sentence embeddings (texts, width): mean over real tokens, length 1."""
    mask = batch["attention_mask"][..., None].float()
    return normalize((outputs.last_hidden_state * mask).sum(1) / mask.sum(1), dim=-1)
