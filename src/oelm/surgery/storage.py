"""Saving and loading a converted model: a plain Hugging Face folder, and `oelm.json` beside it.

Any `from_pretrained` loads the folder; `load` also freezes again, after checking the frozen tensors byte by byte.
"""

from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from oelm.base.errors import CheckpointError, FreezeError
from oelm.base.files import read_json, write_json
from oelm.config.method import Method
from oelm.config.settings import parse
from oelm.surgery.architectures import Attention
from oelm.surgery.conversion import Conversion, accept_weights, check_frozen, conversion_of, digests_of, freeze
from oelm.surgery.model_folder import copy_tokenizer
from oelm.surgery.operation import parse_operation
from oelm.surgery.sites import open_sites

SIDECAR = "oelm.json"


def save(model: PreTrainedModel, folder: Path | str, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
    """Write the model as any other, fused weights fused again, and what has been done to it as `oelm.json`.

    A tokenizer, if given, is written beside it.
    """
    conversion = conversion_of(model)
    check_frozen(model)
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    operation = conversion.operation
    write_json(
        Path(folder) / SIDECAR,
        {
            "method": operation.method.model_dump(mode="json"),
            "seed": conversion.seed,
            "attention": list(conversion.attention),
            "train_biases": conversion.train_biases,
            "frozen": digests_of(model, conversion.frozen),
        },
    )


def save_loaded(model: PreTrainedModel, folder: Path, origin: Path) -> None:
    """Save a converted model into which a checkpoint was loaded, with the tokenizer of the folder it came from."""
    accept_weights(model)
    save(model, folder)
    copy_tokenizer(origin, folder)


def load(folder: Path | str) -> PreTrainedModel:
    """Load a folder that `save` wrote, in its own dtype and class, and freeze what was frozen."""
    folder = Path(folder)
    conversion = _read(folder)
    architecture = getattr(transformers, str(read_json(folder / "config.json")["architectures"][0]))
    model: PreTrainedModel = architecture.from_pretrained(folder, dtype="auto")
    open_sites(model, conversion.attention)
    found = digests_of(model, conversion.frozen)
    if moved := sorted(name for name, digest in conversion.digests.items() if found[name] != digest):
        raise FreezeError(
            f"{folder}: the frozen tensor {moved[0]} is not the one that {SIDECAR} describes",
            "restore the folder as it was saved, or load it with from_pretrained and convert it anew",
        )
    freeze(model, conversion)
    return model


def _read(folder: Path) -> Conversion:
    path = folder / SIDECAR
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {SIDECAR}, so what was frozen is not known",
            "write it with oelm.save(model, folder); of a plain folder, load it with from_pretrained and freeze its "
            "Q and K as they are: oelm.convert(model, 'keep')",
        )
    values: dict[str, Any] = read_json(path)
    return Conversion(
        operation=parse_operation(parse(Method, values["method"], where=str(path))),
        seed=values["seed"],
        attention=tuple(Attention(kind) for kind in values["attention"]),
        train_biases=values["train_biases"],
        digests=values["frozen"],
    )
