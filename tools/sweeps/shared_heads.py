"""Fewer keys and values in the translator's decoder: shared by groups of heads, or removed with heads, then tuned.

python -m tools.sweeps.shared_heads   about 10 minutes on one core; go on after a kill by running it again

Decoder self-attention and cross-attention together. Sharing starts from the mean of each group and keeps it shared
(the gradient is averaged over the group); removing takes the least important heads of both kinds, until as many keys
and values are left. All weights are tuned by the same steps; 8 heads left is the control. Writes
data/sweeps/shared_heads.json, which chapter 4 reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from tqdm import tqdm

from tools.sweeps.record import earlier, made, write
from tools.sweeps.translator_heads import Judge
from tools.translator.train import batches, tensors
from utils.architectures import attentions
from utils.corpora import translation_pairs
from utils.encoder_decoder import pair_batches, text_losses, with_shared_heads
from utils.importance import importance
from utils.models import DATA, load, sha256
from utils.pruning import order_by, prune

NAME = "shared_heads"
KINDS = ("decoder", "cross")
STEPS, WARMUP, RATE, TOKENS, SEED = 150, 20, 5e-4, 1000, 1
WAYS = [("share", 8), ("share", 4), ("remove", 4), ("share", 1), ("remove", 1)]


def shared(model: nn.Module, groups: int) -> nn.Module:
    for kind in KINDS:
        model = with_shared_heads(model, kind, groups)
    return model


def keep_shared(model: nn.Module, groups: int) -> None:
    """Gradients of shared weights are averaged over their group: equal weights then stay equal under Adam."""

    def averaged(gradient: Tensor) -> Tensor:
        blocks = gradient.unflatten(0, (8, -1)).unflatten(0, (groups, -1))
        return blocks.mean(1, keepdim=True).expand_as(blocks).flatten(0, 2)

    for each in attentions(model):
        if each.kind in KINDS:
            for projection in (each.key, each.value):
                for parameter in projection.parameters():
                    parameter.register_hook(averaged)


def smaller(model: nn.Module, kept: int, frame) -> nn.Module:
    """Without the least important heads of each kind: ``kept`` of 8 are left on average over its layers."""
    orders = {kind: order_by(frame, "absolute", kind=kind) for kind in KINDS}
    return prune(model, [head for order in orders.values() for head in order[: len(order) * (8 - kept) // 8]])


def tune(model: nn.Module, sources: list, targets: list) -> None:
    """STEPS of AdamW on all weights, rate rising over WARMUP steps and then falling to 0."""
    torch.manual_seed(SEED)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, (0.9, 0.98), 1e-9, 0.01)
    epoch, order = 0, []
    for step in tqdm(range(STEPS), leave=False):
        if not order:
            order, epoch = batches(sources, targets, TOKENS, SEED * 100_003 + epoch), epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = RATE * min((step + 1) / WARMUP, (STEPS - step) / (STEPS - WARMUP))
        loss = model(**tensors(sources, targets, order.pop())).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load("translator")
    judge, pairs = Judge(tokenizer), translation_pairs("train")
    sources, targets = (tokenizer([pair[side] for pair in pairs])["input_ids"] for side in (0, 1))
    frame = importance(model, pair_batches(tokenizer, translation_pairs("validation")[:300]), text_losses)
    weights = sha256(DATA / "translator" / "model.safetensors")
    facts = {"model": weights, "steps": STEPS, "rate": RATE, "seed": SEED, "training pairs": len(pairs)}
    content = earlier(NAME, weights) or {"made": {}, "rows": []}
    content["made"] = made(NAME, **facts, **{"judged on": f"test, first {len(judge.sources)}"})
    done = {(row["way"], row["left"]) for row in content["rows"]}
    for way, left in tqdm([each for each in WAYS if each not in done], desc=NAME):
        changed = shared(model, left) if way == "share" else smaller(model, left, frame)
        before = judge.nll(changed)
        if way == "share":
            keep_shared(changed, left)
        tune(changed, sources, targets)
        content["rows"].append({"way": way, "left": left, "nll": before, "nll tuned": judge.nll(changed)})
        write(NAME, content)


if __name__ == "__main__":
    main()
