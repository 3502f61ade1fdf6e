"""From a request to the complete config: data and model are read, or, for a plan, taken as far as they are known."""

from functools import cache, lru_cache, partial
from pathlib import Path
from typing import assert_never

from rich.console import Console

from oelm.base.errors import ConfigError, DataError
from oelm.config.labelled_data import (
    Answers,
    Columns,
    GeneratedTask,
    HubTask,
    LabelledData,
    LabelledFile,
    LabelledSource,
    LocalTables,
)
from oelm.config.manifest import TokenizerKind
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import GPT2_VOCABULARY, GPTConfig, GPTFromRun, HuggingFaceModel
from oelm.config.probe import Probe
from oelm.config.request import (
    FinetuneRequest,
    TokenText,
    TrainRequest,
    finetune_on,
    model_config,
    resolve,
    resolve_on,
    resolve_probe,
)
from oelm.config.run import DataConfig, ModelConfig, RunConfig
from oelm.data.generated_examples import PLOT_NAMES, TEST_EXAMPLES, TRAIN_EXAMPLES
from oelm.data.labelled import label_names, read_table, split_training
from oelm.data.labelled_hub import LABELLED_SETS, known_set
from oelm.data.labelled_sets import answers_of, evaluation_names, fixed_source, read_labelled, tokenizer_part
from oelm.data.prepare import TakenFolderError, folder_of_its_own, prepare_in_turn
from oelm.data.prepare_request import PrepareRequest
from oelm.data.tokenizer import load_tokenizer
from oelm.data.tokens import MANIFEST_FILE, TOKENIZER_FILE, read_manifest
from oelm.experiments.matrix import Resolve
from oelm.experiments.shipped import shipped_file
from oelm.experiments.study import PreparedTokens, Study, StudyCell
from oelm.train.folder import RunFolder

FROM_SCRATCH = "gpt"
NOT_YET = "not prepared yet"
"""Stands for the digest of data and models that a plan has not seen."""

_DEFAULT_METHOD = "oelm"
_DEFAULT_PRETRAINED_METHOD = "keep"
_BYTES_VOCABULARY = 257
_UNKNOWN_CLASSES = ("0", "1")

_Parts = tuple[ModelConfig, Method, LabelledData | DataConfig, int | None]
"""Model, method and data; of token text also how many tokens there are."""


def resolve_on_data(study: Study, tokens: Path, console: Console) -> Resolve:
    """Prepare what is not there yet, waiting for another process that does the same; then resolve on it."""
    folders = _token_folders(study, tokens)
    for name, data in study.data.items():
        if isinstance(data, PrepareRequest):
            _prepare(data, folders[name], console)
    parts: dict[str, _Parts] = {}

    def resolve_cell(cell: StudyCell) -> RunConfig:
        request = cell.request
        if isinstance(request, FinetuneRequest):
            # Runs that differ in learning rate, seed and length share model and data, which are large: read them once.
            key = request.own_model + request.model_dump_json(exclude={"lr", "seed", "epochs"})
            if key not in parts:
                parts[key] = _finetune_parts(request)
            return finetune_on(request, *parts[key])
        if isinstance(data := study.data[cell.data], Probe):
            return resolve_probe(request, data)
        return resolve(request, read_manifest(folders[cell.data]), str(folders[cell.data]))

    return resolve_cell


def resolve_for_plan(study: Study, tokens: Path) -> Resolve:
    """Resolve without preparing or fetching anything: what is not there is taken from what the file asks for."""
    folders = _token_folders(study, tokens)
    manifest = cache(read_manifest)  # a thousand runs read the same few

    def resolve_cell(cell: StudyCell) -> RunConfig:
        request, data = cell.request, study.data[cell.data]
        if isinstance(request, FinetuneRequest):
            return _planned_finetune(request)
        if isinstance(data, Probe):
            return resolve_probe(request, data)
        folder = folders[cell.data]
        if isinstance(data, PrepareRequest) and not (folder / MANIFEST_FILE).is_file():
            planned = DataConfig(folder=str(folder), name=cell.data, digest=NOT_YET)
            return resolve_on(request, _vocabulary(data), planned)
        return resolve(request, manifest(folder), str(folder))

    return resolve_cell


