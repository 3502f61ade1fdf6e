"""The commands that make the data and the runs of an experiment again.

For language models they are exact: the settings on the command line resolve to the very configs of the records.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oelm.config.labelled_data import Answers, GeneratedTask, HubTask, LabelledData
from oelm.config.methods import METHODS
from oelm.config.model import SIZES, GPTConfig, GPTFromRun, HuggingFaceModel, Style
from oelm.config.probe import Probe
from oelm.config.request import ProbeRequest, TrainRequest, resolve_on, resolve_probe
from oelm.config.run import DataConfig, OptimConfig, Precision, RunConfig
from oelm.config.yaml_file import plain_values
from oelm.report.arms import Arm


def commands_of(arms: Sequence[Arm]) -> tuple[str, ...]:
    """One line per arm, over its seeds; nothing for arms that were not run here."""
    return tuple(_over_seeds(arm) for arm in arms if arm.source == "measured")


def _over_seeds(arm: Arm) -> str:
    command = shlex.join(arguments_of(arm.config))
    if len(arm.seeds) == 1:
        return f"{command} --seed {arm.seeds[0]}"
    return f"for seed in {' '.join(map(str, arm.seeds))}; do {command} --seed $seed; done"


def token_folders(arms: Sequence[Arm]) -> list[tuple[str, str, str]]:
    """Folder, name and digest of each data set that is read as tokens."""
    data = (arm.config.data for arm in arms)
    return list(dict.fromkeys((each.folder, each.name, each.digest) for each in data if isinstance(each, DataConfig)))


def data_of(files: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The corpora of study files by name, as the files describe them."""
    studies = (plain_values(file, "study.yaml") for file in files)
    every = (study.get("data") for study in studies if isinstance(study, dict))
    return {
        name: source
        for data in every
        if isinstance(data, dict)
        for name, source in data.items()
        if isinstance(source, dict) and _is_described(source)
    }


def _is_described(data: Mapping[str, Any]) -> bool:
    """Whether what `prepare_command` reads of a corpus is of the kind that a study file has there."""
    source, valid = data.get("source"), data.get("valid") or {}
    if not isinstance(source, dict) or not isinstance(valid, dict):
        return False
    lists = (source.get("paths", []), valid.get("paths", []), data.get("tokenizer_files", []))
    return isinstance(source.get("kind", ""), str) and all(isinstance(each, list) for each in lists)


def prepare_command(data: Mapping[str, Any], folder: str, name: str) -> str | None:
    """The `oelm prepare` that makes a study's token files; None where the command cannot ask for exactly that."""
    source, valid = data["source"], data.get("valid") or {}
    if "count" in source or valid.get("kind", "files") != "files":
        return None
    inputs = {"files": source.get("paths", ()), "hub": (source.get("corpus"),)}.get(source.get("kind"), ("stories",))
    options = {
        "out": folder,
        "name": name,
        "tokenizer": data.get("tokenizer"),
        "vocab_size": data.get("vocabulary"),
        "tokenizer_file": tuple(data.get("tokenizer_files", ())),
        "valid": tuple(valid.get("paths", ())),
        "valid_share": data.get("holdout_share"),
        "valid_bytes": data.get("holdout_bytes"),
        "seed": data.get("seed", source.get("seed")),
        "max_documents": data.get("max_documents"),
        "max_bytes": data.get("max_bytes"),
        **{option: source.get(option) for option in ("separator", "text_field", "revision")},
        "story_bytes": source.get("text_bytes"),
    }
    return shlex.join(["oelm", "prepare", *map(str, inputs), *_flags(options)])


def arguments_of(config: RunConfig) -> list[str]:
    """The command of a run, without its seed."""
    start = ["oelm"]
    if config.train.processes > 1:
        start = ["torchrun", "--nproc-per-node", str(config.train.processes), "-m", "oelm"]
    if isinstance(config.data, DataConfig) and isinstance(config.model, HuggingFaceModel):
        return [*start, "finetune", "--task", "lm", "--data", config.data.folder, *_flags(_token_text_settings(config))]
    if isinstance(config.data, DataConfig):
        return [*start, "train", "--data", config.data.folder, *_flags(needed_settings(config))]
    if isinstance(config.data, Probe):
        return [
            *start,
            "probe",
            config.data.probe,
            *_flags({**_probe_settings(config.data), **needed_settings(config)}),
        ]
    return [*start, "finetune", *_flags(_finetune_settings(config, config.data))]


def _probe_settings(probe: Probe) -> dict[str, Any]:
    """What differs from the defaults, but for the length, which has none."""
    fields = {name: getattr(probe, name) for name in ("hops", "alphabet", "noise")}
    changed = {name: value for name, value in fields.items() if value != Probe.model_fields[name].default}
    return {"length": probe.length, **changed}


def needed_settings(config: RunConfig) -> dict[str, Any]:
    """The method, and the fields of `TrainRequest` without which the run would be another one."""
    assert isinstance(config.model, GPTConfig)
    assert isinstance(config.data, DataConfig | Probe)
    kept = _all_settings(config, config.model)
    # All but the method, whose name may be one that only the record's version knew.
    wanted = config.model_copy(update={"method": METHODS["baseline"]}).fingerprint
    for name in list(kept):
        fewer = {other: value for other, value in kept.items() if other != name}
        if _resolved(config, config.data, fewer).fingerprint == wanted:
            kept = fewer
    return {"method": config.method.name, **kept}


def _resolved(config: RunConfig, data: DataConfig | Probe, settings: dict[str, Any]) -> RunConfig:
    assert isinstance(config.model, GPTConfig)
    if isinstance(data, Probe):
        return resolve_probe(ProbeRequest(method="baseline", **settings, seed=config.seed), data)
    return resolve_on(TrainRequest(method="baseline", **settings, seed=config.seed), config.model.vocabulary, data)


