"""From a fine-tuning request to the complete config: the data is read and the model found before anything starts."""

from pathlib import Path

from oelm.base.errors import ConfigError
from oelm.config.finetune import FinetuneRequest, TokenText
from oelm.config.labelled import LabelledData, LabelledSource
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import GPTConfig
from oelm.config.pretrained import GPTFromRun, HuggingFaceModel
from oelm.config.request import TrainRequest, model_config
from oelm.config.run import DataConfig, ModelConfig, RunConfig
from oelm.config.settings import parse
from oelm.data.labelled import label_names, split_training
from oelm.data.tokenizer import load_tokenizer
from oelm.data.tokens import MANIFEST_FILE, TOKENIZER_FILE, read_manifest
from oelm.experiments.labelled_text import fixed_source, read_labelled, tokenizer_part
from oelm.experiments.subjects import trained_digest
from oelm.train.folder import RunFolder

FROM_SCRATCH = "gpt"
FinetuneData = LabelledData | DataConfig
_MOST_HELD_OUT = 2000
_HELD_OUT_WINDOWS = 64


def resolve_finetune(request: FinetuneRequest) -> RunConfig:
    """The complete config of a run whose data and model are there, or can be fetched."""
    return finetune_config(request, *finetune_parts(request))


def finetune_parts(request: FinetuneRequest) -> tuple[ModelConfig, Method, FinetuneData]:
    """Model, method and data: what has to be read to know it, whatever the learning rate, the seed and the length."""
    model, method = _model_and_method(request)
    if isinstance(request.source, TokenText):
        return model, method, _token_text(request, request.source, model)
    data = _data(request, request.source, model)
    _check_readable(model, request.max_length)
    return model, method, data


def finetune_config(request: FinetuneRequest, model: ModelConfig, method: Method, data: FinetuneData) -> RunConfig:
    """The complete config on this data.

    Validation: four times an epoch, on the hold-out. Checkpoints: with every validation. Method: `keep` for a
    pre-trained model, `oelm` from scratch, and the run's own for a GPT from a run.
    """
    per_step = request.batch_size * request.accumulate * request.processes
    examples, held_out = _sizes(request, data, per_step)
    steps = max(1, round(request.epochs * examples / per_step))
    validate_every = request.validate_every or max(1, min(steps, round(examples / per_step / 4)))
    values = {
        "model": model,
        "method": method,
        "data": data,
        "optim": {
            **{name: getattr(request, name) for name in ("lr", "weight_decay", "clip", "beta1", "beta2")},
            "warmup_steps": int(request.warmup_share * steps),
        },
        "train": {
            **{name: getattr(request, name) for name in ("batch_size", "accumulate", "processes", "precision")},
            "steps": steps,
            "validate_every": validate_every,
            "validation_sequences": held_out,
        },
        "machine": {
            **{
                name: getattr(request, name)
                for name in ("device", "log_every", "compile", "checkpoint_activations", "tensorboard")
            },
            "save_every": request.save_every or validate_every,
        },
        "seed": request.seed,
    }
    return parse(RunConfig, values, "settings")


