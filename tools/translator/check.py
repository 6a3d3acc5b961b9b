"""Is training reproducible? The first 200 losses once more, and a run that is killed ten times.

python -m tools.translator.check --target de --stored data/translator --work _build/translator

Both use the real model and corpus; about five minutes. The losses are those of two runs, and those stored
beside the model (exact with the same torch on the same kind of machine, elsewhere rounding may differ). The killed run
gets SIGKILL at random moments and must end with the losses and weights of one that was left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from tools.translator import corpus
from tools.translator.train import Recipe, Run
from utils.translator import TranslatorConfig

STEPS, KILLS, PAIRS = 300, 10, 3000  # of the run that is killed


def fingerprint(run: Run) -> str:
    """SHA-256 over the losses and all weights."""
    digest = hashlib.sha256(json.dumps(run.losses).encode())
    for weight in run.average.state_dict().values():
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


def first_losses(config: TranslatorConfig, recipe: Recipe, folder: Path, ids: tuple[list, list]) -> list[float]:
    """The first 200 losses of a fresh run."""
    (folder / "checkpoint.pt").unlink(missing_ok=True)
    run = Run(config, recipe, folder)
    for _ in zip(range(200), run.train(*ids), strict=False):
        pass
    return run.losses[:200]


def short_run(folder: Path, ids: tuple[list, list], vocabulary: int) -> Run:
    recipe = replace(Recipe(), steps=STEPS, checkpoint_every=5)
    return Run(TranslatorConfig(vocab_size=vocabulary), recipe, folder)


def worker(folder: Path) -> None:
    """One life of the run that is killed: start or go on, to the end."""
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    saved = torch.load(folder / "ids.pt", weights_only=True)
    run = short_run(folder, saved["ids"], saved["vocabulary"])
    for _ in run.train(*saved["ids"]):
        pass
    (folder / "done.txt").write_text(fingerprint(run))


def killed(folder: Path, seed: int = 0) -> list[int]:
    """Start ``worker`` and kill it, ten times; then let it end. Returns the step that each kill left behind.

    Each life ends at a random moment between its start and twice the time that the first one needed for a checkpoint:
    while it loads, before its first checkpoint, or after some of them.
    """
    rng, left = random.Random(seed), []
    command = [sys.executable, "-m", "tools.translator.check", "--worker", str(folder)]
    known, longest = folder / "checkpoint.pt", None
    while len(left) < KILLS:
        began, process = time.monotonic(), subprocess.Popen(command)
        if longest is None:
            while not known.exists() and process.poll() is None:
                time.sleep(0.02)
            longest = 2 * (time.monotonic() - began)
        else:
            time.sleep(rng.uniform(0, longest))
        if process.poll() is not None:
            raise RuntimeError(f"the run ended after {len(left)} kills: raise STEPS")
        process.send_signal(signal.SIGKILL)
        process.wait()
        left.append(torch.load(known, weights_only=True)["step"] if known.exists() else 0)
    subprocess.run(command, check=True)
    return left


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.translator.check", description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="de")
    parser.add_argument("--stored", type=Path, help="folder of the model whose curve.json is compared")
    parser.add_argument("--work", type=Path, default=Path("_build/translator"))
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker)

    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    data = corpus.prepared(options.target, options.work, options.packages)
    ids, vocabulary = data.ids("train"), len(data.tokenizer)
    result: dict[str, object] = {"torch": torch.__version__}
    if options.stored:
        stored = json.loads((options.stored / "curve.json").read_text(encoding="utf-8"))
        config = TranslatorConfig.from_pretrained(options.stored)
        recipe = Recipe(**{name: stored["recipe"][name] for name in vars(Recipe())})
        runs = [first_losses(config, recipe, options.work / "check" / name, ids) for name in ("first", "second")]
        result["first losses compared"] = len(runs[0])
        result["equal in two runs of one seed"] = runs[0] == runs[1]
        result["equal to the losses stored beside the model"] = runs[0] == stored["first losses"]

    few = ids[0][:PAIRS], ids[1][:PAIRS]
    alone, folder = options.work / "check" / "alone", options.work / "check" / "killed"
    for place in (alone, folder):
        place.mkdir(parents=True, exist_ok=True)
        for file in place.iterdir():
            file.unlink()
    whole = short_run(alone, few, vocabulary)
    for _ in whole.train(*few):
        pass
    torch.save({"ids": few, "vocabulary": vocabulary}, folder / "ids.pt")
    result["killed with SIGKILL, checkpoint left at step"] = killed(folder)
    result["same losses and weights as the run left alone"] = (folder / "done.txt").read_text() == fingerprint(whole)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
