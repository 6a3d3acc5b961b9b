"""Write what data/ ships: the model with its scores, and the corpus with its counts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from tools.translator.corpus import Corpus
from tools.translator.evaluate import scores
from tools.translator.extract import Pair
from tools.translator.specialise import specialisation
from tools.translator.train import Run

TRAINING_SLICE = 10_000  # pairs


def write_json(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def export_model(run: Run, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Averaged weights in half precision, config, tokenizer and curve. The run itself keeps its float32 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = type(run.average)(run.config)
    rounded.load_state_dict(run.average.state_dict())
    rounded.generation_config._from_model_config = False  # its own file says all
    rounded.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.backend_tokenizer.no_padding()  # what a call left behind is no part of a tokenizer
    tokenizer.save_pretrained(folder)
    write_json(
        folder / "curve.json",
        {"recipe": run.description(), "points": run.curve, "first losses": run.losses[:200]},
    )


def export_scores(corpus: Corpus, folder: Path) -> dict:
    """Scores of the exported model, as a reader loads it."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    result = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        **scores(model, tokenizer, corpus.sets, corpus.target),
        "heads": specialisation(model, tokenizer, corpus.sets["test"], corpus.target),
    }
    write_json(folder / "scores.json", result)
    return result


def lines(pairs: list[Pair]) -> str:
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)


def export_corpus(corpus: Corpus, folder: Path) -> None:
    """Test, validation and a slice of training pairs as tab-separated text, and the counts of the whole corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    strict = set(corpus.sets["test"])
    from_pages = [pair for pair in corpus.sets["train"] if pair.page]
    chosen = sorted(random.Random(0).sample(range(len(from_pages)), min(TRAINING_SLICE, len(from_pages))))
    shipped = {
        "test": corpus.sets["test"],
        "test-near": [pair for pair in corpus.sets["test-pages"] if pair not in strict],
        "validation": corpus.sets["validation"],
        "train": [from_pages[i] for i in chosen],
    }
    for name, pairs in shipped.items():
        (folder / f"{corpus.target}-{name}.tsv").write_text(lines(pairs), encoding="utf-8")
    write_json(folder / f"{corpus.target}-counts.json", corpus.counts)
