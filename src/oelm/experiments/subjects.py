"""Builds what a config describes: the only place where models, surgery, tasks and data meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, assert_never

from torch import nn

from oelm.base.errors import DataError
from oelm.config.labelled_data import Answers, LabelledData
from oelm.config.model import GPTConfig, GPTFromRun, HuggingFaceModel
from oelm.config.probe import Probe
from oelm.config.record import FlopCounts, LayerGeometry
from oelm.config.run import DataConfig, RunConfig
from oelm.data.batches import TokenBatches, ValidationWindows, validated_tokens
from oelm.data.labelled_sets import Encoded, Reader, TextTokenizer, encode_sets, read_labelled
from oelm.data.tokenizer import load_tokenizer
from oelm.data.tokens import MANIFEST_FILE, TokenFolder
from oelm.data.verified import require_whole
from oelm.experiments.trained_run import load_run, trained_digest
from oelm.method.weights import Role, Weight
from oelm.model.classifier import GPTClassifier
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise, measure_geometry
from oelm.model.ledger import count_flops, weight_table
from oelm.tasks.classification import Classification
from oelm.tasks.labelled_batches import LabelledBatches
from oelm.tasks.language_modelling import LanguageModelling, SummedLoss, TokenLosses, own_loss, own_token_losses
from oelm.tasks.probing import Probing
from oelm.tasks.regression import Regression
from oelm.tasks.sequence_to_sequence import SequenceToSequence
from oelm.tasks.task import Task
from oelm.train.engine import weight_dtype
from oelm.train.flops import measure_flops


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model before the first step, and everything that a run needs to know about it."""

    model: nn.Module
    table: tuple[Weight, ...]
    task: Task
    geometry: tuple[LayerGeometry, ...]
    data: dict[str, Any]
    """What the run's manifest says of the data."""
    tokenizer: bytes | None
    """tokenizer.json, kept beside the run; None where the model's folder has it."""
    flops: Callable[[int], FlopCounts]
    """FLOPs of a run of so many tokens."""
    bytes_per_token: float | None = None
    evaluation_sets: Mapping[str, Encoded] = field(default_factory=dict)


def subject_of(config: RunConfig) -> Subject:
    """Build what the config describes, from its seed."""
    match config.data:
        case DataConfig() as data:
            if isinstance(config.model, HuggingFaceModel):
                return _pretrained_language_model(config, config.model, data)
            assert isinstance(config.model, GPTConfig), "RunConfig checks it"
            return _language_model(config, config.model, data)
        case LabelledData() as data:
            return _on_labelled_text(config, data)
        case Probe() as probe:
            assert isinstance(config.model, GPTConfig), "RunConfig checks it"
            return _probed(config, config.model, probe)
        case _:
            assert_never(config.data)


# --- language modelling ------------------------------------------------------------------------------------------


def _language_model(config: RunConfig, size: GPTConfig, data_config: DataConfig) -> Subject:
    data = open_tokens(data_config)
    train, valid = config.train, data.manifest.valid
    model = build_model(config)
    return Subject(
        model=model,
        table=weight_table(size, config.method),
        task=language_modelling(config, data),
        geometry=measure_geometry(model),
        data=data.manifest.model_dump(mode="json"),
        tokenizer=data.tokenizer_path.read_bytes(),
        flops=lambda tokens: count_flops(size, config.method, total_steps=train.steps, tokens=tokens),
        bytes_per_token=valid.text_bytes / valid.tokens,
    )


def _pretrained_language_model(config: RunConfig, pretrained: HuggingFaceModel, data_config: DataConfig) -> Subject:
    from oelm.surgery import converted_geometry
    from oelm.surgery.causal_model import converted_causal, next_token_loss, next_token_losses
    from oelm.surgery.comparators import tuned
    from oelm.surgery.conversion import weight_table as converted_table

    data = open_tokens(data_config)
    model, _ = converted_causal(pretrained, config.method, config.seed)
    measured = converted_geometry.measure_geometry(model)
    table = tuned(model, converted_table(model), config.method.comparator, config.seed)
    task = language_modelling(config, data, next_token_loss, next_token_losses)
    rates = measure_flops(
        model,
        task,
        config.method.plan,
        table,
        total_steps=config.train.steps,
        parts=config.train.sequences_per_step,  # a part of one window
    )
    valid = data.manifest.valid
    return Subject(
        model=model,
        table=table,
        task=task,
        geometry=measured,
        data=data.manifest.model_dump(mode="json"),
        tokenizer=data.tokenizer_path.read_bytes(),
        flops=rates.of,
        bytes_per_token=valid.text_bytes / valid.tokens,
    )


