"""Make the unknown model of the assessment "Analyse": data/unknown, a small GPT-2 with planted and with learned heads.

    python -m tools.unknown_model           # train and write (about five minutes of one core)
    python -m tools.unknown_model --texts   # print a few texts

The model reads notes in an invented language (``note``). Queries and keys of most heads are planted and stay fixed; all
else is trained. Heads that shall be redundant are scaled or switched off at random while the model is trained, so that
it learns to do without them. Afterwards one head in each layer is split into twins: the second is the first in another
basis, and they share the output. Whether a head matters is never written down: readers and checks measure it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from tools.unknown_notes import WORDS, note, notes
from utils.heads import gated
from utils.models import quiet

OUT = Path(__file__).resolve().parent.parent / "data" / "unknown"
WIDTH, HEADS, LAYERS, SIZE, LENGTH = 128, 8, 2, 16, 64
PAIRS, FIRST = 8, WIDTH - 18  # the last 18 coordinates hold positions: 8 pairs, a constant, a mark of the first token
CONSTANT, MARK = WIDTH - 2, WIDTH - 1
# Where each head lies. Twins are made of the head of their name.
PLAN = (
    {"wide": 0, "loud": 1, "previous": 2, "sink": 3, "third back": 4, "noise": 5, "twin": 6, "first": 7},
    {"echo": 0, "lookup": 1, "sink": 2, "same output": 3, "free": 4, "sink 2": 5, "wide": 6, "twin": 7},
)
HALVED, DROPPED = ((0, "previous"), (1, "lookup")), ((0, "loud"), (1, "echo"), (1, "free"), (1, "wide"))
SILENT = ((0, "sink"), (0, "noise"), (0, "twin"), (1, "sink"), (1, "sink 2"), (1, "same output"), (1, "twin"))
FREE = ((1, "lookup"), (1, "free"))  # learn their queries and keys too
NARROW = {(0, "first"): 2}  # ranks of values
LOUD = 0.8  # every singular value of the loud head's W_V W_O, which is fixed


def new_tokenizer() -> PreTrainedTokenizerFast:
    """A token a word."""
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", model_max_length=LENGTH)


def positions() -> Tensor:
    """(64, 128): pairs of cosine and sine, a constant, a mark of place 0."""
    table = torch.zeros(LENGTH, WIDTH)
    angle = torch.arange(LENGTH)[:, None] * 2 * math.pi / LENGTH * (1 + 4 * torch.arange(PAIRS))
    table[:, FIRST:CONSTANT] = torch.stack([angle.cos(), angle.sin()], -1).flatten(1)
    table[:, CONSTANT] = 1
    table[0, MARK] = 3
    return table


def planted(name: str, layer: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of a head, (128, 16) each."""
    query, key = torch.zeros(WIDTH, SIZE), torch.zeros(WIDTH, SIZE)
    back = {"previous": 1, "third back": 3, "loud": 0, "echo": 1}.get(name)
    if back is not None:
        key[FIRST:CONSTANT] = torch.eye(SIZE)
        for pair in range(PAIRS):
            angle = -back * 2 * math.pi / LENGTH * (1 + 4 * pair)  # turns place i into place i − back
            turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            at = slice(FIRST + 2 * pair, FIRST + 2 * pair + 2)
            query[at, 2 * pair : 2 * pair + 2] = turn * (1.5, 40.0)[layer]
        mix = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator))[0]
        return query @ mix, key @ mix
    if name in ("first", "sink", "sink 2"):
        one, other = torch.randn(2, SIZE, generator=generator)
        unit = one / one.norm()
        query[CONSTANT], key[MARK] = unit * (3, 60)[layer], unit
        return query, key
    if name in ("noise", "same output"):
        query[:FIRST], key[:FIRST] = torch.randn(2, FIRST, SIZE, generator=generator) * (0.12, 0.16)[layer]
    return query, key


