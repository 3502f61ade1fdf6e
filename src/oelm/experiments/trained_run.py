"""The model that a run has trained: loaded, told apart by a digest, and exported for transformers."""

from pathlib import Path
from typing import Any

from torch import nn

from oelm.base.errors import CheckpointError, ConfigError
from oelm.base.files import read_json, writing_folder
from oelm.config.labelled_data import Answers, LabelledData
from oelm.config.model import GPTConfig, HuggingFaceModel
from oelm.config.run import DataConfig, RunConfig
from oelm.config.settings import fingerprint
from oelm.data.tokens import file_sha256
from oelm.model.gpt import GPT
from oelm.train.checkpoint import Checkpoints, load_weights
from oelm.train.engine import weight_dtype
from oelm.train.folder import RunFolder


def load_run(folder: Path | str, which: str = "last") -> tuple[GPT, RunFolder]:
    """The trained GPT of a run folder, from its `last` or its `best` checkpoint."""
    files = RunFolder(Path(folder))
    config, size = _language_model_config(files)
    model = GPT(size, config.method).to(weight_dtype(config.train.precision))
    load_weights(model, checkpoint_folder_of(files, which))
    _require_own_tokenizer(files)
    return model.eval(), files


def _require_own_tokenizer(files: RunFolder) -> None:
    """Refuse a tokenizer other than the one in the run's manifest; without either file there is nothing to check."""
    if not files.tokenizer_file.is_file() or not files.manifest_file.is_file():
        return
    try:
        expected = read_json(files.manifest_file)["data"]["tokenizer"]["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{files.manifest_file} is damaged: it does not name the run's tokenizer", "put it back from a copy"
        ) from error
    if file_sha256(files.tokenizer_file) != expected:
        raise CheckpointError(
            f"{files.tokenizer_file} is not the tokenizer that the run was trained with",
            "copy tokenizer.json from the data folder that it was trained on",
        )


def checkpoint_folder_of(files: RunFolder, which: str) -> Path:
    """The `last` or the `best` checkpoint of a run."""
    return Checkpoints(files.checkpoint_folder, files.config().fingerprint).chosen(which)


def trained_digest(files: RunFolder, which: str) -> str:
    """A digest of everything that makes up a trained GPT: settings, weights of that checkpoint, tokenizer."""
    config, _ = _language_model_config(files)
    weights = checkpoint_folder_of(files, which) / "model.safetensors"
    return fingerprint([config.fingerprint, file_sha256(weights), file_sha256(files.tokenizer_file)])


def _language_model_config(files: RunFolder) -> tuple[RunConfig, GPTConfig]:
    if not files.config_file.is_file():
        raise CheckpointError(
            f"{files.path} is not a run folder (no config.yaml)", "give the --out-dir of a training run"
        )
    config = files.config()
    if not isinstance(config.model, GPTConfig) or not isinstance(config.data, DataConfig):
        raise CheckpointError(f"{files.path} holds no language model", "give the folder of an `oelm train` run")
    return config, config.model


def export_run(folder: Path | str, out: Path | str, checkpoint: str = "last") -> None:
    """Write a language model as `AutoModelForCausalLM`, a fine-tuned model as what it was, with its tokenizer."""
    from oelm.exports.model_export import export, refuse_existing

    files, out = RunFolder(Path(folder)), Path(out)
    refuse_existing(out)
    config = files.config()
    if isinstance(config.model, HuggingFaceModel):
        _export_finetuned(config, config.model, checkpoint_folder_of(files, checkpoint), out)
    elif isinstance(config.data, DataConfig):
        export(load_run(folder, checkpoint)[0], files.tokenizer_file, out)
    else:
        raise ConfigError(
            f"{folder} is our GPT with a head for labels, which transformers has no class for",
            "export the language model that it was made from",
        )


def load_finetuned(config: RunConfig, pretrained: HuggingFaceModel, weights: Path) -> tuple[Any, Path]:
    """The fine-tuned PreTrainedModel of a run, comparators merged, and the folder that it was made from."""
    from oelm.surgery.causal_model import converted_causal
    from oelm.surgery.comparators import merge, tuned
    from oelm.surgery.conversion import weight_table
    from oelm.surgery.pretrained import converted_classifier
    from oelm.surgery.sequence_model import converted_sequence_model

    if isinstance(config.data, DataConfig):
        model, origin = converted_causal(pretrained, config.method, config.seed)
    elif isinstance(config.data, LabelledData) and config.data.answers is Answers.TEXTS:
        model, origin = converted_sequence_model(pretrained, config.method, config.seed)
    else:
        assert isinstance(config.data, LabelledData), "RunConfig lets a probe have our GPT only"
        model, origin = converted_classifier(pretrained, config.data.labels, config.method, config.seed)
    tuned(model, weight_table(model), config.method.comparator, config.seed)
    nn.Module.to(model, weight_dtype(config.train.precision))
    load_weights(model, weights)
    merge(model)
    return model, origin


def _export_finetuned(config: RunConfig, pretrained: HuggingFaceModel, weights: Path, out: Path) -> None:
    from oelm.surgery.storage import save_loaded

    model, origin = load_finetuned(config, pretrained, weights)
    with writing_folder(out) as partial:
        save_loaded(model, partial, origin)
