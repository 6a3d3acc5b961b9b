"""Keep a pruned model as a recipe: the name of its base, the heads that go, and the weights that were tuned since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from utils.models import EMBEDDED, Loaded, load
from utils.pruning.surgery import prune, removed

RECIPE = "recipe.json"
WEIGHTS = "tuned.safetensors"
FORMAT = 1
SILENT = ("dropout", "pdrop", "dtype", "token_id", "label", "output_", "name_or_path", "use_cache")
SILENT += ("architectures", "transformers_version", "problem_type")  # entries of a config that change no output
FIELDS = {"format": int, "base": str, "base_sha256": str, "removed": list, "tuned": int}


def save_pruned(model: nn.Module, folder: str | Path, base: str | Path, *, half: bool = False) -> Path:
    """Write what makes ``model`` out of ``base``; returns the folder.

    base: what ``load`` takes: an embedded name, a folder, or a name on the hub. ``recipe.json`` holds its name, the
    SHA-256 of its weights and the removed heads. Weights that are not the base's (tuned after pruning) go into
    ``tuned.safetensors``, with ``half`` as float16: half the bytes, three digits. The model may be whole.
    Raises ValueError when ``model`` cannot come from ``base`` (another class, config, or sharing of weights) or has
    weights too large for ``half``, and whatever ``load`` raises for a base not found.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    origin = load(base).model
    digest, heads = fingerprint(origin), removed(model)
    _same_architecture(model, origin, base)
    plain = prune(origin, heads).state_dict()
    tuned = _tuned(model.state_dict(), plain, base)
    if half:
        tuned = {name: _halved(name, each) for name, each in tuned.items()}
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).unlink(missing_ok=True)
    if tuned:
        save_file(tuned, folder / WEIGHTS)
    recipe = {
        "format": FORMAT,
        "base": str(base) if str(base) in EMBEDDED or not Path(base).is_dir() else str(Path(base).resolve()),
        "base_sha256": digest,
        "removed": [[head.kind, head.layer, head.head] for head in heads],
        "tuned": len(tuned),
    }
    (folder / RECIPE).write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    return folder


def load_pruned(folder: str | Path, *, base: str | Path | None = None) -> Loaded:
    """The pruned model of a recipe, in evaluation mode and float32, with its base's tokenizer.

    base: where the base is now, if it moved; it must hold the same weights.
    Raises FileNotFoundError without a recipe, ValueError for one that is damaged or whose base has other weights.
    """
    folder = Path(folder).expanduser()
    recipe = _read(folder)
    name = recipe["base"] if base is None else base
    origin, tokenizer = load(name)
    digest = fingerprint(origin)
    if digest != recipe["base_sha256"]:
        raise ValueError(
            f"{folder / RECIPE} was made from a base with weights of SHA-256 {recipe['base_sha256'][:12]}…, but "
            f'"{name}" has {digest[:12]}…: give the folder of the right base as base=, or save the recipe again'
        )
    try:
        model = prune(origin, [(layer, head, kind) for kind, layer, head in recipe["removed"]])
    except (TypeError, ValueError) as error:
        raise ValueError(f'{folder / RECIPE} is damaged: its heads do not fit "{name}" ({error})') from error
    if recipe["tuned"]:
        _put(model, _weights(folder, recipe["tuned"]), folder / WEIGHTS)
    return Loaded(model.eval(), tokenizer)


def fingerprint(model: nn.Module) -> str:
    """SHA-256 over names, shapes and values of all weights, in float32."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(_plain(tensor).numpy().tobytes())
    return digest.hexdigest()


def _plain(tensor: Tensor) -> Tensor:
    """On the CPU, in float32 if it holds fractions."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous()


def _same_architecture(model: nn.Module, origin: nn.Module, base: str | Path) -> None:
    if type(model) is not type(origin):
        raise ValueError(
            f'the model is a {type(model).__name__}, but the base "{base}" is a {type(origin).__name__}: '
            "name the base that the model was pruned from"
        )
    own, plain = (each.config.to_dict() for each in (model, origin))
    for name in sorted({**own, **plain}):
        if own.get(name) != plain.get(name) and not any(word in name for word in SILENT):
            raise ValueError(
                f'the model is not "{base}" without some heads: its config has {name} = {own.get(name)!r}, expected '
                f"{plain.get(name)!r}: name the base that the model was pruned from"
            )