def resolve_finetune(request: FinetuneRequest) -> RunConfig:
    """The complete config of a run whose data and model are there, or can be fetched."""
    return finetune_on(request, *_finetune_parts(request))


def _token_folders(study: Study, tokens: Path) -> dict[str, Path]:
    """By the name of the data: the token files that runs read. Labelled text and probes have none."""
    return {
        name: Path(data.tokens) if isinstance(data, PreparedTokens) else folder_of_its_own(data, tokens / name)
        for name, data in study.data.items()
        if isinstance(data, PreparedTokens | PrepareRequest)
    }


def _prepare(request: PrepareRequest, folder: Path, console: Console) -> None:
    try:
        prepare_in_turn(request, folder, partial(console.print, highlight=False))
    except TakenFolderError as error:
        raise DataError(error.problem, f"put the text back, or delete {folder} to prepare it anew") from error


def _vocabulary(request: PrepareRequest) -> int:
    match request.tokenizer:
        case TokenizerKind.GPT2:
            return GPT2_VOCABULARY
        case TokenizerKind.BYTES:
            return _BYTES_VOCABULARY
        case TokenizerKind.BPE:
            return request.vocabulary


# --- fine-tuning: model, method and data, which have to be read to be known ---------------------------------------


def _finetune_parts(request: FinetuneRequest) -> _Parts:
    request = _with_own_model(request)
    _require_validation_set(request)
    if isinstance(request.source, TokenText):
        require_language_model(request.model, request.revision, request.max_length)
        return *_model_and_method(request), *_token_text(request, request.source)
    model, method = _model_and_method(request)
    data, validated = _labelled_data(request, request.source, model)
    if isinstance(model, HuggingFaceModel):  # what it cannot read is refused before the run begins
        from oelm.surgery.model_folder import model_folder
        from oelm.surgery.pretrained import check_classifier
        from oelm.surgery.sequence_model import check_sequence_model

        check = check_sequence_model if data.answers is Answers.TEXTS else check_classifier
        check(model_folder(model.source, model.revision), request.max_length)
    return model, method, data, validated


def _require_validation_set(request: FinetuneRequest) -> None:
    if request.validate_on is None:
        return
    names = () if isinstance(request.source, TokenText) else evaluation_names(request.source)
    if request.validate_on not in names:
        fix = f"choose one of: {', '.join(names)}" if names else "token text has none; leave validate_on out"
        raise ConfigError(f"validate_on: there is no evaluation set {request.validate_on!r}", fix)
    if request.holdout_examples is not None:
        raise ConfigError("validate_on takes the place of the hold-out", "leave holdout_examples out")


def _with_own_model(request: FinetuneRequest) -> FinetuneRequest:
    return request.changed(model=shipped_file(request.own_model))


def _model_and_method(request: FinetuneRequest) -> tuple[ModelConfig, Method]:
    """Without a method: `oelm` from scratch, `keep` for a pre-trained model; a GPT from a run keeps its own."""
    folder = RunFolder(Path(request.model))
    if request.model == FROM_SCRATCH:
        return _gpt_from_scratch(request), parse_method(request.method or _DEFAULT_METHOD)
    if folder.config_file.is_file():
        return _gpt_from_run(request, folder)
    from oelm.surgery.model_folder import is_config_alone, model_digest, model_folder

    method, alone = parse_method(request.method or _DEFAULT_PRETRAINED_METHOD), is_config_alone(request.model)
    if alone and (isinstance(request.source, TokenText) or answers_of(request.source) is not Answers.TEXTS):
        raise _has_no_weights(request.model)
    digest = model_digest(model_folder(request.model, request.revision), config_alone=alone)
    return _pretrained(request, digest), method


