"""A frozen encoder on data that is no text: new input and output layers, and a choice of what is trained.

The four groups of Lu et al. (2021, arXiv:2103.05247) with MiniLM in place of GPT-2; here the body is post-LN, reads in
both directions and has no dropout, and the input layer starts smaller. Parameters fall into groups: ``output`` (the new
head), ``layernorm`` (all γ and β), ``input`` (the new first layer), ``positions`` (the rows of the position table that
are used) and ``rest`` (attention and feed-forward blocks, which the paper leaves frozen).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from utils.models import load, untrained
from utils.training import fit
from utils.transfer_tasks import IGNORED, Task

GROUPS = ("output", "layernorm", "input", "positions", "rest")
LADDER = {
    "output": ("output",),
    "+ LayerNorm": ("output", "layernorm"),
    "+ input": ("output", "layernorm", "input"),
    "+ positions": ("output", "layernorm", "input", "positions"),
}
RUNGS = LADDER | {
    "input and output": ("output", "input"),
    "LayerNorm alone": ("layernorm",),
    "everything": GROUPS,
}
BODIES = ("pretrained", "random", "random small")
INPUT_SCALE = 0.02  # standard deviation of the first weights of the input layer
BATCH, STEPS, WARMUP, EVERY = 16, 200, 20, 25


def body(kind: str = "pretrained", seed: int = 0) -> nn.Module:
    """MiniLM's encoder without word embeddings, pooler and dropout, in evaluation mode; every call gives a new one.

    kind: "pretrained"; "random", Gaussian matrices and positions, each with the standard deviation of its trained
    counterpart; "random small", the weights that a fresh model of this class starts from (standard deviation 0.02).
    Both random ones have γ = 1, β = 0 and biases of 0.
    Raises ValueError for another kind.
    """
    if kind not in BODIES:
        raise ValueError(f"kind must be one of {', '.join(map(repr, BODIES))}, got {kind!r}")
    trained = load("minilm").model
    model = trained if kind == "pretrained" else untrained(trained, seed)
    if kind == "random":
        _match_spread(model, trained, seed)
    model.embeddings.word_embeddings = None  # inputs come as vectors
    model.pooler = None
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.eval()


def _match_spread(model: nn.Module, trained: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for (name, own), other in zip(model.named_parameters(), trained.parameters(), strict=True):
            if own.ndim == 2:
                own.copy_(torch.randn(own.shape, generator=generator) * other.std())
            assert own.shape == other.shape, name


class Transferred(nn.Module):
    """A body between a new input layer and a new head, for one task. Call it with ``inputs``, get logits.

    body: from ``body()``. seed: of the new layers. input_scale: standard deviation of the first input weights; its
    biases and the head's are 0. Logits: (examples, outputs, classes).
    """

    def __init__(self, encoder: nn.Module, task: Task, seed: int = 0, input_scale: float = INPUT_SCALE) -> None:
        super().__init__()
        if not input_scale > 0:
            raise ValueError(f"input_scale must be above 0, got {input_scale!r}")
        self.body, self.read, self.classes = encoder, task.read, task.classes
        width = encoder.config.hidden_size
        each = task.targets.shape[1] // max(1, task.read)
        self.input = nn.Linear(task.inputs.shape[2], width)
        self.output = nn.Linear(width, each * task.classes)
        self.tokens = task.inputs.shape[1]
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer, scale in ((self.input, input_scale), (self.output, 0.02)):
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) * scale)
                layer.bias.zero_()

    def features(self, inputs: Tensor) -> Tensor:
        """What the head reads: (examples, tokens, width) → (examples, places, hidden size)."""
        states = self.body(inputs_embeds=self.input(inputs)).last_hidden_state
        return states[:, -self.read :] if self.read else states.mean(1, keepdim=True)

    def head(self, features: Tensor) -> Tensor:
        """Logits (examples, outputs, classes) from features."""
        return self.output(features).reshape(len(features), -1, self.classes)

    def forward(self, inputs: Tensor, **_: Tensor) -> Tensor:
        return self.head(self.features(inputs))


def parameters(net: Transferred, groups: Iterable[str]) -> list[nn.Parameter]:
    """The parameters of some groups. Raises ValueError for a name that is no group."""
    return [p for group in _known(groups) for p in _grouped(net)[group]]


def train_only(net: Transferred, groups: Iterable[str]) -> int:
    """Freeze ``net`` but for these groups. Returns how many numbers are trained; of positions the rows in use count."""
    chosen = _known(groups)
    for group, members in _grouped(net).items():
        for parameter in members:
            parameter.requires_grad_(group in chosen)
    return sum(sizes(net)[group] for group in chosen)


def sizes(net: Transferred) -> dict[str, int]:
    """How many numbers each group has; of the position table only the rows that the task uses."""
    found = {group: sum(p.numel() for p in members) for group, members in _grouped(net).items()}
    return found | {"positions": net.tokens * net.body.config.hidden_size}


def _known(groups: Iterable[str]) -> tuple[str, ...]:
    chosen = (groups,) if isinstance(groups, str) else tuple(groups)
    wrong = [group for group in chosen if group not in GROUPS]
    if wrong or not chosen:
        raise ValueError(f"groups must be some of {', '.join(map(repr, GROUPS))}, got {chosen!r}")
    return chosen


def _grouped(net: Transferred) -> dict[str, list[nn.Parameter]]:
    found: dict[str, list[nn.Parameter]] = {group: [] for group in GROUPS}
    for name, parameter in net.named_parameters():
        if name.startswith("output."):
            group = "output"
        elif name.startswith("input."):
            group = "input"
        elif "LayerNorm" in name:
            group = "layernorm"
        else:
            group = "positions" if "position_embeddings" in name else "rest"
        found[group].append(parameter)
    return found


def loss(logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Cross-entropy over all targets that count: logits (examples, outputs, classes)."""
    return cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED)


