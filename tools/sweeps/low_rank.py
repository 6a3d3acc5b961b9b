"""Chapter 5: spectra of whole texts, and Linformer's projections trained for MiniLM with everything else frozen.

python -m tools.sweeps.low_rank   about 6 minutes of processor time on one core; writes data/sweeps/low_rank.json

Texts have 64 tokens where something is trained, 512 for spectra and truncation. The notebook reruns one seed, one text.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tools.sweeps.record import made, write
from utils import low_rank, measures
from utils.models import load

N, TEST, SEEDS = 64, 32, (0, 1, 2)  # tokens of a text, held-out texts
RANKS = (16, 8, 32)
STEPS = 200  # of the training layer by layer
TOGETHER = {"k": 16, "steps": 60, "batch": 8, "rate": 0.005}  # of the training of all layers together
TEXTS = 5  # of 512 tokens


def start(kind: str, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """E and F before training: independent entries N(0, 1/n), or mean pooling for both."""
    if kind == "mean pooling":
        return (low_rank.mean_pooling(k, N),) * 2
    e, f = (low_rank.gaussian_projection(k, N, seed=2 * seed + which) * (k / N) ** 0.5 for which in (0, 1))
    return e, f


def rule(pairs):
    """Attention with (E, F) of each layer."""
    return lambda layer, queries, keys, values: low_rank.projected(queries, keys, values, *pairs[layer])


@torch.no_grad()
def scores(model, ids: Tensor, whole: Tensor, change=None) -> dict[str, float]:
    """Cosine of sentence embeddings to those of the whole model, and relative error of the last hidden states."""
    with low_rank.replaced(model, change):
        found = model(input_ids=ids).last_hidden_state
    cosine = torch.cosine_similarity(found.mean(1), whole.mean(1))
    return {"cosine": round(float(cosine.mean()), 4), "error": round(float((found - whole).norm() / whole.norm()), 4)}


def train_together(model, pairs, ids: Tensor, whole: Tensor, seed: int):
    """All E and F at once, through the frozen model, towards its last hidden states."""
    pairs = [tuple(part.clone().requires_grad_() for part in pair) for pair in pairs]
    optimiser = torch.optim.Adam([part for pair in pairs for part in pair], lr=TOGETHER["rate"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, TOGETHER["steps"])
    generator = torch.Generator().manual_seed(seed)
    with low_rank.replaced(model, rule(pairs)):
        for _ in range(TOGETHER["steps"]):
            chosen = torch.randperm(len(ids), generator=generator)[: TOGETHER["batch"]]
            found = model(input_ids=ids[chosen]).last_hidden_state
            loss = (found - whole[chosen]).square().sum() / whole[chosen].square().sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return [tuple(part.detach() for part in pair) for pair in pairs]


def training(model, tokenizer) -> list[dict]:
    """One row a start, k and seed: before training, trained layer by layer, and (for one k) then all together."""
    test = low_rank.token_windows(tokenizer, N, TEST)
    train = low_rank.token_windows(tokenizer, N, start=TEST)
    with torch.no_grad():
        whole, targets = (model(input_ids=ids).last_hidden_state for ids in (test, train))
    heads = low_rank.heads_of_text(model, train)
    rows = []
    for k in RANKS:
        for kind in ("Gaussian", "mean pooling"):
            for seed in SEEDS:
                pairs = [start(kind, k, seed)] * len(heads)
                row = {"start": kind, "k": k, "seed": seed, "untrained": scores(model, test, whole, rule(pairs))}
                pairs = [
                    low_rank.fit_projection(of_layer, *pair, steps=STEPS, seed=seed)
                    for of_layer, pair in zip(heads, pairs, strict=True)
                ]
                row["layer by layer"] = scores(model, test, whole, rule(pairs))
                if k == TOGETHER["k"]:
                    pairs = train_together(model, pairs, train, targets, seed)
                    row["then together"] = scores(model, test, whole, rule(pairs))
                rows.append(row)
                print(row, flush=True)
    return rows


def spectra(model, tokenizer) -> list[dict]:
    """A row a text of 512 tokens and layer, a value a head: share of Σσ and Σσ² at 128, values for 90 % of Σσ."""
    rows = []
    for text, ids in enumerate(low_rank.token_windows(tokenizer, 512, TEXTS)[:, None]):
        for layer, (queries, keys, _) in enumerate(low_rank.heads_of_text(model, ids)):
            sigma = measures.spectrum(low_rank.attention_weights(queries, keys)[0])
            one, two = (measures.cumulative_spectrum(sigma, power)[:, 127].tolist() for power in (1, 2))
            shares = {"share_1": [round(v, 4) for v in one], "share_2": [round(v, 4) for v in two]}
            rows.append({"text": text, "layer": layer} | shares | {"needed": measures.needed_rank(sigma).tolist()})
        print("spectra of text", text, flush=True)
    return rows


def outputs(model, tokenizer) -> list[dict]:
    """What 128 of 512 does to the embeddings of three texts, in all heads at once."""
    ids = low_rank.token_windows(tokenizer, 512, 3)
    e, f = (low_rank.gaussian_projection(128, 512, seed=seed) for seed in (0, 1))
    mean = low_rank.mean_pooling(128, 512)
    rules = {
        "singular values": lambda _, q, k, v: low_rank.truncated(low_rank.attention_weights(q, k), 128) @ v,
        "top keys": lambda _, q, k, v: low_rank.top_keys(low_rank.attention_weights(q, k), 128) @ v,
        "mean pooling": lambda _, q, k, v: low_rank.projected(q, k, v, mean, mean),
        "Gaussian E and F": lambda _, q, k, v: low_rank.projected(q, k, v, e, f),
        "P Rᵀ R": lambda _, q, k, v: low_rank.attention_weights(q, k) @ e.T @ (e @ v),
    }
    with torch.no_grad():
        whole = model(input_ids=ids).last_hidden_state
    rows = [{"rule": name} | scores(model, ids, whole, change) for name, change in rules.items()]
    print(rows, flush=True)
    return rows


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("minilm")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    facts = {"n": N, "held_out": TEST, "seeds": SEEDS, "steps": STEPS, "together": TOGETHER, "model": "minilm"}
    result = {"made": made("low_rank", **facts)}
    for name, part in {"spectra": spectra, "outputs": outputs, "training": training}.items():
        result[name] = part(model, tokenizer)
        write("low_rank", result)


if __name__ == "__main__":
    main()