def language_modelling(
    config: RunConfig,
    data: TokenFolder,
    summed_loss: SummedLoss = own_loss,
    token_losses: TokenLosses = own_token_losses,
) -> LanguageModelling:
    """The task on token files: our GPT reads its context at once, a pre-trained model the data's window."""
    assert isinstance(config.data, DataConfig)
    context = config.model.context if isinstance(config.model, GPTConfig) else config.data.window
    assert context is not None, "RunConfig sees to it"
    train, valid = config.train, data.manifest.valid
    return LanguageModelling(
        TokenBatches(data.train, context=context, seed=config.seed),
        ValidationWindows(
            validated_tokens(data, train.validation_half),
            context=context,
            limit=train.validation_sequences,
            end_of_text=data.manifest.tokenizer.end_of_text,
        ),
        sequences_per_step=train.sequences_per_step,
        validation_batch=train.batch_size,
        bytes_per_token=valid.text_bytes / valid.tokens,
        summed_loss=summed_loss,
        token_losses=token_losses,
    )


def build_model(config: RunConfig) -> GPT:
    """The GPT of a config, in the dtype of its weights, initialised from its seed."""
    assert isinstance(config.model, GPTConfig)
    model = GPT(config.model, config.method).to(weight_dtype(config.train.precision))
    initialise(model, config.seed)
    return model


def open_tokens(config: DataConfig) -> TokenFolder:
    """The token files, refused if they are not those that the config was resolved with."""
    data = TokenFolder.open(Path(config.folder))
    if data.manifest.digest != config.digest:
        raise DataError(
            f"{config.folder} has changed since this run was configured",
            "prepare the same data again, or start a new run with another --out-dir",
        )
    return data


def with_found_data(config: RunConfig, folder: Path) -> RunConfig:
    """The config of a run in `folder` with its data where they are seen from here.

    A relative data folder is looked for where we are, then beside every folder above the run: a run goes on from any
    directory. Its digest says whether it is the right one.
    """
    data = config.data
    if not isinstance(data, DataConfig) or Path(data.folder).is_dir():
        return config
    above = (parent / data.folder for parent in folder.resolve().parents)
    found = next((place for place in above if (place / MANIFEST_FILE).is_file()), None)
    return (
        config if found is None else config.model_copy(update={"data": data.model_copy(update={"folder": str(found)})})
    )


def require_whole_data(config: RunConfig) -> None:
    """Refuse token files that do not match their manifest; labelled text is checked when it is read."""
    if isinstance(config.data, DataConfig):
        require_whole(open_tokens(config.data))


# --- probes ------------------------------------------------------------------------------------------------------


def _probed(config: RunConfig, size: GPTConfig, probe: Probe) -> Subject:
    model, train = build_model(config), config.train
    return Subject(
        model=model,
        table=weight_table(size, config.method),
        task=Probing(
            probe,
            sequences_per_step=train.sequences_per_step,
            validation_sequences=train.validation_sequences,
            validation_batch=train.batch_size,
            seed=config.seed,
        ),
        geometry=measure_geometry(model),
        data=probe.model_dump(mode="json"),
        tokenizer=None,
        flops=lambda tokens: count_flops(size, config.method, total_steps=train.steps, tokens=tokens),
    )


# --- labelled text -----------------------------------------------------------------------------------------------


