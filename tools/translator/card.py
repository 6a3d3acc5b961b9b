"""The card of a translator, README.md beside its weights: every number comes from scores.json and curve.json."""

# ruff: noqa: E501 (a text with numbers in it)
from __future__ import annotations

import json
from pathlib import Path

from utils.translator import TranslatorConfig

LANGUAGES = {"de": "German", "ko": "Korean"}
BARS = {"translator": ("bleu", 36.0), "translator-ko": ("chrf", 35.0)}  # what a model must reach to be shipped
SIZES = ("d_model", "ffn_dim", "decoder_layers")


def order(removed: dict[str, dict[str, float]], measure: str) -> list[str]:
    """Attention types from the one whose loss hurts most to the one whose loss hurts least."""
    kinds = [kind for kind in removed if kind != "nothing"]
    return sorted(kinds, key=lambda kind: removed[kind][measure], reverse=measure == "nll")


def judged(removed: dict[str, dict[str, float]]) -> str:
    """Whether taking out attention types hurts in the order of Michel et al. 2019: cross-attention most."""
    by_nll, by_bleu = order(removed, "nll"), order(removed, "bleu")
    said = f"By loss the order is {' > '.join(by_nll)}, by BLEU {' > '.join(by_bleu)} (most harmful first)."
    if by_nll[0] == by_bleu[0] == "cross":
        return said + " As in Michel et al. 2019, the model depends most on cross-attention."
    return said + " This is not the order of Michel et al. 2019, in which cross-attention matters most."


def table(scores: dict) -> str:
    rows = ["| set | pairs | what | BLEU | chrF |", "|---|---|---|---|---|"]
    names = {
        "test": "test, strict",
        "test-pages": "test, page-disjoint",
        "test-short": "of these at most 26 pieces",
        "validation": "validation, strict",
    }
    for name, label in names.items():
        for what in ("greedy", "beam 4", "word by word", "copy"):
            if (found := scores[name].get(what)) is not None:
                rows.append(
                    f"| {label} | {scores[name]['pairs']:,} | {what} | {found['bleu']:.1f} | {found['chrf']:.1f} |"
                )
    return "\n".join(rows)


def examples(scores: dict) -> str:
    return "\n\n".join(
        f"{kind[0].upper()}{kind[1:]}:\n\n" + "\n".join(f"- {source} → {text}" for source, text in pairs.items())
        for kind, pairs in scores["examples"].items()
    )


def positional(heads: dict) -> str:
    rows = ["| share of arg-max at −1 or at +1 | heads of 48, trained | heads of 48, random weights |", "|---|---|---|"]
    for bar, count in heads["heads at -1 or +1 in at least"].items():
        rows.append(f"| ≥ {bar} | {count['trained']} | {count['random weights']} |")
    return "\n".join(rows)


def removal(removed: dict) -> str:
    rows = ["| all heads taken out of | loss (nats a token) | BLEU |", "|---|---|---|"]
    rows += [f"| {kind} | {found['nll']:.2f} | {found['bleu']:.1f} |" for kind, found in removed.items()]
    return "\n".join(rows)


def command(target: str, recipe: dict, config: dict) -> str:
    """The command that trains such a model: what differs from the defaults is named."""
    shape = TranslatorConfig()
    sizes = [(f"--{name.replace('_', '-')}", config[name]) for name in SIZES if config[name] != getattr(shape, name)]
    options = [("--target", target), *sizes, ("--steps", recipe["steps"]), ("--dropout", f"{config['dropout']:g}")]
    options += [("--seed", recipe["seed"])] if recipe["seed"] != 1 else []
    return " ".join(["python -m tools.translator", *(f"{name} {value}" for name, value in options)])


def verdict(name: str, scores: dict) -> str:
    """Whether a model reaches the score it is shipped for; nothing for a model without such a bar."""
    if name not in BARS:
        return ""
    measure, bar = BARS[name]
    found = {
        "page-disjoint": scores["test-pages"]["greedy"][measure],
        "strict, without near-duplicates": scores["test"]["greedy"][measure],
    }
    said = ", ".join(
        f"{which} {value:.1f} ({'reached' if value >= bar else 'not reached'})" for which, value in found.items()
    )
    return f"Bar: {'BLEU' if measure == 'bleu' else 'chrF'} ≥ {bar:g}, greedy: {said}. "


def card(folder: Path, target: str) -> str:
    """The text of README.md for the model in ``folder``."""
    scores, curve, config = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("scores", "curve", "config")
    )
    recipe, heads, speed, greedy = curve["recipe"], scores["heads"], scores["speed"], scores["test"]["greedy"]
    size = (folder / "model.safetensors").stat().st_size / 1e6
    return f"""# {folder.name}: English to {LANGUAGES[target]}

A small translation Transformer to study attention in: {config["encoder_layers"]} encoder layers and
{config["decoder_layers"]} decoder layers of {config["heads"]} heads, width {config["d_model"]}, feed-forward width
{config["ffn_dim"]}, {config["vocab_size"]:,} subword pieces shared by both languages, {scores["parameters"]:,} parameters
({size:.1f} MB in half precision; float32 once loaded). Sinusoidal positions in both stacks and a learned relative bias
in the encoder (`utils/translator.py`). Load it with `utils.models.load("{folder.name}")`.

## Corpus

The help and the interface texts of LibreOffice 7.4.7 (Debian packages), MPL-2.0: `data/translation/README.md`.

## Recipe

`{command(target, recipe, config)}`: {recipe["done"]:,} steps ({recipe["epochs"]} full epochs) of {recipe["batch_tokens"]:,} tokens,
AdamW (β₂ 0.98), rate {recipe["rate"]:g} after {recipe["warmup"]} steps, flat for {recipe["flat"]:.0%} of the steps, then linearly down to {recipe["last_rate"]:.0%}; dropout {config["dropout"]:g},
gradient norm at most {recipe["clip"]:g}, running average of the weights ({recipe["average"]:g}), seed {recipe["seed"]}. One thread,
{recipe["minutes"]:.0f} minutes on a shared core, torch {recipe["torch"]}. `curve.json` has the curve and the first 200 losses;
how far a run repeats is told in `data/translation/README.md`, *Reproducibility*.

## Scores

{table(scores)}

{verdict(folder.name, scores)}Loss on the test set {scores["test"]["nll"]:.2f} nats a token.
{speed["sentences"]} test sentences are translated greedily in {speed["processor seconds"]:.1f} processor seconds on one thread.
Signatures: `{greedy["bleu_signature"]}`, `{greedy["chrf_signature"]}`.
"Word by word" replaces every word by its likeliest translation (IBM model 1 on the same training pairs); "copy" leaves English.

{examples(scores)}

## Heads

Encoder heads that look at a fixed neighbour ({heads["sentences"]} test sentences; largest share {heads["largest share"]["trained"]:.2f}, with random weights {heads["largest share"]["random weights"]:.2f}):

{positional(heads)}

{removal(heads["without all heads of"])}

{judged(heads["without all heads of"])}

## Limits

It knows the language of one program's help and nothing else: sentences from outside it, as above, come out wrong, often
fluently. Long sentences lose parts. Characters it never saw become `<unk>`. Names of menus are not checked against the
program. It was made to be looked into, not to translate.

## Licence

The weights are derived from MPL-2.0 texts and are under MPL-2.0 too (`data/translation/LICENSE-MPL-2.0.txt`).
"""


def write(folder: Path, target: str) -> None:
    (folder / "README.md").write_text(card(folder, target), encoding="utf-8")
