"""oelm: transformers with frozen, head-wise orthogonal Query/Key projections.

    import oelm
    model = oelm.GPT(oelm.GPTConfig(...), oelm.parse_method("oelm"))
    oelm.initialise(model, seed=0)

Public names load on first use, so that importing oelm costs nothing and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from oelm.base.imports import after_import

__version__ = "0.1.0"

if TYPE_CHECKING:
    from oelm.config.method import Extras, FreezingPlan, KeySource, Method, Projection, Scale
    from oelm.config.methods import METHODS, parse_method
    from oelm.config.model import GPTConfig
    from oelm.config.record import Record
    from oelm.config.request import TrainRequest, resolve
    from oelm.config.run import RunConfig
    from oelm.data.prepare import prepare
    from oelm.data.prepare_request import PrepareRequest
    from oelm.data.sources import Stories
    from oelm.data.tokens import TokenFolder
    from oelm.evaluate.generation import Sampling, generate
    from oelm.experiments.assemble import run
    from oelm.experiments.trained_run import load_run
    from oelm.exports.model_export import export
    from oelm.method.freezing import frozen_names
    from oelm.method.projections import global_orthogonal, headwise_orthogonal
    from oelm.model.gpt import GPT
    from oelm.model.initialise import initialise, measure_geometry
    from oelm.model.ledger import count_flops, count_weights, weight_table
    from oelm.report.groups import report_runs
    from oelm.report.write_markdown import as_markdown
    from oelm.surgery.architectures import Architecture, Attention, Fused, Place
    from oelm.surgery.convert import convert
    from oelm.surgery.storage import load, save
    from oelm.surgery.trainer import FreezeCallback

_HOME = {
    "Extras": "config.method",
    "FreezingPlan": "config.method",
    "KeySource": "config.method",
    "Method": "config.method",
    "Projection": "config.method",
    "Scale": "config.method",
    "METHODS": "config.methods",
    "parse_method": "config.methods",
    "GPTConfig": "config.model",
    "Record": "config.record",
    "RunConfig": "config.run",
    "TokenFolder": "data.tokens",
    "Sampling": "evaluate.generation",
    "generate": "evaluate.generation",
    "convert": "surgery.convert",
    "load": "surgery.storage",
    "save": "surgery.storage",
    "export": "exports.model_export",
    "FreezeCallback": "surgery.trainer",
    "Architecture": "surgery.architectures",
    "Attention": "surgery.architectures",
    "Fused": "surgery.architectures",
    "Place": "surgery.architectures",
    "load_run": "experiments.trained_run",
    "frozen_names": "method.freezing",
    "global_orthogonal": "method.projections",
    "headwise_orthogonal": "method.projections",
    "GPT": "model.gpt",
    "initialise": "model.initialise",
    "measure_geometry": "model.initialise",
    "count_flops": "model.ledger",
    "count_weights": "model.ledger",
    "weight_table": "model.ledger",
    "PrepareRequest": "data.prepare_request",
    "Stories": "data.sources",
    "prepare": "data.prepare",
    "TrainRequest": "config.request",
    "resolve": "config.request",
    "run": "experiments.assemble",
    "report_runs": "report.groups",
    "as_markdown": "report.write_markdown",
}

__all__ = [  # noqa: RUF022 (by room, as above)
    "Extras",
    "FreezingPlan",
    "KeySource",
    "Method",
    "Projection",
    "Scale",
    "METHODS",
    "parse_method",
    "GPTConfig",
    "Record",
    "RunConfig",
    "TokenFolder",
    "Sampling",
    "generate",
    "convert",
    "load",
    "save",
    "export",
    "FreezeCallback",
    "Architecture",
    "Attention",
    "Fused",
    "Place",
    "load_run",
    "frozen_names",
    "global_orthogonal",
    "headwise_orthogonal",
    "GPT",
    "initialise",
    "measure_geometry",
    "count_flops",
    "count_weights",
    "weight_table",
    "PrepareRequest",
    "Stories",
    "prepare",
    "TrainRequest",
    "resolve",
    "run",
    "report_runs",
    "as_markdown",
]


def _know_exports() -> None:
    """Let transformers' auto classes load what `oelm export` wrote, without remote code: once they are asked to."""
    import_module("oelm.exports.auto_classes").know_exports()


after_import("transformers.models.auto.configuration_auto", _know_exports)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'oelm' has no attribute {name!r}")
    return getattr(import_module(f"oelm.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
