"""Records of runs that never ran, built from the real schema."""

import math
from pathlib import Path
from typing import Literal

from oelm.base.files import write_json
from oelm.config.method import Method, Projection, Scale
from oelm.config.methods import parse_method
from oelm.config.model import GPTConfig, Style
from oelm.config.record import (
    CurvePoint,
    Environment,
    Evaluation,
    FlopCounts,
    FreezeAudit,
    LayerGeometry,
    Record,
    Result,
    RoleCount,
    Timing,
    WeightCounts,
)
from oelm.config.run import DataConfig, MachineConfig, OptimConfig, RunConfig, TrainConfig
from oelm.config.study_role import StudyRole
from oelm.config.yaml_file import write_yaml

BASELINE_LOSSES = (2.50, 2.54, 2.47)


def make_config(
    method: str,
    seed: int,
    *,
    lr: float = 1e-3,
    steps: int = 400,
    digest: str = "aaaaaaaaaaaaaaaa",
    batch_size: int = 16,
    width: int = 128,
    heads: int = 2,
    dropout: float = 0.0,
    warmup: int = 20,
    style: Style = Style.GPT,
    data: str = "stories",
    half: Literal["first", "second"] | None = None,
    study: StudyRole | None = None,
) -> RunConfig:
    model = GPTConfig(
        layers=2,
        width=width,
        heads=heads,
        ffn_width=4 * width,
        context=128,
        vocabulary=1024,
        dropout=dropout,
        style=style,
    )
    return RunConfig(
        model=model,
        method=parse_method(method),
        data=DataConfig(folder=f"data/{data}", name=data, digest=digest),
        optim=OptimConfig(lr=lr, warmup_steps=warmup),
        train=TrainConfig(
            steps=steps, batch_size=batch_size, validate_every=100, validation_sequences=64, validation_half=half
        ),
        machine=MachineConfig(save_every=100),
        seed=seed,
        study=study,
    )


def make_record(
    config: RunConfig,
    loss: float,
    *,
    task: str = "language-modelling",
    unchanged: bool = True,
    later: int = 0,
    torch: str = "2.13.0",
    step_seconds: float = 0.030,
    bytes_per_token: float | None = 3.2,
    answer_entropy: float | None = None,
) -> Record:
    frozen = 65_536 if config.method.plan else 0
    curve = _curve(config.train, loss)
    best = min(curve, key=lambda point: point.loss)
    return Record(
        task=task,
        fingerprint=config.fingerprint,
        config=config,
        result=Result(loss=loss, measures=_measures(loss, bytes_per_token), best_step=best.step, best_loss=best.loss),
        curve=curve,
        counts=_counts(config.model.width * 9_046, frozen, later),
        flops=FlopCounts(
            forward_per_token=2e6,
            backward_per_token=3.7e6 if frozen else 4e6,
            baseline_per_token=6e6,
            run=4.8e12,
        ),
        geometry=(_geometry(config.method, config.model.width),),
        timing=_timing(step_seconds),
        audit=_audit(unchanged, looked_at=frozen > later),
        bytes_per_token=bytes_per_token,
        answer_entropy=answer_entropy,
        environment=Environment(
            oelm="0.1.0", python="3.12", torch=torch, device="cpu", threads=1, git_commit=None, git_dirty=None
        ),
        sessions=1,
    )


def make_arm(
    method: str, losses: tuple[float, ...] | dict[int, float], **settings: float | str | StudyRole | None
) -> list[Record]:
    """One record per loss; a tuple has the seeds 0, 1, 2, ..."""
    by_seed = losses if isinstance(losses, dict) else dict(enumerate(losses))
    return [make_record(make_config(method, seed, **settings), loss) for seed, loss in by_seed.items()]  # type: ignore[arg-type]


EXAMPLES = 1000


