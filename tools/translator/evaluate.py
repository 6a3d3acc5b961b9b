"""Scores of a translator: sacreBLEU, chrF, loss, speed, and the baselines beside them."""

from __future__ import annotations

import time
from collections.abc import Callable

import sacrebleu
import torch
from transformers import PreTrainedTokenizerBase

from tools.translator.baselines import Dictionary
from tools.translator.extract import Pair
from tools.translator.train import Ids, tensors
from utils.translator import Translator, translate

TOKENIZE = {"de": "13a", "ko": "char"}  # sacreBLEU's default, and characters where words are no safe unit
SHORT = 26  # pieces, in both languages
SENTENCES = {  # neither stands in the corpus: `foreign` asserts it in the tests
    "in the domain": [
        "Click the button to insert a new table into the document.",
        "You can change the font size of the selected cells.",
        "Select the color of the line in the dialog.",
    ],
    "outside the domain": [
        "My grandmother baked bread every Sunday while the children played in the garden.",
        "The doctor says that the patient may go home tomorrow.",
    ],
}


def bleu(translations: list[str], references: list[str], target: str) -> float:
    return sacrebleu.corpus_bleu(translations, [references], tokenize=TOKENIZE[target]).score


def scored(translations: list[str], references: list[str], target: str) -> dict[str, float | str]:
    """BLEU and chrF with their signatures."""
    metrics = {"bleu": sacrebleu.BLEU(tokenize=TOKENIZE[target]), "chrf": sacrebleu.CHRF()}
    result: dict[str, float | str] = {}
    for name, metric in metrics.items():
        result[name] = round(metric.corpus_score(translations, [references]).score, 2)
        result[f"{name}_signature"] = str(metric.get_signature())
    return result


@torch.inference_mode()
def nll(model: Translator, sources: Ids, targets: Ids, size: int = 100) -> float:
    """Teacher-forced loss in nats per target token."""
    total = count = 0.0
    for first in range(0, len(sources), size):
        batch = tensors(sources, targets, list(range(first, min(first + size, len(sources)))))
        tokens = (batch["labels"] != -100).sum().item()
        total += model(**batch).loss.item() * tokens
        count += tokens
    return total / count


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of ``work()``."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return round(time.perf_counter() - wall, 2), round(time.process_time() - processor, 2)


def scores(
    model: Translator, tokenizer: PreTrainedTokenizerBase, sets: dict[str, list[Pair]], target: str
) -> dict[str, dict]:
    """All scores on the held-out sets; "test" is the strict one (see ``prepare``)."""
    result: dict[str, dict] = {}
    for name in ("test", "test-pages", "validation"):
        sources, references = [pair.source for pair in sets[name]], [pair.target for pair in sets[name]]
        ids = tokenizer(sources)["input_ids"], tokenizer(references)["input_ids"]
        result[name] = {
            "pairs": len(sources),
            "nll": round(nll(model, *ids), 4),
            "greedy": scored(translate(model, tokenizer, sources), references, target),
        }
        if name != "validation":
            result[name]["beam 4"] = scored(translate(model, tokenizer, sources, beams=4), references, target)
        if name == "test":
            result[name]["copy"] = scored(sources, references, target)
            words = Dictionary(sets["train"])
            result[name]["word by word"] = scored([words(source) for source in sources], references, target)
    few = [
        pair for pair in sets["test-pages"] if all(len(ids) <= SHORT + 1 for ids in tokenizer([*pair[:2]])["input_ids"])
    ]
    translations = translate(model, tokenizer, [pair.source for pair in few])
    result["test-short"] = {
        "pairs": len(few),
        "greedy": scored(translations, [pair.target for pair in few], target),
    }
    speed = [pair.source for pair in sets["test"][:300]]
    wall, processor = timed(lambda: translate(model, tokenizer, speed))
    result["speed"] = {"sentences": len(speed), "seconds": wall, "processor seconds": processor, "threads": 1}
    result["examples"] = {
        kind: dict(zip(texts, translate(model, tokenizer, texts), strict=True)) for kind, texts in SENTENCES.items()
    }
    return result
