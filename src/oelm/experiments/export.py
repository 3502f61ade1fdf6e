"""From a run folder to a folder that transformers loads."""

from pathlib import Path

from torch import nn

from oelm.base.errors import ConfigError
from oelm.base.files import writing_folder
from oelm.config.pretrained import HuggingFaceModel
from oelm.config.run import DataConfig, RunConfig
from oelm.experiments.subjects import checkpoint_folder, load_run
from oelm.train.checkpoint import load_weights
from oelm.train.engine import weight_dtype
from oelm.train.folder import RunFolder


def export_run(folder: Path | str, out: Path | str, checkpoint: str = "last") -> None:
    """Write a language model as `AutoModelForCausalLM`, a fine-tuned model as what it was, with its tokenizer."""
    from oelm.surgery.export import export, refuse_existing

    files, out = RunFolder(Path(folder)), Path(out)
    refuse_existing(out)
    config = files.config()
    if isinstance(config.model, HuggingFaceModel):
        _export_finetuned(config, config.model, checkpoint_folder(files, checkpoint), out)
    elif isinstance(config.data, DataConfig):
        export(load_run(folder, checkpoint)[0], files.tokenizer_file, out)
    else:
        raise ConfigError(
            f"{folder} is our GPT with a classification head, which transformers has no class for",
            "export the language model that it was made from",
        )


def _export_finetuned(config: RunConfig, pretrained: HuggingFaceModel, weights: Path, out: Path) -> None:
    from oelm.surgery.causal import converted_causal
    from oelm.surgery.comparators import merge, tuned
    from oelm.surgery.conversion import weight_table
    from oelm.surgery.pretrained import converted_classifier
    from oelm.surgery.storage import save_loaded

    if isinstance(config.data, DataConfig):
        model, origin = converted_causal(pretrained, config.method, config.seed)
    else:
        model, origin = converted_classifier(pretrained, config.data.labels, config.method, config.seed)
    tuned(model, weight_table(model), config.method.comparator, config.seed)
    nn.Module.to(model, weight_dtype(config.train.precision))
    load_weights(model, weights)
    merge(model)
    with writing_folder(out) as partial:
        save_loaded(model, partial, origin)
