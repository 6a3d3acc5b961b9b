"""Hard-Concrete gates on the translator's 48 encoder heads, beside other choices of as many heads and the same tuning.

python -m tools.sweeps.translator_gates   about 40 minutes on one core; go on after a kill by running it again

As in Voita et al. 2019 the encoder is tuned with the decoder fixed while the gates close. Writes
data/sweeps/translator_gates.json, and beside it, for each penalty, the tuned encoder layers in half precision with
their gates (``translator_gates/penalty-<p>.safetensors``). Chapters 3 and 4 and Lab 3 read them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pandas as pd
import torch
from safetensors.torch import save_file
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import FOLDER, made, write
from tools.sweeps.translator_heads import RANKED, Judge, batches, loss_of_texts
from utils.heads import Head, gated
from utils.importance import importance
from utils.models import DATA, load, sha256
from utils.pruning import HardConcreteGates, fit_gates, order_by, prune, random_order

PENALTIES = (0.005, 0.01, 0.02, 0.05, 0.1)  # nats a token that an open head costs
COMPARED = (0.02, 0.05)  # penalties whose number of heads the other choices get too
STEPS, TRAINED, RATE, SEEDS = 500, 10_000, 5e-4, 3  # steps, training pairs, learning rate of weights, random choices
FROZEN = ("encoder.embedding", "decoder")  # the embedding is the decoder's too
NAME = "translator_gates"


def tune(model: nn.Module, data: list[dict], penalty: float, start: float) -> tuple[HardConcreteGates, pd.DataFrame]:
    """Tune encoder layers and gates in place; with gates that start wide open and cost nothing, the layers alone."""
    gates = HardConcreteGates(model, "encoder", start=start)
    gate_rate = 0.1 if penalty else 0.0
    return fit_gates(
        model,
        data,
        loss_of_texts,
        penalty=penalty,
        steps=STEPS,
        gates=gates,
        frozen=FROZEN,
        rate=RATE,
        gate_rate=gate_rate,
        dropout=True,
        progress=True,
    )


def with_gates(model: nn.Module, data: list[dict], judge: Judge, penalty: float) -> dict:
    """One penalty: which heads stay, the way there, and the scores. The tuned layers are kept in a file."""
    tuned = copy.deepcopy(model)
    gates, steps = tune(tuned, data, penalty, start=2.0)
    with torch.no_grad(), gated(tuned, gates()):
        found = judge.both(tuned)
    keep(tuned, gates, penalty)
    return {
        "penalty": penalty,
        "kept": len(gates.open_heads()),
        "heads": [[head.layer, head.head] for head in gates.open_heads()],
        **found,
        "open at step": dict(zip(steps["step"].tolist()[::20], steps["open"].tolist()[::20], strict=True)),
    }


def keep(model: nn.Module, gates: HardConcreteGates, penalty: float) -> None:
    """Encoder layers in half precision, and the values of the gates at evaluation."""
    tensors = {name: tensor.half() for name, tensor in model.state_dict().items() if name.startswith("encoder.layers.")}
    tensors |= {"gates": gates()["encoder"].detach(), "log_alpha": gates.log_alpha["encoder"].detach()}
    folder = FOLDER / NAME
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"penalty-{penalty:g}.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    file.chmod(0o644)


def choices(model: nn.Module, frame: pd.DataFrame, counts: list[int]) -> Iterator[tuple[str, int | None, list[Head]]]:
    """(name, seed, encoder heads to remove): none as the control, then for each count of heads that are to stay."""
    yield "control", None, []
    for kept in counts:
        for score in ("absolute", "signed"):
            order = order_by(frame, score, kind="encoder")
            yield score, None, order[: len(order) - kept]
        for seed in range(SEEDS):
            order = random_order(model, seed, kind="encoder")
            yield "random", seed, order[: len(order) - kept]


def without_gates(model: nn.Module, data: list[dict], judge: Judge, gone: list[Head]) -> dict:
    """Heads removed at once, before and after the same tuning of what is left."""
    small = prune(model, gone)
    before = judge.both(small)
    tune(small, data, penalty=0.0, start=20.0)
    return {"before": before, "after": judge.both(small)}


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, data = Judge(tokenizer, pairs=None), batches(tokenizer, "train", TRAINED, size=40)
    frame = importance(model, batches(tokenizer, "validation", RANKED), loss_of_texts)
    weights = sha256(DATA / "translator" / "model.safetensors")
    facts = {"model": weights, "steps": STEPS, "training pairs": TRAINED, "rate": RATE, "judged on": "test, strict"}
    content = _before(weights) or {"made": {}, "full": judge.both(model), "gates": [], "compared": []}
    content["made"] = made("translator_gates", **facts)

    for penalty in tqdm([p for p in PENALTIES if p not in [row["penalty"] for row in content["gates"]]], desc="gates"):
        content["gates"].append(with_gates(model, data, judge, penalty))
        write(NAME, content)
    counts = {row["kept"] for row in content["gates"] if row["penalty"] in COMPARED}
    for name, seed, gone in choices(model, frame, sorted(counts, reverse=True)):
        place = {"order": name, "seed": seed, "kept": 48 - len(gone)}
        if not any(place.items() <= row.items() for row in content["compared"]):
            content["compared"].append(place | without_gates(model, data, judge, gone))
            write(NAME, content)


def _before(weights: str) -> dict | None:
    """What an earlier run of this sweep left, if it was about the same model."""
    file = FOLDER / f"{NAME}.json"
    content = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return content if content and content["made"].get("model") == weights else None


if __name__ == "__main__":
    main()
