"""The committed studies, and the original's figures, keep every number and every verdict.

The files were written before language models and classifiers were compared by one function; a change of one of these
numbers is a change of a result and needs a reason.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oelm.config.original_study import original_records
from oelm.report.groups import build_report, report_runs
from oelm.report.write_json import as_json

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
STUDIES = ("quickstart", "tinystories", "sst2", "original")


@cache
def found(study: str) -> dict[str, Any]:
    report = build_report(original_records()) if study == "original" else report_runs([ROOT / "results" / study])
    return json.loads(as_json(report))


@cache
def golden(study: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{study}.json").read_text(encoding="utf-8"))


def ends(estimate: dict[str, Any] | None) -> list[float] | None:
    return None if estimate is None or estimate["lower"] is None else [estimate["lower"], estimate["upper"]]


def close(value: Any) -> Any:
    """As it is but for the last digits of numbers."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-9, abs=1e-12)
    if isinstance(value, list):
        return [close(each) for each in value]
    return {key: close(each) for key, each in value.items()} if isinstance(value, dict) else value


def finding(row: dict[str, Any], arm: dict[str, Any], cost: dict[str, Any]) -> dict[str, Any]:
    estimate, shown = row["estimate"], row["shown"]
    common = {
        "arm": row["arm"],
        "control": row["control"],
        "seeds": arm["seeds"],
        "primary": row["is_primary"],
        "verdict": row["verdict"],
        "pairs": row["pairs"],
        "confounds": [[each[part] for part in ("kind", "what", "arm", "control")] for each in row["confounds"]],
        "missing": [[each["method"], each["seeds"]] for each in row["missing"]],
        "losses": [loss for loss in arm["losses"] if loss is not None],
        "bits_per_byte": row["also"].get("bits_per_byte"),
        "flops_saved_share": cost["flops_saved_share"],
        "step_seconds": cost["step_seconds"],
        "measure": row["measure"],
        "on": row["on"],
        "by_seed": list(row["by_seed"].values()),
        "mean": row["mean"],
        "value": estimate and estimate["value"],
        "interval": ends(estimate),
        "confidence": estimate["confidence"] if ends(estimate) else None,
    }
    if row["measure"] == "accuracy":
        return common | {
            "best_by_seed": list(row["best_by_seed"].values()),
            "examples": row["examples"],
            "difference": shown and shown["value"],
            "difference_interval": ends(shown),
        }
    return common | {
        "kind": estimate and estimate["model"],
        "other": estimate and estimate["other"],
        "smallest_margin": estimate and estimate["smallest_criterion"],
        "measurably_worse": row["measurably_worse"],
    }


@pytest.mark.parametrize("study", STUDIES)
def test_findings_are_the_same(study: str) -> None:
    groups, expected = found(study)["groups"], golden(study)["groups"]
    assert len(groups) == len(expected)
    for group, before in zip(groups, expected, strict=True):
        assert {name: group[name] for name in ("study", "data", "size", "source", "task")} == {
            name: before[name] for name in ("study", "data", "size", "source", "task")
        }
        (comparison,) = group["comparisons"]
        assert comparison["criterion"] == before["margin"]
        arms = {arm["label"]: arm for arm in group["arms"]}
        costs = {cost["arm"]: cost for cost in group["costs"]}
        rows = [finding(row, arms[row["arm"]], costs[row["arm"]]) for row in comparison["findings"]]
        assert [row["arm"] for row in rows] == [row["arm"] for row in before["findings"]]
        for row, was in zip(rows, before["findings"], strict=True):
            assert row == close(was)


@pytest.mark.parametrize("study", STUDIES)
def test_views_are_the_same(study: str) -> None:
    for group, before in zip(found(study)["groups"], golden(study)["groups"], strict=True):
        views = {
            "ablation": [
                [
                    row["change"],
                    row["start"],
                    row["end"],
                    row["estimate"] and row["estimate"]["value"],
                    ends(row["estimate"]),
                ]
                for row in group["ablation"]
            ],
            "scale_gaps": [
                [gap["one"], gap["other"], gap["one_norm"], gap["other_norm"]] for gap in group["scale_gaps"]
            ],
            "resources": columns(
                group["costs"],
                "arm trained_weights frozen_weights absent_weights run_flops training_seconds wall_seconds",
            ),
            "speed": columns(
                group["costs"],
                "arm control time_saved_share tokens_per_second validation_share peak_bytes memory_saved_share "
                "exceeds_bound",
            ),
            "audit": columns(
                group["audit"],
                "arm frozen_tensors later_tensors trained_tensors frozen_weights unchanged moved",
            ),
            "row_norms": columns(group["geometry"], "arm layer row_norm"),
        }
        for name, rows in views.items():
            if before[name] is not None:  # classifiers had ratios of losses in their ablation, which meant nothing
                assert rows == close(before[name]), name


@pytest.mark.parametrize("study", STUDIES)
def test_what_spans_experiments_is_the_same(study: str) -> None:
    report, before = found(study), golden(study)
    assert [
        [
            trend["method"],
            trend["source"],
            columns(trend["rows"], "data size weights trained_tokens"),
            trend["also_differs"],
        ]
        for trend in report["trends"]
    ] == [[method, *rest] for method, _, *rest in before["trends"]]
    tables = [{**table, "rows": columns(table["rows"], "lr loss is_chosen")} for table in report["tuning"]]
    assert tables == close(before["tuning"])
    assert [
        [row["environment"]["torch"], row["environment"]["git_commit"], row["runs"]] for row in report["environments"]
    ] == before["environment"]


def columns(rows: list[dict[str, Any]], names: str) -> list[list[Any]]:
    return [[row[name] for name in names.split()] for row in rows]