def _has_no_weights(model: str) -> ConfigError:
    return ConfigError(
        f"{model} is a config without weights, from which only models that write texts are drawn",
        "give the folder of a whole model, or gpt for ours from scratch",
    )


def _pretrained(request: FinetuneRequest, digest: str) -> HuggingFaceModel:
    return HuggingFaceModel(
        source=request.model,
        revision=request.revision,
        digest=digest,
        attention=request.attention,
        train_biases=request.train_biases,
        head_only=request.head_only,
    )


def _gpt_from_scratch(request: FinetuneRequest) -> GPTConfig:
    if request.head_only:
        raise ConfigError("a GPT from scratch has learnt nothing that a head alone could use", "leave --head-only out")
    if request.tokenizer is None:
        raise ConfigError(
            "a GPT from scratch needs a tokenizer",
            "add --tokenizer FILE, such as the tokenizer.json of a folder that `oelm prepare` made",
        )
    size = TrainRequest(style=request.style, size=request.size, seq_len=request.max_length, dropout=request.dropout)
    return model_config(size, load_tokenizer(Path(request.tokenizer)).get_vocab_size())


def _gpt_from_run(request: FinetuneRequest, folder: RunFolder) -> tuple[GPTFromRun, Method]:
    from oelm.experiments.trained_run import trained_digest  # loads torch, which a plan of other models does not need

    if not folder.finished:
        raise ConfigError(f"{folder.path} holds an unfinished run", "finish it: oelm train --resume --out-dir ...")
    trained = folder.record()
    if request.method and parse_method(request.method) != trained.config.method:
        raise ConfigError(
            f"{folder.path} was trained as {trained.method}, and a trained model keeps its method",
            "leave --method out",
        )
    model = GPTFromRun(
        folder=str(folder.path),
        checkpoint=request.checkpoint,
        digest=trained_digest(folder, request.checkpoint),
        head_only=request.head_only,
    )
    return model, trained.config.method


def require_language_model(model: str, revision: str | None, window: int) -> None:
    """Refuse a model that cannot be fine-tuned on windows of token text; no text has to be there yet."""
    from oelm.surgery.causal_model import check_window
    from oelm.surgery.model_folder import is_config_alone, model_folder

    if model == FROM_SCRATCH or RunFolder(Path(model)).config_file.is_file():
        raise ConfigError(
            f"{model} is not a transformers model, and only such a one is fine-tuned on token text",
            "from scratch: oelm train; from a run: oelm export RUN --out FOLDER, then --model FOLDER",
        )
    check_window(model_folder(model, revision), window)
    if is_config_alone(model):
        raise _has_no_weights(model)


def _token_text(request: FinetuneRequest, source: TokenText) -> tuple[DataConfig, int]:
    """Token files of the model's own tokenizer, in windows of `max_length`."""
    from oelm.surgery.causal_model import check_own_tokens
    from oelm.surgery.model_folder import model_folder

    folder = Path(source.folder)
    manifest = read_manifest(folder)
    check_own_tokens(model_folder(request.model, request.revision), folder / TOKENIZER_FILE)
    data = DataConfig(folder=str(folder), name=manifest.name, digest=manifest.digest, window=request.max_length)
    return data, manifest.train.tokens


