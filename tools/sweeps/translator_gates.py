"""Hard-Concrete gates on the translator's 48 encoder heads, at five penalties.

python -m tools.sweeps.translator_gates   about 20 minutes on one core; go on after a kill by running it again

As in Voita et al. 2019 the encoder is tuned with the decoder fixed while the gates close. Writes
data/sweeps/translator_gates.json, and beside it, for each penalty, the tuned encoder layers in half precision with
their gates (``translator_gates/penalty-<p>.safetensors``).
"""

from __future__ import annotations

import copy

import pandas as pd
import torch
from safetensors.torch import save_file
from torch import nn
from tqdm import tqdm

from tools.sweeps.record import earlier, made, write
from tools.sweeps.translator_heads import Judge
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, text_losses
from utils.heads import gated
from utils.models import DATA, load, sha256
from utils.pruning import HardConcreteGates, fit_gates
from utils.sweeps import FOLDER

PENALTIES = (0.005, 0.01, 0.02, 0.05, 0.1)  # nats a token that an open head costs
STEPS, TRAINED, RATE = 500, 10_000, 5e-4  # steps, training pairs, learning rate of the weights
FROZEN = ("encoder.embedding", "decoder")  # the embedding is the decoder's too
NAME = "translator_gates"


def tune(model: nn.Module, data: list[dict], penalty: float, start: float) -> tuple[HardConcreteGates, pd.DataFrame]:
    """Tune encoder layers and gates in place; with gates that start wide open and cost nothing, the layers alone."""
    gates = HardConcreteGates(model, "encoder", start=start)
    gate_rate = 0.1 if penalty else 0.0
    return fit_gates(
        model,
        data,
        text_losses,
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


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, data = Judge(tokenizer, pairs=None), pair_batches(tokenizer, translation_pairs("train")[:TRAINED], size=40)
    weights = sha256(DATA / "translator" / "model.safetensors")
    facts = {"model": weights, "steps": STEPS, "training pairs": TRAINED, "rate": RATE, "judged on": "test, strict"}
    content = earlier(NAME, weights) or {"made": {}, "full": judge.both(model), "gates": []}
    content["made"] = made("translator_gates", **facts)

    for penalty in tqdm([p for p in PENALTIES if p not in [row["penalty"] for row in content["gates"]]], desc="gates"):
        content["gates"].append(with_gates(model, data, judge, penalty))
        write(NAME, content)


if __name__ == "__main__":
    main()