@torch.no_grad()
def accuracy(net: nn.Module, inputs: Tensor, targets: Tensor, size: int = 250) -> float:
    """Share of the targets that count which ``net`` names right."""
    parts = [net(inputs=part).argmax(-1) for part in inputs.split(size)]
    right = (torch.cat(parts) == targets)[targets != IGNORED]
    return float(right.float().mean())


def adapt(
    net: Transferred,
    task: Task,
    groups: Iterable[str],
    *,
    learning_rate: float,
    steps: int = STEPS,
    batch: int = BATCH,
    every: int = EVERY,
    seed: int = 0,
    label: str | None = None,
) -> dict[str, object]:
    """Train some groups of ``net`` in place with Adam, and keep the weights that did best on the validation set.

    Returns ``trained`` (numbers trained), ``validation`` (best accuracy), ``test`` (accuracy with the same weights; the
    last ones if the loss is no longer finite before the first check), ``curve`` (accuracies on the validation set,
    after every ``every`` steps), ``diverged`` (the loss was no longer finite) and ``seconds`` of the processor. Where
    only the output is trained, its inputs are computed once.
    """
    chosen = _known(groups)
    count, began = train_only(net, chosen), time.process_time()
    data = {which: task.part(which) for which in ("train", "validation", "test")}
    model: nn.Module = net
    if set(chosen) == {"output"}:
        data = {which: (features_of(net, x), y) for which, (x, y) in data.items()}
        model = _Head(net)
    inputs, targets = data["train"]

    def draw(generator: torch.Generator) -> dict[str, Tensor]:
        rows = torch.randint(len(inputs), (batch,), generator=generator)
        return {"inputs": inputs[rows], "targets": targets[rows]}

    curve: list[float] = []

    def error(candidate: nn.Module) -> float:
        curve.append(accuracy(candidate, *data["validation"]))
        return 1 - curve[-1]

    options = {"steps": steps, "learning_rate": learning_rate, "warmup": WARMUP, "seed": seed, "label": label}
    diverged = False
    try:
        fit(model, draw, loss, evaluate=error, every=every, clip=None, **options)
    except FloatingPointError:
        diverged = True
    return {
        "trained": count,
        "validation": max(curve, default=task.chance),
        "test": accuracy(model, *data["test"]),
        "curve": curve,
        "diverged": diverged,
        "seconds": time.process_time() - began,
    }


@torch.no_grad()
def features_of(net: Transferred, inputs: Tensor, size: int = 250) -> Tensor:
    """What the head of a frozen network reads, for many examples: (examples, places, hidden size)."""
    return torch.cat([net.features(part) for part in inputs.split(size)])


def solved_head(net: Transferred, task: Task, penalties: tuple[float, ...] = (0.01, 1.0, 100.0)) -> dict[str, object]:
    """The rung "output" without a learning rate: logistic regression on what the head reads, for tasks of one output.

    penalties: inverses of scikit-learn's ``C``; the one with the best accuracy on the validation set counts. Features
    are standardised. Returns ``trained``, ``validation`` and ``test``, as ``adapt`` does. ``net`` stays as it is.
    """
    if task.targets.shape[1] != 1:
        raise ValueError(f"a head can be solved for one output, but {task.name!r} has {task.targets.shape[1]}")
    parts = {which: task.part(which) for which in ("train", "validation", "test")}
    known = {which: (features_of(net, x).flatten(1).numpy(), y[:, 0].numpy()) for which, (x, y) in parts.items()}
    models = [make_pipeline(StandardScaler(), LogisticRegression(C=1 / p, max_iter=1000)) for p in penalties]
    scores = [model.fit(*known["train"]).score(*known["validation"]) for model in models]
    best = models[scores.index(max(scores))]
    return {"trained": sizes(net)["output"], "validation": max(scores), "test": best.score(*known["test"])}


class _Head(nn.Module):
    """The head alone, on features that are known."""

    def __init__(self, net: Transferred) -> None:
        super().__init__()
        self.output, self.apply_head = net.output, net.head

    def forward(self, inputs: Tensor, **_: Tensor) -> Tensor:
        return self.apply_head(inputs)
