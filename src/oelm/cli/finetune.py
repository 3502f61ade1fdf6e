"""`oelm finetune`: a pre-trained model, or our GPT, on labelled text."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import Context

from oelm.base.console import Console
from oelm.base.errors import ConfigError, DataError
from oelm.cli.locations import RUNS, TOKENS
from oelm.cli.options import Checkpoint, given_parameters, panel, precision_of
from oelm.cli.running import run_and_report
from oelm.config.labelled_data import Answers, GeneratedTask
from oelm.config.request import FinetuneRequest
from oelm.config.run import RunConfig
from oelm.config.settings import parse

_default = FinetuneRequest.default
_data, _model, _optim, _run = panel("Data"), panel("Model"), panel("Optimiser"), panel("Run")
_TABLE_OPTIONS = {"--train", "--evaluate", "--columns", "--text-column", "--pair-column", "--label-column"}
_SCRATCH_OPTIONS = {"--style", "--size", "--tokenizer", "--dropout"}
_LANGUAGE_MODELLING = "lm"
_ON_TABLES = {answers.task: answers for answers in (Answers.NUMBERS, Answers.TEXTS)}
_GENERATED = get_args(GeneratedTask.model_fields["name"].annotation)
_TRANSFORMERS_OPTIONS = {"--attention", "--train-biases", "--revision"}


def finetune(
    context: Context,
    model: Annotated[str, _model("Folder or Hub name of a transformers model, folder of an oelm run, or gpt.")],
    task: Annotated[
        str | None,
        _data(
            "sst2, mnli, xnli, ag-news, imdb, stsb or xsum (from the Hub); lm: the next token; regression or seq2seq: "
            "tables whose labels are numbers or texts; copy, reverse or sort: generated texts."
        ),
    ] = None,
    data: Annotated[str | None, _data("For lm: a text file, or token files made with the model's tokenizer.")] = None,
    language: Annotated[str | None, _data("XNLI's language.")] = None,
    train: Annotated[str | None, _data("A local table instead: TSV, CSV or JSONL, plain or gz, xz, zst.")] = None,
    evaluate: Annotated[list[str] | None, _data("Table(s) to evaluate on, once, after the last step.")] = None,
    text_column: Annotated[str, _data("Column of the text.")] = "text",
    pair_column: Annotated[str | None, _data("Column of the second text, for pairs.")] = None,
    label_column: Annotated[str, _data("Column of the label.")] = "label",
    columns: Annotated[str | None, _data("Names of all columns, with commas, of files without a header.")] = None,
    train_examples: Annotated[int | None, _data("Train on so many, chosen at random.")] = None,
    holdout_examples: Annotated[int | None, _data("Of train. \\[default: a tenth, at most 2000]")] = None,
    validate_on: Annotated[str | None, _data("An evaluation set that chooses the best checkpoint instead.")] = None,
    data_seed: Annotated[int, _data("Chooses them; the same for all arms.")] = _default("data_seed"),
    max_length: Annotated[int, _data("Longer texts are cut.")] = _default("max_length"),
    max_target_length: Annotated[int, _data("Of seq2seq's answers, written or given.")] = _default("max_target_length"),
    method: Annotated[str | None, _model("See `oelm methods`. \\[default: keep; gpt: oelm]")] = None,
    attention: Annotated[list[str] | None, _model("Of encoder, decoder, cross. \\[default: all]")] = None,
    train_biases: Annotated[bool, _model("Train Q/K biases.", "--train-biases")] = False,
    head_only: Annotated[bool, _model("A linear probe: train the new head only.", "--head-only")] = False,
    revision: Annotated[str | None, _model("Commit on the Hub.")] = None,
    checkpoint: Annotated[Checkpoint, _model("Of an oelm run.")] = Checkpoint.LAST,
    style: Annotated[str, _model("Of a GPT from scratch.")] = _default("style"),
    size: Annotated[str, _model("Of a GPT from scratch.")] = _default("size"),
    tokenizer: Annotated[str | None, _model("tokenizer.json for a GPT from scratch.")] = None,
    dropout: Annotated[float, _model("Of a GPT from scratch.")] = _default("dropout"),
    epochs: Annotated[float, _optim("")] = _default("epochs"),
    batch_size: Annotated[int, _optim("Examples per micro-batch and process.")] = _default("batch_size"),
    accumulate: Annotated[int, _optim("Micro-batches per step.")] = _default("accumulate"),
    lr: Annotated[float, _optim("Peak learning rate.", "--lr", "--max-lr")] = _default("lr"),
    warmup_share: Annotated[float, _optim("Of all steps.")] = _default("warmup_share"),
    schedule: Annotated[str, _optim("cosine or linear, after the warm-up.")] = _default("schedule").value,
    weight_decay: Annotated[float, _optim("Of what --decay says.")] = _default("weight_decay"),
    decay: Annotated[str, _optim("matrices (no biases and norms) or all.")] = _default("decay").value,
    clip: Annotated[float, _optim("Largest gradient norm.")] = _default("clip"),
    validate_every: Annotated[int | None, _run("Steps. \\[default: four times an epoch]")] = None,
    save_every: Annotated[int | None, _run("Steps. \\[default: as --validate-every]")] = None,
    log_every: Annotated[int, _run("Steps.")] = _default("log_every"),
    seed: Annotated[int, _run("Head, batches and drawn projections.")] = _default("seed"),
    out_dir: Annotated[Path | None, _run("The run's folder. \\[default: runs/TASK/MODEL/METHOD-seedN]")] = None,
    resume: Annotated[bool, _run("Continue from the last checkpoint if there is one.", "--resume")] = False,
    device: Annotated[str, _run("auto, cpu, cuda, cuda:N or mps.")] = _default("device"),
    bf16: Annotated[bool, _run("bf16 mixed precision.", "--bf16")] = False,
    fp16: Annotated[bool, _run("float16 mixed precision with a loss scale.", "--fp16", "--use-amp")] = False,
    compile: Annotated[bool, _run("torch.compile the model.", "--compile")] = False,  # noqa: A002 (the flag's name)
    checkpoint_activations: Annotated[
        bool, _run("Less memory, a third slower: layers are computed again.", "--checkpoint-activations")
    ] = False,
    tensorboard: Annotated[bool, _run("Write TensorBoard files.")] = _default("tensorboard"),
) -> None:
    """Fine-tune a model on labelled text: chosen on a hold-out of train, evaluated once."""
    given = {name: value for name, value in locals().items() if name in FinetuneRequest.model_fields}
    _refuse_contradictions(set(given_parameters(context).values()), model, task)
    source: dict[str, Any]
    if task == _LANGUAGE_MODELLING:
        source = {"kind": "tokens", "folder": str(_token_folder(data, model, revision, max_length))}
    elif task in _GENERATED:
        source = {"kind": "generated", "name": task}
    elif task is not None and task not in _ON_TABLES:
        source = {"kind": "hub", "name": task, "variant": language}
    else:
        source = _tables(train, evaluate or [], columns)
        source["columns"] = {"text": text_column, "pair": pair_column, "label": label_column}
        source["answers"] = _ON_TABLES.get(task or "", Answers.CLASSES)
    from oelm.base.runtime import world_from_environment
    from oelm.experiments.resolving import resolve_finetune

    given |= {"source": source, "precision": precision_of(bf16=bf16, fp16=fp16)}
    given["processes"] = world_from_environment()[2]
    config = resolve_finetune(parse(FinetuneRequest, given, "oelm finetune"))
    run_and_report(config, out_dir or _default_folder(config, model, language), resume=resume)


def _refuse_contradictions(given: set[str], model: str, task: str | None) -> None:
    """Options that would be ignored beside the others are refused."""
    checks = (
        (
            "--task" in given and task not in _ON_TABLES,
            _TABLE_OPTIONS,
            f"--task {task} brings its own tables",
            "give --task, or --train and --evaluate",
        ),
        (
            "--task" not in given,
            {"--language"},
            "--language belongs to --task xnli",
            "add --task xnli, or leave it out",
        ),
        (
            task != _LANGUAGE_MODELLING,
            {"--data"},
            "--data belongs to --task lm",
            "add --task lm, or give --train and --evaluate",
        ),
        (model != "gpt", _SCRATCH_OPTIONS, f"the model {model} has its own", "they belong to --model gpt"),
        (model == "gpt", _TRANSFORMERS_OPTIONS, "our GPT has none of that", "they belong to a transformers model"),
    )
    for applies, options, reason, fix in checks:
        if applies and given & options:
            raise ConfigError(f"{', '.join(sorted(given & options))} cannot be used here: {reason}", fix)


def _token_folder(data: str | None, model: str, revision: str | None, window: int) -> Path:
    """The token files themselves, or those made now, beside others, from text with the model's tokenizer.

    Under torchrun by one of the processes; the others wait. A model that cannot read them is refused before.
    """
    from oelm.data.prepare import TakenFolderError, prepare_in_turn
    from oelm.data.prepare_request import PrepareRequest
    from oelm.data.tokens import MANIFEST_FILE
    from oelm.experiments.resolving import require_language_model
    from oelm.surgery.model_folder import model_folder

    if data is None:
        raise ConfigError("no text given", "add --data FILE, or --data FOLDER made by `oelm prepare`")
    if (Path(data) / MANIFEST_FILE).is_file():
        return Path(data)
    require_language_model(model, revision, window)
    tokenizer = model_folder(model, revision) / "tokenizer.json"
    folder = TOKENS / f"{Path(data).name.split('.')[0]}-{Path(model).name}"
    source = {"kind": "files", "paths": [data]}
    request = parse(PrepareRequest, {"source": source, "tokenizer_files": (str(tokenizer),)}, "--data")
    try:
        prepare_in_turn(request, folder, partial(Console(stderr=True).print, highlight=False))
    except TakenFolderError as error:
        own = f"oelm prepare {shlex.quote(data)} --tokenizer-file {shlex.quote(str(tokenizer))} --out FOLDER"
        raise DataError(error.problem, f"delete it to prepare it anew, or {own}, then --data FOLDER") from error
    return folder


def _default_folder(config: RunConfig, model: str, language: str | None) -> Path:
    """runs/TASK[-LANGUAGE]/MODEL/METHOD-seedN; a model that is given as its config.json goes by its folder's name."""
    from oelm.surgery.model_folder import is_config_alone

    task = f"{config.data.name}-{language}" if language else config.data.name
    path = Path(model).absolute()
    named = path.parent if is_config_alone(model) else path
    return RUNS / task / named.name / f"{config.method.name}-seed{config.seed}"


def _tables(train: str | None, evaluate: list[str], columns: str | None) -> dict[str, Any]:
    if train is None or not evaluate:
        raise ConfigError("no data given", "add --task NAME, or --train FILE and --evaluate FILE")
    header = columns.split(",") if columns else None
    names = [Path(path).name.split(".")[0] for path in evaluate]
    if len(set(names)) < len(names):
        raise ConfigError("two evaluation files have one name", "give them different names")
    files = {name: {"path": path, "header": header} for name, path in zip(names, evaluate, strict=True)}
    # Its folder's name too: most training files are called train.
    name = "-".join(part for part in (Path(train).resolve().parent.name, Path(train).name.split(".")[0]) if part)
    return {"kind": "files", "name": name, "train": {"path": train, "header": header}, "evaluate": files}
