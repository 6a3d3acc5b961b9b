"""Tune a sentence encoder for a task with few examples: solved head, training; and bodies that are pretrained in part.

Everything works on MiniLM with its word embeddings. ``Reader`` puts a linear head on the mean of its last states.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm

from utils.models import load, untrained
from utils.topics import TextTask
from utils.training import fit

PARTS = {  # a group of weights → what its parameters' names contain
    "words": ("word_embeddings",),
    "positions": ("position_embeddings", "token_type"),
    "LayerNorm": ("LayerNorm",),
    "query": ("self.query",),
    "key": ("self.key",),
    "value": ("self.value",),
    "joined": ("attention.output.dense",),
    "feed-forward": ("intermediate.dense", "output.dense"),
}
QKV = ("query", "key", "value")
TRANSPLANTS = {  # name → groups that are pretrained
    "nothing": (),
    "words": ("words",),
    "words, Q, K": ("words", "query", "key"),
    "words, Q, K, V": ("words", *QKV),
    "words, attention": ("words", *QKV, "joined"),
    "words, feed-forward": ("words", "feed-forward"),
    "words, positions, LayerNorm": ("words", "positions", "LayerNorm"),
    "all but LayerNorm": tuple(part for part in PARTS if part != "LayerNorm"),
    "all but Q, K, V": tuple(part for part in PARTS if part not in QKV),
    "all but feed-forward": tuple(part for part in PARTS if part != "feed-forward"),
    "all but words": tuple(PARTS)[1:],
    "all": tuple(PARTS),
}
INVERSE_PENALTIES = (0.001, 0.01, 0.1)  # of the head, scikit-learn's C
BATCH, STEPS, WARMUP, EVERY = 8, 40, 5, 10


def part_of(name: str) -> str:
    """The group of a parameter, by its name in MiniLM. Raises ValueError for a name that fits none."""
    for part, marks in PARTS.items():
        if any(mark in name for mark in marks):
            return part
    raise ValueError(f"no group holds {name!r}: the groups are {', '.join(PARTS)}")


def transplanted(parts: Iterable[str], seed: int = 0) -> nn.Module:
    """MiniLM with some groups of its weights; all others random, each matrix as spread as its trained counterpart.

    parts: some of ``PARTS``. Random biases are 0, random γ = 1 and β = 0. Without pooler, dropout off, evaluation mode.
    """
    chosen = tuple(parts)
    if wrong := [part for part in chosen if part not in PARTS]:
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, got {wrong[0]!r}")
    trained = load("minilm").model
    model = untrained(trained, seed)
    trained.pooler = model.pooler = None
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for (name, own), other in zip(model.named_parameters(), trained.parameters(), strict=True):
            drawn = torch.randn(own.shape, generator=generator) * other.std() if own.ndim == 2 else own
            own.copy_(other if part_of(name) in chosen else drawn)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.eval()


class Reader(nn.Module):
    """An encoder with a linear head on the standardised mean of its last states; the head starts at 0.

    Call it with ``ids`` and ``mask`` (sentences, tokens), get logits (sentences, classes).
    """

    def __init__(self, body: nn.Module, classes: int) -> None:
        super().__init__()
        self.body, self.output = body, nn.Linear(body.config.hidden_size, classes)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def features(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(sentences, tokens) → (sentences, width), each row of mean 0 and variance 1."""
        length = int(mask.sum(1).max())  # what is only padding is cut
        ids, mask = ids[:, :length], mask[:, :length]
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1)
        return layer_norm(mean, mean.shape[-1:])

    def forward(self, ids: Tensor, mask: Tensor, **_: Tensor) -> Tensor:
        return self.output(self.features(ids, mask))


def train_parts(net: Reader, parts: Iterable[str] = tuple(PARTS)[1:]) -> int:
    """Freeze all but the head and some groups (all but the word embeddings). Returns how many numbers are trained."""
    chosen = set(parts)
    for name, parameter in net.body.named_parameters():
        parameter.requires_grad_(part_of(name) in chosen)
    return trained_numbers(net)


