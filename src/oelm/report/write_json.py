"""The report as JSON for other programs: its data as they are, numbers in full precision, arms by their labels.

What a reader is told in sentences stands here as names and values. A field that a dataclass of the report gets is here
too.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from oelm.config.measure import Measure
from oelm.report.arms import Arm
from oelm.report.findings import Finding
from oelm.report.groups import Group, Report
from oelm.report.views import CostRow


def as_json(report: Report) -> str:
    """The whole report."""
    return json.dumps(_plain(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case Arm():
            return value.label
        case Measure():
            return value.name
        case Group():
            measures = dict.fromkeys(each.measure for each in value.comparisons)
            described = {"arms": [_arm(arm) for arm in value.arms], "measures": [_plain_fields(m) for m in measures]}
            return {**_plain_fields(value), **described}
        case Finding():
            means = {"mean": value.mean, "best_mean": value.best_mean, "measurably_worse": value.measurably_worse}
            rest = {name: each for name, each in _plain_fields(value).items() if name != "terms"}  # the comparison's
            return {**rest, **_plain(means), "verdict": value.verdict.value if value.control else None}
        case CostRow():
            return {**_plain_fields(value), "exceeds_bound": value.exceeds_bound}
        case BaseModel():
            return _plain_fields(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int():
            return value
    return _plain_fields(value) if is_dataclass(value) else str(value)


def _plain_fields(value: Any) -> dict[str, Any]:
    names = type(value).model_fields if isinstance(value, BaseModel) else [field.name for field in fields(value)]
    return {name: _plain(getattr(value, name)) for name in names}


def _arm(arm: Arm) -> dict[str, Any]:
    """What all runs of an arm have in common, and what they have not."""
    return {
        "label": arm.label,
        "method": arm.method.name,
        "is_reference": arm.is_reference,
        "seeds": list(arm.seeds),
        "losses": [record.result.loss for record in arm.records],
        "weights": arm.record.counts.model_dump(mode="json", exclude={"roles"}),
        "reported_ids": [record.reported.id for record in arm.records if record.reported],
    }
