"""`oelm train`: one run."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from typer import Context

from oelm.base.console import Console
from oelm.base.errors import ConfigError
from oelm.cli.locations import RUNS, data_folder
from oelm.cli.options import given_parameters, panel, precision_of
from oelm.cli.running import run_and_report
from oelm.config.methods import from_original
from oelm.config.model import GPT2_VOCABULARY, GPTConfig
from oelm.config.request import TrainRequest, resolve
from oelm.config.run import RunConfig
from oelm.config.settings import parse
from oelm.config.yaml_file import read_yaml

_DEFAULT = TrainRequest()
_BESIDE_A_CONFIG = {"--config", "--out-dir", "--resume", "--num-workers"}
_run, _model, _optim, _look = panel("Run"), panel("Model"), panel("Optimiser"), panel("How often to look")


def train(
    context: Context,
    data: Annotated[str | None, _run("Folder made by `oelm prepare`.", "--data", "--dataset", "--data-path")] = None,
    method: Annotated[str | None, _run("See `oelm methods`. \\[default: oelm]")] = None,
    model_type: Annotated[
        str | None, _run("baseline, oelm_v2 or oelm_random: the original's model, and its defaults for all else.")
    ] = None,
    out_dir: Annotated[
        Path | None, _run("The run's folder. \\[default: runs/DATA/METHOD-seedN]", "--out-dir", "--output-dir")
    ] = None,
    resume: Annotated[bool, _run("Continue from the last checkpoint if there is one.", "--resume")] = False,
    config: Annotated[Path | None, _run("A resolved config.yaml instead of all other settings.")] = None,
    seed: Annotated[int, _run("Weights and batches; equal seeds pair the arms.")] = _DEFAULT.seed,
    device: Annotated[str, _run("auto, cpu, cuda, cuda:N or mps.")] = _DEFAULT.device,
    bf16: Annotated[bool, _run("bf16 mixed precision.", "--bf16")] = False,
    fp16: Annotated[bool, _run("float16 mixed precision with a loss scale.", "--fp16", "--use-amp")] = False,
    compile: Annotated[bool, _run("torch.compile the model.", "--compile")] = False,  # noqa: A002 (the flag's name)
    checkpoint_activations: Annotated[
        bool, _run("Less memory, a third slower: layers are computed again.", "--checkpoint-activations")
    ] = False,
    style: Annotated[
        str, _model("gpt: learned positions, LayerNorm, GELU. llama: rotary positions, RMSNorm, SwiGLU, no biases.")
    ] = _DEFAULT.style.value,
    size: Annotated[str, _model("tiny, small, medium-512 or large.")] = _DEFAULT.size,
    layers: Annotated[int | None, _model("", "--layers", "--num-layers")] = None,
    width: Annotated[int | None, _model("", "--width", "--d-model")] = None,
    heads: Annotated[int | None, _model("", "--heads", "--num-heads")] = None,
    ffn_width: Annotated[
        int | None, _model("\\[default: 4 D; llama 8/3 D to a multiple of 32]", "--ffn-width", "--d-ff")
    ] = None,
    vocabulary: Annotated[int | None, _model("At least the tokenizer's.", "--vocab-size")] = None,
    seq_len: Annotated[int, _model("Context length.")] = _DEFAULT.seq_len,
    dropout: Annotated[float, _model("")] = _DEFAULT.dropout,
    lr: Annotated[float, _optim("Peak learning rate.", "--lr", "--max-lr")] = _DEFAULT.lr,
    min_lr: Annotated[float, _optim("Where the schedule ends.")] = _DEFAULT.min_lr,
    schedule: Annotated[str, _optim("cosine or linear, after the warm-up.")] = _DEFAULT.schedule.value,
    warmup_steps: Annotated[int | None, _optim("\\[default: a twentieth of the steps, at most 2000]")] = None,
    weight_decay: Annotated[float, _optim("Of what --decay says.")] = _DEFAULT.weight_decay,
    decay: Annotated[str, _optim("matrices (no biases and norms) or all.")] = _DEFAULT.decay.value,
    clip: Annotated[float, _optim("Largest gradient norm.", "--clip", "--grad-clip")] = _DEFAULT.clip,
    beta1: Annotated[float, _optim("")] = _DEFAULT.beta1,
    beta2: Annotated[float, _optim("")] = _DEFAULT.beta2,
    bad_steps: Annotated[
        str, _optim("Loss or gradient not a number: stop, skip or roll-back; the last two also where the loss leaps.")
    ] = _DEFAULT.bad_steps.value,
    steps: Annotated[int, _optim("Updates.", "--steps", "--max-steps")] = _DEFAULT.steps,
    batch_size: Annotated[int, _optim("Sequences per micro-batch and process.")] = _DEFAULT.batch_size,
    accumulate: Annotated[int, _optim("Micro-batches per step.")] = _DEFAULT.accumulate,
    validate_every: Annotated[
        int | None, _look("Steps. \\[default: ten times a run]", "--validate-every", "--val-interval")
    ] = None,
    validation_sequences: Annotated[int, _look("Size of the fixed set.")] = _DEFAULT.validation_sequences,
    validation_half: Annotated[str | None, _look("first or second half of the validation documents only.")] = None,
    save_every: Annotated[
        int | None, _look("Steps. \\[default: as --validate-every]", "--save-every", "--save-interval")
    ] = None,
    log_every: Annotated[int, _look("Steps.", "--log-every", "--log-interval")] = _DEFAULT.log_every,
    tensorboard: Annotated[bool, _look("Write TensorBoard files.")] = _DEFAULT.tensorboard,
    # The original's; batches come from a memory map, without workers.
    num_workers: Annotated[int | None, _look("Ignored.", "--num-workers", hidden=True)] = None,
) -> None:
    """Train one model. Under torchrun every process takes part: torchrun --nproc-per-node 2 -m oelm train ..."""
    given = {name: value for name, value in locals().items() if name in TrainRequest.model_fields}
    config = config or _config_to_resume(data, out_dir, resume=resume)
    if config is not None:
        resolved = read_yaml(RunConfig, config)
        _refuse_settings_beside(config, given_parameters(context).values())
        run_and_report(resolved, out_dir or _folder_of(config), resume=resume)
        return
    if data is None:
        raise ConfigError("no data given", "add --data FOLDER (made by `oelm prepare`), or --config FILE")
    if method and model_type:
        raise ConfigError("both --method and --model-type given", "give one of them")
    given |= {"method": method or _DEFAULT.method, "precision": precision_of(bf16=bf16, fp16=fp16)}
    if model_type:
        given |= _as_original(model_type, steps, given_parameters(context))
    resolved = _resolve(given, data_folder(data))
    if model_type:
        _say_original(model_type, resolved)
    default_folder = RUNS / resolved.data.name / f"{resolved.method.name}-seed{resolved.seed}"
    run_and_report(resolved, out_dir or default_folder, resume=resume)


def _config_to_resume(data: str | None, out_dir: Path | None, *, resume: bool) -> Path | None:
    """`--resume --out-dir FOLDER` without data goes on with the config that the folder holds."""
    if not resume or data is not None or out_dir is None:
        return None
    own = out_dir / "config.yaml"
    return own if own.is_file() else None


def _as_original(model_type: str, steps: int, given: Collection[str]) -> dict[str, Any]:
    """The original's method and, where the command line says nothing, the defaults of its training script."""
    from oelm.config.original_study import script_settings

    settings = {name: value for name, value in script_settings(steps).items() if name not in given}
    return {"method": from_original(model_type).name, **settings}