def finetuned(
    method: str,
    accuracies: tuple[float, ...],
    lr: float = 1e-4,
    examples: int = EXAMPLES,
    study: StudyRole | None = None,
) -> list[Record]:
    """One run per accuracy, with seeds 0, 1, ...; the best checkpoint is half a point better."""
    return [
        make_record(make_config(method, seed, lr=lr, study=study), 0.5 + seed / 1000).model_copy(
            update={
                "task": "classification",
                "evaluations": (
                    _evaluation(accuracy, "last", 400, examples),
                    _evaluation(accuracy + 0.005, "best", 300, examples),
                ),
            }
        )
        for seed, accuracy in enumerate(accuracies)
    ]


def _evaluation(accuracy: float, checkpoint: Literal["last", "best"], step: int, examples: int) -> Evaluation:
    """The first examples are right, the rest wrong: arms agree on what is easy."""
    labels = [index % 2 for index in range(examples)]
    right = round(accuracy * examples)
    predictions = [label if index < right else 1 - label for index, label in enumerate(labels)]
    return Evaluation(
        name="dev",
        checkpoint=checkpoint,
        step=step,
        measures={"accuracy": right / examples, "f1": accuracy, "loss": 0.4},
        predictions=" ".join(map(str, predictions)),
        labels=" ".join(map(str, labels)),
    )


def shifted(by: tuple[float, ...], losses: tuple[float, ...] = BASELINE_LOSSES) -> tuple[float, ...]:
    return tuple(loss + difference for loss, difference in zip(losses, by, strict=True))


def write_run(folder: Path, record: Record) -> Path:
    folder.mkdir(parents=True)
    write_yaml(record.config, folder / "config.yaml")
    write_json(folder / "record.json", record.model_dump(mode="json"))
    return folder


def _measures(loss: float, bytes_per_token: float | None) -> dict[str, float]:
    measures = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    return measures | ({"bits_per_byte": loss / math.log(2) / bytes_per_token} if bytes_per_token else {})


def _counts(stored: int, frozen: int, later: int) -> WeightCounts:
    trained = stored - frozen
    role = RoleCount(role="all", trained=trained, frozen=frozen, absent=0)
    return WeightCounts(trained=trained, frozen=frozen, absent=0, later=later, roles=(role,))


def _geometry(method: Method, width: int) -> LayerGeometry:
    as_small_normal = method.query is Projection.NORMAL and method.scale is Scale.AS_ORIGINAL
    return LayerGeometry(
        layer=0,
        query_gram_error=0.0,
        key_gram_error=0.0,
        cross_head_overlap=0.1,
        row_norm=0.02 * width**0.5 if as_small_normal else 1.0,
        logit_std=1.0,
    )


def _timing(step_seconds: float) -> Timing:
    return Timing(
        measured_steps=390,
        mean_step_seconds=step_seconds,
        median_step_seconds=step_seconds,
        tokens_per_second=60_000.0,
        training_seconds=12.0,
        validation_seconds=1.0,
        wall_seconds=14.0,
        peak_bytes=300_000_000,
    )


def _curve(train: TrainConfig, loss: float) -> tuple[CurvePoint, ...]:
    """The last validation but one is the best on purpose: a report that took it would show."""
    steps = [*range(train.validate_every, train.steps, train.validate_every), train.steps]
    above = {step: 1 - step / train.steps for step in steps} | ({steps[-2]: -0.3} if len(steps) > 1 else {})
    return tuple(
        CurvePoint(
            step=step,
            tokens=2000 * step,
            seconds=0.03 * step,
            loss=loss + above[step],
            train_loss=loss + above[step] + 0.1,
        )
        for step in steps
    )


def _audit(unchanged: bool, *, looked_at: bool) -> FreezeAudit:
    return FreezeAudit(
        always_frozen=("layers.0.attention.q.weight",) if looked_at else (),
        later_trained=(),
        trained=("layers.0.attention.v.weight",),
        digest_before="a",
        digest_after="a" if unchanged else "b",
        unchanged=unchanged,
        moved=True,
    )