def _halved(name: str, weight: Tensor) -> Tensor:
    half = weight.half() if weight.is_floating_point() else weight
    if not torch.equal(half.isfinite(), weight.isfinite()):
        raise ValueError(f"{name} has values that float16 cannot hold (beyond 65,504): save without half")
    return half


def _sharing(state: Mapping[str, Tensor]) -> list[list[str]]:
    """Names of weights that are one and the same tensor."""
    names: dict[tuple, list[str]] = {}
    for name, each in state.items():
        names.setdefault((each.data_ptr(), tuple(each.shape)), []).append(name)
    return sorted(each for (_, shape), each in names.items() if len(each) > 1 and 0 not in shape)


def _tuned(own: Mapping[str, Tensor], plain: Mapping[str, Tensor], base: str | Path) -> dict[str, Tensor]:
    """The weights that differ, each shared one once. Raises ValueError where names or shapes differ."""
    shapes = [{name: tuple(each.shape) for name, each in state.items()} for state in (own, plain)]
    other = [name for name in {**shapes[0], **shapes[1]} if shapes[0].get(name) != shapes[1].get(name)]
    if other:
        found, expected = (state.get(other[0], "not there") for state in shapes)
        raise ValueError(
            f'the model is not "{base}" without some heads: {other[0]} has the shape {found}, expected {expected}: '
            "name the base that the model was pruned from"
        )
    if _sharing(own) != _sharing(plain):
        raise ValueError(
            f'the model is not "{base}" without some heads: it shares the weights {_sharing(own)}, '
            f"expected {_sharing(plain)}; tie them as in the base, or save the whole model by yourself"
        )
    changed = {name: _plain(each) for name, each in own.items() if not torch.equal(_plain(each), _plain(plain[name]))}
    once: dict[tuple, str] = {}
    for name in changed:
        once.setdefault((own[name].data_ptr(), tuple(own[name].shape)), name)
    return {name: changed[name].clone() for name in once.values()}


def _read(folder: Path) -> dict:
    """The recipe in a folder, checked."""
    path = folder / RECIPE
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no recipe: {RECIPE} is missing; save_pruned(model, folder, base) writes it"
        )
    try:
        recipe = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # bytes that are no text are one too
        raise ValueError(f"{path} is damaged, it is no JSON ({error}): save the model again") from error
    wrong = "is no table" if not isinstance(recipe, dict) else _wrong_field(recipe)
    if wrong:
        raise ValueError(f"{path} is damaged: it {wrong}; save the model again")
    return recipe


def _wrong_field(recipe: dict) -> str:
    """What is wrong with a recipe, in words, or ""."""
    for name, kind in FIELDS.items():
        if not isinstance(recipe.get(name), kind):
            return f"needs {name!r} as {kind.__name__}, and has {recipe.get(name)!r}"
    if recipe["format"] != FORMAT:
        return f"has format {recipe['format']}, and this version reads {FORMAT}"
    if any(not isinstance(each, list) or len(each) != 3 for each in recipe["removed"]):
        return 'lists heads that are not ["kind", layer, head]'
    return ""


def _weights(folder: Path, count: int) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the recipe names {count} tuned weights")
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}): save the model again") from error
    if len(found) != count:
        raise ValueError(f"{path} holds {len(found)} weights, the recipe names {count}: save the model again")
    return found


@torch.no_grad()
def _put(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Copy weights into the model. Raises ValueError for one that does not fit."""
    own = model.state_dict()
    for name, each in weights.items():
        if name not in own or own[name].shape != each.shape:
            shape = tuple(own[name].shape) if name in own else "no such weight"
            raise ValueError(f"{path} does not fit the recipe: {name} {tuple(each.shape)}, the model has {shape}")
        own[name].copy_(each)