def trained_numbers(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def tune(net: nn.Module, task: TextTask, *, learning_rate: float, steps: int = STEPS, seed: int = 0) -> dict:
    """Train what requires a gradient, and keep the weights that did best on the validation sentences.

    The weights before the first step are among the candidates. Batches of 8 sentences. Returns ``trained``,
    ``validation``, ``test`` (accuracies), ``curve`` (validation accuracy after 0, 10, 20 … steps), ``diverged`` and
    ``seconds`` of the processor, as ``transfer.adapt`` does.
    """
    began, curve = time.process_time(), [accuracy(net, task, task.validation)]
    trained = {name: p.detach().clone() for name, p in net.named_parameters() if p.requires_grad}

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        rows = task.train[torch.randint(len(task.train), (BATCH,), generator=generator)]
        return {"ids": task.ids[rows], "mask": task.mask[rows], "labels": task.labels[rows]}

    def error(candidate: nn.Module) -> float:
        curve.append(accuracy(candidate, task, task.validation))
        return 1 - curve[-1]

    def loss(logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
        return cross_entropy(logits, batch["labels"])

    diverged = False
    options = {"steps": steps, "learning_rate": learning_rate, "warmup": WARMUP, "seed": seed}
    try:
        fit(net, draw, loss, evaluate=error, every=EVERY, **options)
    except FloatingPointError:
        diverged = True
    if max(curve) == curve[0]:
        net.load_state_dict(trained, strict=False)
    found = {"trained": trained_numbers(net), "validation": max(curve), "curve": curve, "diverged": diverged}
    return found | {"test": accuracy(net, task, task.test), "seconds": time.process_time() - began}


@torch.no_grad()
def accuracy(net: nn.Module, task: TextTask, rows: Tensor) -> float:
    """Share of these sentences whose topic is named right."""
    rows = rows[task.mask[rows].sum(1).argsort()]  # sentences of one length together: less padding
    parts = [net(ids=task.ids[part], mask=task.mask[part]).argmax(-1) for part in rows.split(50)]
    return float((torch.cat(parts) == task.labels[rows]).float().mean())


@torch.no_grad()
def sentence_features(net: Reader, task: TextTask) -> Tensor:
    """What the head reads, for every sentence of the task: (sentences, width)."""
    found = torch.empty(len(task.ids), net.output.in_features)
    for rows in task.mask.sum(1).argsort().split(50):
        found[rows] = net.features(task.ids[rows], task.mask[rows])
    return found


def solved(features: Tensor, task: TextTask) -> dict:
    """Logistic regression on frozen features (sentences, width), penalty chosen by its log loss in validation.

    Not by accuracy: one validation sentence between two topics, and another processor chooses another penalty. The log
    loss moves as little as the features do. For the same reason each fit goes on in float64 until it is the optimum.
    Returns ``validation`` and ``test`` accuracy, ``inverse_penalty`` (the C chosen), ``weight`` (topics, width) and
    ``bias`` (topics,).
    """
    x, y = features.double().numpy(), task.labels.numpy()
    parts = {"validation": task.validation, "test": task.test}
    models = [LogisticRegression(C=c, tol=1e-8, max_iter=5000) for c in INVERSE_PENALTIES]
    for model in models:
        model.fit(x[task.train], y[task.train])

    def loss(model: LogisticRegression) -> float:
        return log_loss(y[task.validation], model.predict_proba(x[task.validation]), labels=model.classes_)

    best = min(models, key=loss)
    found = {which: float(best.score(x[rows], y[rows])) for which, rows in parts.items()}
    return found | {
        "inverse_penalty": best.C,
        "weight": torch.tensor(best.coef_).float(),
        "bias": torch.tensor(best.intercept_).float(),
    }


def solve_head(net: Reader, task: TextTask, features: Tensor | None = None) -> float:
    """Put the solved logistic regression into the head: where tuning starts. Returns its test accuracy.

    features: ``sentence_features(net, task)``, if they are known already.
    """
    found = solved(sentence_features(net, task) if features is None else features, task)
    with torch.no_grad():
        net.output.weight.copy_(found["weight"])
        net.output.bias.copy_(found["bias"])
    return found["test"]
