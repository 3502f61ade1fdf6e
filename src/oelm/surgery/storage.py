"""Saving and loading a converted model: a plain Hugging Face folder whose config says what was done.

Any `from_pretrained` loads the folder; `load` also freezes again, after checking the frozen tensors byte by byte.
Extras inside attention are in the folder too, and only `load` puts them back: transformers lists them as unexpected.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import transformers
from torch import nn
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.method.extras import rows_of
from oelm.surgery.adapters import adapted_base, refuse_lost_parts, save_adapter
from oelm.surgery.architectures import Architecture, set_architecture
from oelm.surgery.conversion import (
    accept_weights,
    changed_names,
    check_frozen,
    conversion_of,
    digests_of,
    freeze,
    read_marker,
    refuse_absent_weights,
)
from oelm.surgery.equipped import equip, read_extras
from oelm.surgery.model_folder import copy_tokenizer, model_folder
from oelm.surgery.pretrained import quiet_loading
from oelm.surgery.sites import open_sites

# What decides which folder is read, of all that `from_pretrained` takes.
_WHERE = ("revision", "token", "cache_dir", "local_files_only", "subfolder", "force_download", "trust_remote_code")


def save(model: nn.Module, folder: Path | str, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
    """Write the model as any other, fused weights fused again; its config says what has been done to it.

    Of a model under PEFT the adapter is written, such that it loads on the plain base too. A tokenizer, if given, is
    written beside it.
    """
    model = getattr(model, "_orig_mod", model)  # torch.compile's wrapper
    base = adapted_base(model)
    check_frozen(base or model)
    if base is not None:
        _refuse_lost_extras(base)
        save_adapter(model, base, Path(folder))
    else:
        assert isinstance(model, PreTrainedModel), "converted"
        if getattr(model, "_hf_peft_config_loaded", False):  # by add_adapter: transformers writes the adapter alone
            _refuse_lost_extras(model)
            refuse_lost_parts(model)
        accept_weights(model)  # under a calendar they may have moved
        model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def save_loaded(model: PreTrainedModel, folder: Path, origin: Path) -> None:
    """Save a converted model into which a checkpoint was loaded, with the tokenizer of the folder it came from."""
    accept_weights(model)
    save(model, folder)
    copy_tokenizer(origin, folder)


def load(source: Path | str, *, architecture: Architecture | None = None, **options: Any) -> PreTrainedModel:
    """Load a converted model, in its own dtype and class, and freeze what was frozen.

    `source` is a folder that `save`, `save_pretrained` or a trainer wrote, or a name on the Hub; `options` are those of
    `from_pretrained` (dtype, device_map, revision, quantization_config, ...). Frozen tensors that are not loaded in the
    type they were saved in cannot be compared.
    """
    source = str(source)
    _refuse_other_answers(source, options)
    where = {"trust_remote_code": False, **{name: options[name] for name in _WHERE if name in options}}
    config = AutoConfig.from_pretrained(source, **where)
    conversion = read_marker(config, where=f"{source}: config.json")
    if conversion is None:
        raise CheckpointError(
            f"{source} does not say what was frozen: its config has no key 'oelm'",
            "of a plain model, load it with from_pretrained and freeze its Q and K as they are: oelm.convert(model)",
        )
    extras = conversion.operation.method.extras
    with quiet_loading() if rows_of(extras) else nullcontext():  # it would complain of the extras
        model: PreTrainedModel = _class_of(source, config).from_pretrained(source, **_own_dtype(options), **options)
    refuse_absent_weights(model)
    if architecture is not None:
        set_architecture(model, architecture)
    sites = open_sites(model, conversion.attention)
    if rows_of(extras):
        equip(model, sites, extras, conversion.seed)
        read_extras(model, model_folder(source, options.get("revision")) / options.get("subfolder", ""))
    moved = changed_names(conversion.digests, digests_of(model, conversion.frozen))
    if conversion.is_for_good and moved:
        raise FreezeError(
            f"{source}: the frozen tensor {moved[0]} is not the one that its config describes",
            "restore the folder as it was saved, or load it with from_pretrained and convert it anew",
        )
    freeze(model, conversion)
    return model


def _own_dtype(options: dict[str, Any]) -> dict[str, Any]:
    """The dtype that the folder was saved in, unless another is asked for, by its new name or its old one."""
    return {} if options.keys() & {"dtype", "torch_dtype"} else {"dtype": "auto"}


def _refuse_other_answers(source: str, options: dict[str, Any]) -> None:
    if options.get("output_loading_info"):
        raise ConfigError("oelm.load gives the model alone", "leave output_loading_info out")
    if (Path(source) / "adapter_config.json").is_file() and not (Path(source) / "config.json").is_file():
        raise CheckpointError(
            f"{source} holds an adapter, not a model",
            "load or convert its base as before, then peft.PeftModel.from_pretrained(base, folder)",
        )


def _refuse_lost_extras(base: nn.Module) -> None:
    if rows_of(conversion_of(base).operation.method.extras):
        raise CheckpointError(
            "an adapter is saved without its base, and the extras inside this model's attention would be lost",
            "save the merged model, as peft.get_peft_model gave it: oelm.save(model.merge_and_unload(), folder)",
        )


def _class_of(source: str, config: transformers.PreTrainedConfig) -> Any:
    name = (config.architectures or ["nothing"])[0]
    if not hasattr(transformers, name):
        raise CheckpointError(
            f"{source} names the class {name}, which is not one of transformers'",
            "load it with its own from_pretrained, then oelm.convert(model)",
        )
    return getattr(transformers, name)
