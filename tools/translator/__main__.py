"""From a bare checkout to a trained translator with one command.

python -m tools.translator --target de               the full recipe (80 minutes on one core)
python -m tools.translator --target de --minutes 5   a short one
Run it again after a kill and it continues.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tqdm import tqdm

from tools.translator import card, corpus, evaluate, export, extract
from tools.translator.train import Recipe, Run
from utils.translator import TranslatorConfig, translate

ROOT = Path(__file__).resolve().parents[2]
STEPS = {"de": 19_500, "ko": 5_000}  # of the models in data/
DROPOUT = {"de": 0.2, "ko": 0.1}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.translator", description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=sorted(extract.PACKAGES), default="de", help="language to translate into")
    parser.add_argument("--minutes", type=float, help="train about this long instead of the full recipe")
    parser.add_argument("--steps", type=int, help="number of steps (the default is the full recipe)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--packages", type=Path, help="folder of the .deb files (default: fetched with apt-get download)"
    )
    parser.add_argument(
        "--work", type=Path, help="folder for packages, corpus and checkpoint (default: _build/translator)"
    )
    parser.add_argument("--out", type=Path, help="folder for the finished model (default: <work>/<run>/model)")
    parser.add_argument("--corpus-out", type=Path, help="folder for the part of the corpus that data/ ships")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--ffn-dim", type=int, default=256)
    parser.add_argument("--decoder-layers", type=int, default=3)
    parser.add_argument("--dropout", type=float, help="(the default is the full recipe's)")
    parser.add_argument("--name", help="name of the run's folder (default: <target>-<seed>)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads; more than one is not reproducible")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    work = options.work or ROOT / "_build" / "translator"
    folder = work / (options.name or f"{options.target}-{options.seed}")
    data = corpus.prepared(options.target, work, options.packages)
    print(json.dumps(data.counts))

    tokenizer = data.tokenizer
    config = TranslatorConfig(
        vocab_size=len(tokenizer),
        d_model=options.d_model,
        ffn_dim=options.ffn_dim,
        decoder_layers=options.decoder_layers,
        dropout=DROPOUT[options.target] if options.dropout is None else options.dropout,
    )
    recipe = Recipe(seed=options.seed, steps=STEPS[options.target])
    run = Run(config, recipe, folder, options.steps, options.minutes)
    sources, targets = data.ids("train")
    validation = data.sets["validation"]
    held = data.ids("validation")

    def score(model) -> dict[str, float]:
        texts = translate(model, tokenizer, [pair.source for pair in validation[:300]])
        bleu = evaluate.bleu(texts, [pair.target for pair in validation[:300]], options.target)
        return {"nll": round(evaluate.nll(model, *held), 4), "bleu": round(bleu, 2)}

    with tqdm(total=run.recipe.steps, initial=run.step, desc=f"en→{options.target}", unit="step") as bar:
        for loss in run.train(sources, targets, score):
            bar.total = run.recipe.steps
            bar.update()
            last = run.curve[-1] if run.curve else {}
            bar.set_postfix(loss=f"{loss:.2f}", bleu=last.get("bleu", "–"), nll=last.get("nll", "–"), refresh=False)
    out = options.out or folder / "model"
    export.export_model(run, tokenizer, out)
    if options.corpus_out:
        export.export_corpus(data, options.corpus_out)
    print(json.dumps(export.export_scores(data, out), ensure_ascii=False, indent=1))
    card.write(out, options.target)


if __name__ == "__main__":
    main()
