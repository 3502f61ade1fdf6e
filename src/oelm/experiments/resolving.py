"""From a cell of a study to a complete config: on data that is there, or, for a plan, on data that is still to come."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from oelm.config.finetune import FinetuneRequest, TokenText
from oelm.config.labelled import LabelledData, LabelledSource
from oelm.config.manifest import TokenizerKind
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.model import GPT2_VOCABULARY
from oelm.config.pretrained import HuggingFaceModel
from oelm.config.request import TrainRequest, resolve_on
from oelm.config.run import DataConfig, ModelConfig, RunConfig
from oelm.config.settings import Settings, describe
from oelm.data.prepare import BusyFolderError, prepare
from oelm.data.request import PrepareRequest
from oelm.data.tokens import MANIFEST_FILE, read_manifest
from oelm.experiments.finetune import FinetuneData, finetune_config, finetune_parts, split_sizes
from oelm.experiments.matrix import Cell, Resolve
from oelm.experiments.planned_models import training_set
from oelm.experiments.study import Prepared
from oelm.experiments.study_file import StudyFile

NOT_YET = "not prepared yet"
"""Stands for the digest of data and models that a plan has not seen."""

_BYTES_VOCABULARY = 257
_BUSY_SECONDS = 2.0
S = TypeVar("S", bound=Settings)


def resolve_on_data(file: StudyFile, tokens: Path, console: Console) -> Resolve:
    """Prepare what is not there yet (waiting for another process that does the same); then resolve on it."""
    if file.study.finetune is not None:
        return _resolve_finetune_once(file)
    folders = {name: _prepared_folder(file, name, tokens, console) for name in file.study.data}
    seen = {name: _seen(folder) for name, folder in folders.items()}

    def resolve(cell: Cell, changes: Mapping[str, Any]) -> RunConfig:
        return resolve_on(_train_request(file, cell, changes), *seen[cell.data])

    return resolve


def _resolve_finetune_once(file: StudyFile) -> Resolve:
    """Runs that differ in learning rate, seed and length share model and data, which are large: read them once."""
    parts: dict[str, tuple[ModelConfig, Method, FinetuneData]] = {}

    def resolve(cell: Cell, changes: Mapping[str, Any]) -> RunConfig:
        request = _finetune_request(file, cell, changes)
        key = request.model_dump_json(exclude={"lr", "seed", "epochs"})
        if key not in parts:
            parts[key] = finetune_parts(request)
        return finetune_config(request, *parts[key])

    return resolve


def resolve_for_plan(file: StudyFile, tokens: Path) -> Resolve:
    """Resolve without preparing or fetching anything: what is not there is taken from what the file asks for."""
    if file.study.finetune is not None:
        return lambda cell, changes: _planned_finetune(_finetune_request(file, cell, changes))

    def resolve(cell: Cell, changes: Mapping[str, Any]) -> RunConfig:
        request = _corpus(file, cell.data)
        folder = Path(request.tokens) if isinstance(request, Prepared) else tokens / cell.data
        if isinstance(request, Prepared) or (folder / MANIFEST_FILE).is_file():
            vocabulary, data = _seen(folder)
        else:
            vocabulary = _vocabulary(request)
            data = DataConfig(folder=str(folder), name=cell.data, digest=NOT_YET)
        return resolve_on(_train_request(file, cell, changes), vocabulary, data)

    return resolve


def _prepared_folder(file: StudyFile, name: str, tokens: Path, console: Console) -> Path:
    request = _corpus(file, name)
    if isinstance(request, Prepared):
        return Path(request.tokens)
    said = False
    while True:
        try:
            prepare(request, tokens / name)
        except BusyFolderError:
            if not said:
                console.print(f"{tokens / name}: another process is preparing it; waiting", highlight=False)
            said = True
            time.sleep(_BUSY_SECONDS)
        else:
            return tokens / name


def _seen(folder: Path) -> tuple[int, DataConfig]:
    manifest = read_manifest(folder)
    data = DataConfig(folder=str(folder), name=manifest.name, digest=manifest.digest)
    return manifest.tokenizer.vocabulary, data


def _corpus(file: StudyFile, name: str) -> PrepareRequest | Prepared:
    values = file.study.data[name]
    if "tokens" in values:
        return _parsed(file, Prepared, values, ("data", name))
    return _parsed(file, PrepareRequest, {"name": name, **values}, ("data", name))


def _labelled(file: StudyFile, name: str) -> LabelledSource:
    adapter: TypeAdapter[LabelledSource] = TypeAdapter(LabelledSource)
    try:
        return adapter.validate_python({"name": name, **file.study.data[name]})
    except ValidationError as error:
        raise file.complaint(("data", name), describe(error)) from error


def _parsed(file: StudyFile, kind: type[S], values: Mapping[str, Any], place: tuple[str, ...]) -> S:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise file.complaint((*place, *error.errors()[0]["loc"]), describe(error)) from error


def _train_request(file: StudyFile, cell: Cell, changes: Mapping[str, Any]) -> TrainRequest:
    return _requested(file, TrainRequest, cell, {**cell.settings(file.study), **changes})


def _finetune_request(file: StudyFile, cell: Cell, changes: Mapping[str, Any]) -> FinetuneRequest:
    data = file.study.data[cell.data]
    source = TokenText(folder=data["tokens"]) if "tokens" in data else _labelled(file, cell.data)
    values = {**cell.settings(file.study), **changes, "source": source}
    return _requested(file, FinetuneRequest, cell, values)


def _requested(file: StudyFile, kind: type[S], cell: Cell, values: Mapping[str, Any]) -> S:
    """Parse the settings of a run; a wrong one is traced back to where the file sets it."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        setting = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else ""
        raise file.complaint(_place_of(file, cell, setting), describe(error)) from error


def _place_of(file: StudyFile, cell: Cell, setting: str) -> tuple[str | int, ...]:
    study = file.study
    if setting in cell.arm.settings:
        return ("arms", study.arms.index(cell.arm), "settings", setting)
    if setting in study.axes:
        return ("axes", setting)
    return ("train" if study.finetune is None else "finetune", setting)


def _vocabulary(request: PrepareRequest) -> int:
    match request.tokenizer:
        case TokenizerKind.GPT2:
            return GPT2_VOCABULARY
        case TokenizerKind.BYTES:
            return _BYTES_VOCABULARY
        case TokenizerKind.BPE:
            return request.vocabulary


def _planned_finetune(request: FinetuneRequest) -> RunConfig:
    """The config as far as it is known without data and model; of unknown data, one step an epoch is a stand-in."""
    model = HuggingFaceModel(
        source=request.model,
        revision=request.revision,
        digest=NOT_YET,
        attention=request.attention,
        train_biases=request.train_biases,
    )
    method = parse_method(request.method or "keep")
    if isinstance(request.source, TokenText):
        folder = Path(request.source.folder)
        seen = (folder / MANIFEST_FILE).is_file()
        data = _seen(folder)[1] if seen else DataConfig(folder=str(folder), name=folder.name, digest=NOT_YET)
        return finetune_config(request, model, method, data.model_copy(update={"window": request.max_length}))
    labels, count = training_set(request.source)
    per_step = request.batch_size * request.accumulate * request.processes
    trained_on, held_out = split_sizes(request, count) if count else (request.train_examples or per_step, 1)
    labelled = LabelledData(
        source=request.source,
        labels=labels,
        train_examples=trained_on,
        holdout_examples=request.holdout_examples or held_out,
        max_length=request.max_length,
        seed=request.data_seed,
        digest=NOT_YET,
    )
    return finetune_config(request, model, method, labelled)