def _say_original(model_type: str, config: RunConfig) -> None:
    """One line: what the original's name stands for here."""
    model, optim = config.model, config.optim
    assert isinstance(model, GPTConfig)
    other = "" if model.vocabulary == GPT2_VOCABULARY else f" (its own: {GPT2_VOCABULARY:,}, --tokenizer gpt2)"
    Console().print(
        f"--model_type {model_type}: {config.method.name} with the original's settings where you give none: "
        f"{model.layers} layers, width {model.width}, {model.heads} heads, context {model.context}, "
        f"dropout {model.dropout:g}, vocabulary {model.vocabulary:,}{other}, warm-up {optim.warmup_steps:,}, "
        f"weight decay {optim.weight_decay:g} on {optim.decay.value}, beta2 {optim.beta2:g}, "
        f"{config.train.precision.value}, seed {config.seed}",
        highlight=False,
        soft_wrap=True,
    )


def _refuse_settings_beside(config: Path, given: Collection[str]) -> None:
    others = [option for option in given if option not in _BESIDE_A_CONFIG]
    if others:
        raise ConfigError(
            f"{config} holds all settings, and {', '.join(others)} would be ignored",
            "leave the other settings out, or give them all, with --data, instead of the file",
        )


def _folder_of(config: Path) -> Path:
    """A config.yaml lies in its run's folder; another file does not say where its run goes."""
    if config.name != "config.yaml":
        raise ConfigError(f"{config} does not say where its run goes", "add --out-dir FOLDER")
    return config.parent


def _resolve(given: dict[str, Any], folder: Path) -> RunConfig:
    from oelm.base.runtime import world_from_environment
    from oelm.data.tokens import read_manifest

    request = parse(TrainRequest, {**given, "processes": world_from_environment()[2]}, "oelm train")
    return resolve(request, read_manifest(folder), str(folder))