def _on_labelled_text(config: RunConfig, data: LabelledData) -> Subject:
    built = _built(config, data)
    sets = encode_sets(data, read_labelled(data.source), built.reader)
    batches = LabelledBatches(
        sets.training,
        sets.validation,
        padding=built.reader.padding,
        examples_per_step=config.train.sequences_per_step,
        evaluation_batch=config.train.batch_size,
        seed=config.seed,
    )
    task = _labelled_task(data, batches, built.reader)
    rates = measure_flops(
        built.model,
        task,
        config.method.plan,
        built.table,
        total_steps=config.train.steps,
        parts=config.train.sequences_per_step,  # a part of one example: a whole batch may not fit into memory
    )
    return Subject(
        model=built.model,
        table=built.table,
        task=task,
        geometry=built.geometry,
        data=data.model_dump(mode="json"),
        tokenizer=built.tokenizer,
        flops=rates.of,
        evaluation_sets=sets.evaluation,
    )


def _labelled_task(data: LabelledData, batches: LabelledBatches, reader: Reader) -> Task:
    match data.answers:
        case Answers.CLASSES:
            return Classification(batches, classes=len(data.labels))
        case Answers.NUMBERS:
            return Regression(batches)
        case Answers.TEXTS:
            from oelm.surgery.pretrained import PretrainedReader
            from oelm.surgery.sequence_model import writing

            assert isinstance(reader, PretrainedReader), "RunConfig sees to it"
            assert data.max_target_length is not None
            return SequenceToSequence(batches, write=writing(data.max_target_length), read=reader.decode)


@dataclass(frozen=True, kw_only=True)
class _Built:
    model: nn.Module
    table: tuple[Weight, ...]
    geometry: tuple[LayerGeometry, ...]
    reader: Reader
    tokenizer: bytes | None = None


def _built(config: RunConfig, data: LabelledData) -> _Built:
    match config.model:
        case HuggingFaceModel() as pretrained:
            return _hugging_face(config, pretrained, data)
        case GPTFromRun() as run:
            gpt, files = load_run(run.folder, run.checkpoint)
            if trained_digest(files, run.checkpoint) != run.digest:
                raise DataError(
                    f"{run.folder} has changed since this run was configured", "start a new run with another --out-dir"
                )
            return _gpt(config, gpt, files.tokenizer_file, data)
        case GPTConfig():
            assert data.tokenizer is not None, "RunConfig checks it"
            return _gpt(config, build_model(config), Path(data.tokenizer), data)
        case _:
            assert_never(config.model)


def _hugging_face(config: RunConfig, pretrained: HuggingFaceModel, data: LabelledData) -> _Built:
    from oelm.surgery import converted_geometry
    from oelm.surgery.comparators import head_alone, tuned
    from oelm.surgery.conversion import weight_table as converted_table
    from oelm.surgery.pretrained import PretrainedReader, check_classifier, converted_classifier
    from oelm.surgery.sequence_model import check_sequence_model, converted_sequence_model

    if data.answers is Answers.TEXTS:
        model, folder = converted_sequence_model(pretrained, config.method, config.seed)
        check_sequence_model(folder, data.max_length)
    else:
        model, folder = converted_classifier(pretrained, data.labels, config.method, config.seed)
        check_classifier(folder, data.max_length)
    measured = converted_geometry.measure_geometry(model)
    table = tuned(model, converted_table(model), config.method.comparator, config.seed)
    return _Built(
        model=model,
        table=head_alone(model, table) if pretrained.head_only else table,
        geometry=measured,
        reader=PretrainedReader(folder),
    )


def _gpt(config: RunConfig, gpt: GPT, tokenizer_file: Path, data: LabelledData) -> _Built:
    model = GPTClassifier(gpt, data.outputs, config.seed)
    probed = isinstance(config.model, GPTFromRun) and config.model.head_only
    inner = [
        replace(weight, name=f"gpt.{weight.name}", fixed=probed and weight.stored)
        for weight in weight_table(gpt.config, gpt.method)
    ]
    head = [Weight(name=f"head.{n}", role=Role.OTHER, count=p.numel()) for n, p in model.head.named_parameters()]
    return _Built(
        model=model,
        table=(*inner, *head),
        geometry=measure_geometry(gpt),
        reader=TextTokenizer(load_tokenizer(tokenizer_file), gpt.config.context),
        tokenizer=tokenizer_file.read_bytes(),
    )