def _all_settings(config: RunConfig, model: GPTConfig) -> dict[str, Any]:
    shape = (model.layers, model.width, model.heads)
    named = next((name for name, size in SIZES.items() if size == shape), None)
    named = None if isinstance(config.data, Probe) else named  # whose own defaults are layers, width and heads
    return {
        **({"size": named} if named else dict(zip(("layers", "width", "heads"), shape, strict=True))),
        "style": model.style,
        "ffn_width": model.ffn_width,
        "seq_len": model.context,
        "dropout": model.dropout,
        "lr": config.optim.lr,
        "min_lr": config.optim.min_lr_ratio * config.optim.lr,
        "warmup_steps": config.optim.warmup_steps,
        "weight_decay": config.optim.weight_decay,
        "clip": config.optim.clip,
        "beta1": config.optim.beta1,
        "beta2": config.optim.beta2,
        "schedule": config.optim.schedule,
        "decay": config.optim.decay,
        "steps": config.train.steps,
        "batch_size": config.train.batch_size,
        "accumulate": config.train.accumulate,
        "processes": config.train.processes,
        "precision": config.train.precision,
        "bad_steps": config.train.bad_steps,
        "validate_every": config.train.validate_every,
        "validation_sequences": config.train.validation_sequences,
        "validation_half": config.train.validation_half,
    }


def _finetune_settings(config: RunConfig, data: LabelledData) -> dict[str, Any]:
    """Steps and warm-up are given as epochs and a share there."""
    train = config.train
    return {
        **_model_settings(config),
        **_source_settings(data),
        "method": config.method.name,
        "train_examples": data.train_examples,
        "holdout_examples": data.holdout_examples or None,
        "validate_on": data.validate_on,
        "data_seed": data.seed,
        "max_length": data.max_length,
        "max_target_length": data.max_target_length,
        "epochs": f"{train.steps * train.sequences_per_step / data.train_examples:.6g}",
        "batch_size": train.batch_size,
        "accumulate": train.accumulate,
        "lr": config.optim.lr,
        "warmup_share": _share(config.optim.warmup_steps, train.steps),
        "weight_decay": config.optim.weight_decay,
        "clip": config.optim.clip,
        **_unusual(config.optim),
        "validate_every": train.validate_every,
        "precision": train.precision,
    }


def _token_text_settings(config: RunConfig) -> dict[str, Any]:
    """Of a pre-trained language model: so many windows, once."""
    assert isinstance(config.data, DataConfig)
    optim, train = config.optim, config.train
    return {
        "method": config.method.name,
        **_model_settings(config),
        "max_length": config.data.window,
        "train_examples": train.steps * train.sequences_per_step,
        "epochs": 1,
        "batch_size": train.batch_size,
        "accumulate": train.accumulate,
        "lr": optim.lr,
        "weight_decay": optim.weight_decay,
        "clip": optim.clip,
        **_unusual(optim),
        "warmup_share": optim.warmup_steps / train.steps,
        "validate_every": train.validate_every,
        "holdout_examples": train.validation_sequences,
    }


def _unusual(optim: OptimConfig) -> dict[str, Any]:
    """Schedule and decay where they are not the default."""
    names = ("schedule", "decay")
    return {name: getattr(optim, name) for name in names if name in optim.model_dump()}


def _model_settings(config: RunConfig) -> dict[str, Any]:
    match config.model:
        case HuggingFaceModel() as model:
            settings: dict[str, Any] = {"model": model.source, "revision": model.revision}
            chosen = {"attention": model.attention or (), "train_biases": model.train_biases}
            return {**settings, **chosen, "head_only": model.head_only}
        case GPTFromRun() as model:
            return {"model": model.folder, "checkpoint": model.checkpoint, "head_only": model.head_only}
        case GPTConfig() as model:
            shape = (model.layers, model.width, model.heads)
            named = next((name for name, size in SIZES.items() if size == shape), None)
            tokenizer = config.data.tokenizer if isinstance(config.data, LabelledData) else None
            style = None if model.style is Style.GPT else model.style.value
            return {"model": "gpt", "style": style, "size": named, "tokenizer": tokenizer, "dropout": model.dropout}


def _source_settings(data: LabelledData) -> dict[str, Any]:
    if isinstance(data.source, HubTask):
        return {"task": data.source.name, "language": data.source.variant}
    if isinstance(data.source, GeneratedTask):
        return {"task": data.source.name}
    header = data.source.train.header
    return {
        "task": None if data.answers is Answers.CLASSES else data.answers.task,
        "train": data.source.train.path,
        "evaluate": tuple(file.path for file in data.source.evaluate.values()),
        "text_column": data.source.columns.text,
        "pair_column": data.source.columns.pair,
        "label_column": data.source.columns.label,
        "columns": ",".join(header) if header else None,
    }


def _share(warmup: int, steps: int) -> str:
    """A share that `int(share * steps)` turns back into the warm-up, a round one if there is one."""
    shares = (f"{warmup / steps:.{digits}g}" for digits in range(1, 6))
    return next((share for share in shares if int(float(share) * steps) == warmup), f"{(warmup + 0.5) / steps:.6g}")


def _flags(settings: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Precision):
            flags += {Precision.BF16: ["--bf16"], Precision.FLOAT16: ["--fp16"]}.get(value, [])
        elif isinstance(value, tuple):
            flags += [part for each in value for part in (flag, str(each))]
        elif isinstance(value, bool):
            flags += [flag] if value else []
        elif value is not None and name != "processes":
            flags += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return flags