def _labelled_data(
    request: FinetuneRequest, given: LabelledSource, model: ModelConfig
) -> tuple[LabelledData, int | None]:
    """The data, and the size of the evaluation set that it is validated on."""
    source = fixed_source(given)
    labelled = read_labelled(source)
    own = request.tokenizer if isinstance(model, GPTConfig) else None
    tokenizer = tokenizer_part(own)
    count = len(labelled.train)
    trained_on, held_out = request.split_sizes(count)
    split_training(count, train_examples=request.train_examples, holdout_examples=held_out, seed=request.data_seed)
    answers = answers_of(source)
    data = LabelledData(
        source=source,
        answers=answers,
        labels=label_names([labelled.train]) if answers is Answers.CLASSES else (),
        max_target_length=request.max_target_length if answers is Answers.TEXTS else None,
        train_examples=trained_on,
        holdout_examples=held_out,
        validate_on=request.validate_on,
        max_length=request.max_length,
        seed=request.data_seed,
        tokenizer=own,
        tokenizer_digest=next(iter(tokenizer), None),
        digest=labelled.digest(*tokenizer),
    )
    return data, len(labelled.evaluate[request.validate_on]) if request.validate_on else None


def _planned_finetune(request: FinetuneRequest) -> RunConfig:
    """The config as far as it is known without data and model; of unknown data, one step an epoch is a stand-in."""
    request = _with_own_model(request)
    _require_validation_set(request)
    model, method = _pretrained(request, NOT_YET), parse_method(request.method or _DEFAULT_PRETRAINED_METHOD)
    if isinstance(request.source, TokenText):
        return finetune_on(request, model, method, *_planned_token_text(request, Path(request.source.folder)))
    labels, count = training_set(request.source)
    trained_on, held_out = (request.train_examples or request.examples_per_step, 0 if request.validate_on else 1)
    if count:
        trained_on, held_out = request.split_sizes(count)
    answers = answers_of(request.source)
    data = LabelledData(
        source=request.source,
        answers=answers,
        labels=labels,
        max_target_length=request.max_target_length if answers is Answers.TEXTS else None,
        train_examples=trained_on,
        holdout_examples=request.holdout_examples or held_out,
        validate_on=request.validate_on,
        max_length=request.max_length,
        seed=request.data_seed,
        digest=NOT_YET,
    )
    return finetune_on(request, model, method, data, _validated(request, request.source))


def _validated(request: FinetuneRequest, source: LabelledSource) -> int | None:
    """The size of the evaluation set to validate on, if it is here."""
    match source:
        case LocalTables(evaluate=files) if request.validate_on and Path(files[request.validate_on].path).is_file():
            return len(read_table(files[request.validate_on], source.columns))
        case GeneratedTask() if request.validate_on:
            return TEST_EXAMPLES
        case _:
            return None


def _planned_token_text(request: FinetuneRequest, folder: Path) -> tuple[DataConfig, int | None]:
    window = request.max_length
    if not (folder / MANIFEST_FILE).is_file():
        return DataConfig(folder=str(folder), name=folder.name, digest=NOT_YET, window=window), None
    manifest = read_manifest(folder)
    data = DataConfig(folder=str(folder), name=manifest.name, digest=manifest.digest, window=window)
    return data, manifest.train.tokens


def training_set(source: LabelledSource) -> tuple[tuple[str, ...], int | None]:
    """Classes and number of training examples: as published, or as read from a local file.

    Of a file that is not here the number is None, and the classes are those of the set whose name it bears, else two.
    """
    match source:
        case HubTask():
            known = known_set(source)
            return known.labels, known.train_examples
        case GeneratedTask(name=name):
            return PLOT_NAMES if name == "plots" else (), TRAIN_EXAMPLES
        case LocalTables(train=train) if Path(train.path).is_file():
            return _read_training_set(train, source.columns, source.answers)
        case LocalTables(answers=answers) if answers is not Answers.CLASSES:
            return (), None
        case LocalTables(name=name):
            return LABELLED_SETS[name].labels if name in LABELLED_SETS else _UNKNOWN_CLASSES, None
        case _:
            assert_never(source)


@lru_cache(maxsize=4)
def _read_training_set(train: LabelledFile, columns: Columns, answers: Answers) -> tuple[tuple[str, ...], int]:
    examples = read_table(train, columns)
    return label_names([examples]) if answers is Answers.CLASSES else (), len(examples)
