"""`oelm probe`: one run on an in-context probe."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from oelm.cli.locations import RUNS
from oelm.cli.options import panel
from oelm.cli.running import run_and_report
from oelm.config.probe import Probe, ProbeKind
from oelm.config.request import ProbeRequest, resolve_probe
from oelm.config.settings import parse

_DEFAULT, _PROBE = ProbeRequest(), Probe.model_fields
_run, _asked, _model, _optim, _look = (panel(title) for title in ("Run", "Probe", "Model", "Optimiser", "Validation"))


def probe(
    kind: Annotated[ProbeKind, Argument(metavar="PROBE", help="retrieval, recall, copy or induction.")],
    method: Annotated[str, _run("See `oelm methods`.")] = _DEFAULT.method,
    out_dir: Annotated[Path | None, _run("The run's folder. \\[default: runs/probe/NAME-METHOD-seedN]")] = None,
    resume: Annotated[bool, _run("Continue from the last checkpoint if there is one.", "--resume")] = False,
    seed: Annotated[int, _run("Weights and sequences; equal seeds pair the arms.")] = _DEFAULT.seed,
    device: Annotated[str, _run("auto, cpu, cuda or cuda:N.")] = _DEFAULT.device,
    length: Annotated[int, _asked("Pairs, symbols to copy, or the length of induction's sequence.")] = 30,
    hops: Annotated[int, _asked("Of induction.")] = _PROBE["hops"].default,
    alphabet: Annotated[int, _asked("Different symbols.")] = _PROBE["alphabet"].default,
    noise: Annotated[float, _asked("Of recall: the share of noise.")] = _PROBE["noise"].default,
    style: Annotated[str, _model("gpt or llama.")] = _DEFAULT.style.value,
    layers: Annotated[int, _model("")] = _DEFAULT.layers,
    width: Annotated[int, _model("")] = _DEFAULT.width,
    heads: Annotated[int, _model("")] = _DEFAULT.heads,
    ffn_width: Annotated[int | None, _model("\\[default: as in `oelm train`]")] = None,
    dropout: Annotated[float, _model("")] = _DEFAULT.dropout,
    lr: Annotated[float, _optim("Peak learning rate.")] = _DEFAULT.lr,
    min_lr: Annotated[float, _optim("Where the cosine ends.")] = _DEFAULT.min_lr,
    warmup_steps: Annotated[int | None, _optim("\\[default: a twentieth of the steps, at most 2000]")] = None,
    weight_decay: Annotated[float, _optim("On matrices only.")] = _DEFAULT.weight_decay,
    clip: Annotated[float, _optim("Largest gradient norm.")] = _DEFAULT.clip,
    beta1: Annotated[float, _optim("")] = _DEFAULT.beta1,
    beta2: Annotated[float, _optim("")] = _DEFAULT.beta2,
    steps: Annotated[int, _optim("Updates.")] = _DEFAULT.steps,
    batch_size: Annotated[int, _optim("Sequences per micro-batch.")] = _DEFAULT.batch_size,
    accumulate: Annotated[int, _optim("Micro-batches per step.")] = _DEFAULT.accumulate,
    validate_every: Annotated[int | None, _look("Steps. \\[default: ten times a run]")] = None,
    validation_sequences: Annotated[int, _look("Size of the fixed set.")] = _DEFAULT.validation_sequences,
) -> None:
    """Train one model on an in-context probe with exact answers: retrieval, recall, copy or induction."""
    given = {name: value for name, value in locals().items() if name in ProbeRequest.model_fields}
    asked = {"probe": kind, "length": length, "hops": hops, "alphabet": alphabet, "noise": noise}
    wanted = parse(Probe, {**asked, "name": f"{kind.value}-{hops}" if hops > 1 else kind.value}, "oelm probe")
    config = resolve_probe(parse(ProbeRequest, given, "oelm probe"), wanted)
    folder = out_dir or RUNS / "probe" / f"{wanted.name}-{config.method.name}-seed{seed}"
    run_and_report(config, folder, resume=resume)