class Planting:
    """What stays fixed while a model is trained, put back after each step."""

    def __init__(self, model: GPT2LMHeadModel, seed: int):
        self.model, generator = model, torch.Generator().manual_seed(seed)
        self.places = positions()
        self.loud = [torch.linalg.qr(torch.randn(FIRST, SIZE, generator=generator))[0] for _ in "vo"]
        self.parts = {
            (layer, name): planted(name, layer, generator)
            for layer, heads in enumerate(PLAN)
            for name in heads
            if (layer, name) not in FREE
        }

    @torch.no_grad()
    def restore(self) -> None:
        core = self.model.transformer
        core.wpe.weight.copy_(self.places)
        core.wte.weight[:, FIRST:] = 0
        for block in core.h:  # nothing writes over positions
            for part in (block.attn.c_proj, block.mlp.c_proj):
                part.weight[:, FIRST:] = 0
                part.bias[FIRST:] = 0
            block.attn.c_attn.bias.zero_()
            block.ln_1.weight.fill_(1)
            block.ln_1.bias.zero_()
        for (layer, name), (query, key) in self.parts.items():
            at, joined = columns(layer, name), core.h[layer].attn.c_attn.weight
            joined[:, :WIDTH][:, at], joined[:, WIDTH : 2 * WIDTH][:, at] = query, key
        for layer, name in SILENT:
            core.h[layer].attn.c_proj.weight[columns(layer, name)] = 0
        for (layer, name), rank in NARROW.items():
            core.h[layer].attn.c_attn.weight[:, 2 * WIDTH :][:, columns(layer, name)][:, rank:] = 0
        at, attention = columns(0, "loud"), core.h[0].attn
        attention.c_attn.weight[:FIRST, 2 * WIDTH :][:, at] = self.loud[0]
        attention.c_proj.weight[at, :FIRST] = LOUD * self.loud[1].T


def columns(layer: int, name: str) -> slice:
    """The columns of a head among all heads."""
    return slice(SIZE * PLAN[layer][name], SIZE * (PLAN[layer][name] + 1))


def gates(texts: int, generator: torch.Generator) -> Tensor:
    """(texts, layers, heads): 1, and for half of the texts 0.5 for heads to be split, 0 for heads to be dropped."""
    drawn = torch.ones(texts, LAYERS, HEADS)
    for low, heads in ((0.5, HALVED), (0.0, DROPPED)):
        for layer, name in heads:
            coin = torch.rand(texts, generator=generator) < 0.5
            drawn[coin, layer, PLAN[layer][name]] = low
    return drawn


def train(steps: int, seed: int = 0, batch: int = 16) -> GPT2LMHeadModel:
    """A model trained on new notes in each step."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(WORDS), n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_inner=256,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=False,
        initializer_range=0.08, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    model.transformer.wte.weight.data.normal_(0, 0.3)
    planting, tokenizer = Planting(model, seed), new_tokenizer()
    planting.restore()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps, pct_start=0.1)
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for step in range(steps):
        ids = torch.tensor(tokenizer([note(draw) for _ in range(batch)])["input_ids"])
        with gated(model, gates(batch, generator)):
            loss = cross_entropy(model(ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        planting.restore()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: {loss:.3f} nats", flush=True)
    return model.eval()


@torch.no_grad()
def finish(model: GPT2LMHeadModel, seed: int = 0) -> None:
    """Split two heads into twins, and give the silent heads the little that they say."""
    generator = torch.Generator().manual_seed(seed + 1)

    def turn() -> Tensor:
        return torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator))[0]

    def parts(layer: int, name: str) -> list[Tensor]:
        attention, at = model.transformer.h[layer].attn, columns(layer, name)
        joined = attention.c_attn.weight
        return [joined[:, i * WIDTH : (i + 1) * WIDTH][:, at] for i in range(3)] + [attention.c_proj.weight[at]]

    for layer, name in HALVED:
        query, key, value, output = parts(layer, name)
        output /= 2
        basis, other = turn(), turn()
        for part, new in zip(
            parts(layer, "twin"), (query @ basis, key @ basis, value @ other, other.T @ output), strict=True
        ):
            part.copy_(new)
    for layer, name in NARROW:
        value, output = parts(layer, name)[2:]
        basis = turn()
        new = value @ basis, basis.T @ output
        value.copy_(new[0])
        output.copy_(new[1])
    _, _, value, output = parts(1, "lookup")
    basis = turn()
    for part, new in zip(parts(1, "same output")[2:], (value @ basis, basis.T @ output / 5), strict=True):
        part.copy_(new)
    for layer, name in SILENT:
        if name in ("sink", "sink 2", "noise"):
            _, _, value, output = parts(layer, name)
            output[:, :FIRST] = 0.03 * torch.randn(SIZE, FIRST, generator=generator)
            value.copy_(0.3 * value if name != "noise" else value)


def write(model: GPT2LMHeadModel, folder: Path = OUT) -> None:
    """Weights in half precision, config, tokenizer, and notes: 96 to read and 96 to judge by."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    new_tokenizer().save_pretrained(folder)
    read = notes(96, seed=10_001)
    texts = {"read": read, "judge": [each for each in notes(120, seed=10_002) if each not in read][:96]}
    lines = [json.dumps({"split": split, "text": text}) for split, group in texts.items() for text in group]
    (folder / "notes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", action="store_true", help="print three notes and stop")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.texts:
        print("\n".join(notes(3, seed=1)))
        return
    torch.set_num_threads(1)
    model = train(options.steps, options.seed)
    finish(model, options.seed)
    write(model, options.out)


if __name__ == "__main__":
    main()