def _sizes(request: FinetuneRequest, data: FinetuneData, per_step: int) -> tuple[int, int]:
    """Training examples of an epoch and held-out ones; of token text that is not there yet, one step is a stand-in."""
    if isinstance(data, LabelledData):
        return data.train_examples, data.holdout_examples
    held_out, manifest = request.holdout_examples or _HELD_OUT_WINDOWS, Path(data.folder) / MANIFEST_FILE
    if request.train_examples or not manifest.is_file():
        return request.train_examples or per_step, held_out
    return max(1, read_manifest(Path(data.folder)).train.tokens // request.max_length), held_out


def split_sizes(request: FinetuneRequest, count: int) -> tuple[int, int]:
    """How many of `count` training examples are trained on and held out: a tenth, at most 2,000, is held out."""
    held_out = request.holdout_examples or min(_MOST_HELD_OUT, max(1, (request.train_examples or count) // 10))
    return request.train_examples or count - held_out, held_out


def _model_and_method(request: FinetuneRequest) -> tuple[ModelConfig, Method]:
    folder = RunFolder(Path(request.model))
    if request.model == FROM_SCRATCH:
        return _gpt_from_scratch(request), parse_method(request.method or "oelm")
    if folder.config_file.is_file():
        return _gpt_from_run(request, folder)
    from oelm.surgery.model_folder import model_digest, model_folder

    pretrained = HuggingFaceModel(
        source=request.model,
        revision=request.revision,
        digest=model_digest(model_folder(request.model, request.revision)),
        attention=request.attention,
        train_biases=request.train_biases,
    )
    return pretrained, parse_method(request.method or "keep")


def _gpt_from_scratch(request: FinetuneRequest) -> GPTConfig:
    if request.tokenizer is None:
        raise ConfigError(
            "a GPT from scratch needs a tokenizer",
            "add --tokenizer FILE, such as the tokenizer.json of a folder that `oelm prepare` made",
        )
    size = TrainRequest(size=request.size, seq_len=request.max_length, dropout=request.dropout)
    return model_config(size, load_tokenizer(Path(request.tokenizer)).get_vocab_size())


def _gpt_from_run(request: FinetuneRequest, folder: RunFolder) -> tuple[GPTFromRun, Method]:
    if not folder.finished:
        raise ConfigError(f"{folder.path} holds an unfinished run", "finish it: oelm train --resume --out-dir ...")
    trained = folder.record()
    if request.method and parse_method(request.method) != trained.config.method:
        raise ConfigError(
            f"{folder.path} was trained as {trained.method}, and a trained model keeps its method",
            "leave --method out",
        )
    digest = trained_digest(folder, request.checkpoint)
    return GPTFromRun(folder=str(folder.path), checkpoint=request.checkpoint, digest=digest), trained.config.method


def _check_readable(model: ModelConfig, max_length: int) -> None:
    """Refuse what a transformers model cannot read, before the run begins."""
    if isinstance(model, HuggingFaceModel):
        from oelm.surgery.model_folder import model_folder
        from oelm.surgery.pretrained import check_classifier

        check_classifier(model_folder(model.source, model.revision), max_length)


def _token_text(request: FinetuneRequest, source: TokenText, model: ModelConfig) -> DataConfig:
    """Token files of the model's own tokenizer, in windows of `max_length`."""
    if not isinstance(model, HuggingFaceModel):
        raise ConfigError(
            f"{request.model} is not a transformers model, and only such a one is fine-tuned on token text",
            "from scratch: oelm train; from a run: oelm export RUN --out FOLDER, then --model FOLDER",
        )
    from oelm.surgery.causal import check_causal
    from oelm.surgery.model_folder import model_folder

    folder = Path(source.folder)
    manifest = read_manifest(folder)
    check_causal(model_folder(model.source, model.revision), folder / TOKENIZER_FILE, request.max_length)
    return DataConfig(folder=str(folder), name=manifest.name, digest=manifest.digest, window=request.max_length)


def _data(request: FinetuneRequest, given: LabelledSource, model: ModelConfig) -> LabelledData:
    source = fixed_source(given)
    labelled = read_labelled(source)
    own = request.tokenizer if isinstance(model, GPTConfig) else None
    tokenizer = tokenizer_part(own)
    count = len(labelled.train)
    trained_on, held_out = split_sizes(request, count)
    split_training(count, train_examples=request.train_examples, holdout_examples=held_out, seed=request.data_seed)
    return LabelledData(
        source=source,
        labels=label_names([labelled.train]),
        train_examples=trained_on,
        holdout_examples=held_out,
        max_length=request.max_length,
        seed=request.data_seed,
        tokenizer=own,
        tokenizer_digest=next(iter(tokenizer), None),
        digest=labelled.digest(*tokenizer),
    )
