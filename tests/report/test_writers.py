import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from oelm.base.errors import ConfigError
from oelm.cli.main import command_line
from oelm.config.record import Record
from oelm.config.study_role import StudyRole
from oelm.report.content import Forest, Lane
from oelm.report.groups import Report, build_report
from oelm.report.texts import TEXTS, Language
from oelm.report.write_json import as_json
from oelm.report.write_markdown import as_markdown
from oelm.report.write_terminal import drawn_interval, print_report

from .records import BASELINE_LOSSES, finetuned, make_arm, make_config, make_record, shifted, write_run


def quickstart(study: StudyRole | None = None) -> list[Record]:
    arms = {
        "baseline": BASELINE_LOSSES,
        "oelm": shifted((0.11, 0.12, 0.10)),
        "oelm-random": shifted((0.31, 0.22, 0.28)),
        "baseline+shift+gain": shifted((-0.05, -0.06, -0.045)),
        "oelm-core": shifted((-0.005, -0.02, -0.005)),
    }
    return [record for method, losses in arms.items() for record in make_arm(method, losses, study=study)]


QUICKSTART = quickstart()
STATED = quickstart(StudyRole(study="s", stage="final", primary="oelm"))
"""The same runs, whose records name the primary arm."""
AWKWARD = [
    *make_arm("baseline", (7.5, 2.6), lr=3e-4),
    *make_arm("oelm", (2.5, 2.6, 2.7)),
    *make_arm("oelm", tuple(2.5 + seed / 10 for seed in range(12)), lr=3e-4),
    *make_arm("oelm-random-matched+all-but-last=1+until=0.25", (800.0,), digest="b" * 16),
]


def compare(records: list[Record], primary: str | None = None, unfinished: list[Path] | None = None) -> Report:
    return build_report(records, primary=primary, unfinished=unfinished or [])


def rendered(report: Report, width: int = 80, language: Language = Language.ENGLISH) -> str:
    file = io.StringIO()
    print_report(report, Console(file=file, width=width), language)
    return file.getvalue()


def flowing(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("records", [QUICKSTART, AWKWARD, QUICKSTART[3:6]])
@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(records: list[Record], width: int) -> None:
    lines = rendered(compare(records, unfinished=[Path("runs/oelm-2")]), width).splitlines()
    assert max(map(len, lines)) <= width


def test_nothing_is_cut_off_in_80_columns() -> None:
    for records in (QUICKSTART, AWKWARD):
        assert "…" not in rendered(compare(records))
    assert " baseline+shift+gain " in rendered(compare(QUICKSTART))


def test_all_seeds_are_shown() -> None:
    row = next(line for line in rendered(compare(QUICKSTART)).splitlines() if line.startswith(" oelm "))
    assert row.split() == ["oelm", "1.09M", "13.60", "14.30", "13.07", "13.64", "1.178", "5.0", "%", "30.0"]
    twelve = flowing(rendered(compare(make_arm("oelm", tuple(2.5 + seed / 10 for seed in range(12))))))
    assert "36.60" in twelve


def test_the_sentence_says_ratio_interval_pairs_control_and_verdict() -> None:
    text = flowing(rendered(compare(STATED)))
    assert (
        "oelm: perplexity ×1.116 (95 % interval 1.073 to 1.161, n = 3 paired seeds) of baseline: "
        "inferior to the 5 % margin. Smallest margin that this design could have shown: ×1.040. "
        "Probability of lying within the margin: 0.4 %. From its own pairs alone: 1.089 to 1.144. "
        "The primary arm by the records of the runs, without a registered plan"
    ) in text
    assert "oelm-random: perplexity ×1.310 (95 % interval after Holm" in text
    assert "The arms scatter unequally, so the interval is from its own pairs; pooled: " in text
    assert "of baseline+shift+gain: undecided at the 5 % margin" in text
    assert "of baseline: non-inferior at the 5 % margin." in text
    assert "Scatter is pooled over 5 arms and the seeds 0, 1, 2." in text


def test_the_table_says_what_it_is_not() -> None:
    text = flowing(rendered(compare(QUICKSTART)))
    assert "last step, not of the best checkpoint" in text
    assert "paired by seed" in text
    assert "No primary arm stands uncorrected here, so all intervals are widened after Holm" in text
    assert "The primary arm is tested uncorrected" in flowing(rendered(compare(STATED)))
    after = flowing(rendered(compare(STATED, primary="oelm-random")))
    assert "The primary arm was chosen after the runs (before: oelm; now: oelm-random): all arms corrected." in after
    assert "Chosen after the runs: all arms corrected." in after
    assert "stated before the runs" not in after
    assert "The primary arm is tested uncorrected" not in after
    assert "not evidence" in text
    assert "oelm against oelm-random: rows of Q and K have norm 1.000 and 0.226" in text


def test_confounds_and_commands_stand_beside_the_verdict() -> None:
    text = flowing(rendered(compare(AWKWARD, unfinished=[Path("runs/oelm-2")])))
    assert "Confound: lr differs (1e-3 against 3e-4)." in text
    assert "no verdict, which takes 3 paired seeds. " in text
    assert "`oelm train --data data/stories --method baseline --size tiny --seq-len 128 --lr 0.0003 --steps 400" in text
    assert "--seed 2`" in text
    assert "Left out, as not finished: runs/oelm-2." in text


def test_an_arm_without_control_is_explained() -> None:
    text = flowing(rendered(compare(make_arm("oelm-core", BASELINE_LOSSES))))
    assert "oelm-core: no control among these runs" in text
    assert "Add runs of baseline+shift+gain / baseline with" in text
    alone = flowing(rendered(compare(make_arm("baseline+shift+gain", BASELINE_LOSSES))))
    assert "Add runs of baseline with" in alone, "not of itself"
    control, arm = (make_arm(name, BASELINE_LOSSES) for name in ("baseline+shift+gain", "oelm-lowrank"))
    pair = flowing(rendered(compare([*control, *arm])))
    assert "of baseline+shift+gain: " in pair
    assert "no control among these runs" not in pair, "it is one"


def test_a_clean_report_names_no_confound() -> None:
    assert "Confound" not in rendered(compare(QUICKSTART))


def test_later_trained_weights_are_counted_and_said() -> None:
    later = compare([make_record(make_config("oelm+until=0.5", 0), 2.5, later=65_536)])
    assert "1.16M" in rendered(later)
    assert TEXTS["note.later"][0] in flowing(rendered(later))
    assert TEXTS["note.later"][0] not in flowing(rendered(compare(QUICKSTART)))


def test_json_is_plain_and_complete() -> None:
    (group,) = json.loads(as_json(compare(QUICKSTART)))["groups"]
    (comparison,) = group["comparisons"]
    arms = {found["arm"]: found for found in comparison["findings"]}
    assert (comparison["measure"], comparison["criterion"]) == ("perplexity", 1.05)
    assert arms["oelm"]["verdict"] == "inferior"
    assert arms["oelm"]["control"] == "baseline"
    assert list(arms["oelm"]["by_seed"]) == ["0", "1", "2"]
    estimate = arms["oelm"]["estimate"]
    assert estimate["lower"] < estimate["value"] < estimate["upper"]
    assert arms["baseline"]["verdict"] is None
    assert [arm["is_reference"] for arm in group["arms"]] == [True, False, False, False, False]
    assert (group["scale_gaps"][0]["one"], group["scale_gaps"][0]["other"]) == ("oelm", "oelm-random")


def test_json_has_no_infinity() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = json.loads(as_json(compare(AWKWARD)), parse_constant=refuse)
    wild = data["groups"][0]["comparisons"][0]["findings"][-1]
    assert wild["mean"] is None
    assert {confound["kind"] for confound in wild["confounds"]} >= {"setting", "one-seed"}


def test_markdown_is_one_table_with_a_row_per_arm() -> None:
    text = as_markdown(compare(QUICKSTART))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert len({row.count("|") for row in rows}) == 1
    assert "| `oelm` | 1.09M | 13.60, 14.30, 13.07 | 13.64 |" in text
    assert "widened after Holm" in text


def test_seeds_that_some_arms_lack_are_left_out_of_the_pooled_scatter_and_named() -> None:
    more = make_arm("baseline", {**dict(enumerate(BASELINE_LOSSES)), 7: 2.6})
    text = flowing(rendered(compare(more + QUICKSTART[3:])))
    assert "the seeds 0, 1, 2; left out, as not in all arms: 7." in text


def ran(*arguments: object) -> str:
    done = CliRunner().invoke(command_line(["compare"]), ["compare", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("form", ["table", "md"])
def test_a_report_of_several_experiments_has_a_title_for_each(form: str, tmp_path: Path) -> None:
    other = make_arm("baseline", BASELINE_LOSSES, digest="b" * 16, data="novels")
    for record in [*QUICKSTART[:6], *other, *make_arm("oelm", BASELINE_LOSSES, digest="b" * 16, data="novels")]:
        write_run(tmp_path / record.config.data.name / f"{record.method}-{record.config.seed}", record)
    text = ran(tmp_path, "--format", form)
    assert "novels, tiny" in text
    assert "stories, tiny" in text


def test_the_same_in_chinese() -> None:
    table = rendered(compare(QUICKSTART, primary="oelm"), language=Language.CHINESE)
    text = "".join(table.split())
    assert "oelm：困惑度为baseline的1.116倍" in text
    assert "劣于界限" in text
    assert "inferior" not in text
    assert max(cell_len(line) for line in table.splitlines()) <= 80


def test_accuracies_are_shown_in_the_same_way() -> None:
    report = compare([*finetuned("baseline", (0.90, 0.91, 0.89)), *finetuned("oelm", (0.88, 0.89, 0.87))])
    table = rendered(report)
    text = flowing(table)
    assert "90.00 91.00 89.00" in text
    assert max(map(len, table.splitlines())) <= 80
    assert "oelm on dev: accuracy 97.8 % of baseline (95 % interval " in text
    assert "-2.00 points, " in text
    assert "at least 95 % of the control's accuracy is kept, yet measurably worse." in text
    assert "×" not in "".join(line for line in table.splitlines() if "│" in line)
    assert "| `oelm` | 1.09M | 88.00, 89.00, 87.00 | 88.00 |" in as_markdown(report)


def test_every_task_is_printed_in_its_own_unit(tmp_path: Path) -> None:
    for record in [*finetuned("baseline", (0.9,)), make_record(make_config("baseline", 0), 1.0)]:
        write_run(tmp_path / record.task, record)
    groups = json.loads(ran(tmp_path, "--format", "json"))["groups"]
    assert {(group["task"], group["comparisons"][0]["measure"]) for group in groups} == {
        ("classification", "accuracy"),
        ("language-modelling", "perplexity"),
    }


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"nothing to report.*--original"):
        ran()


# --- intervals in characters -----------------------------------------------------------------------------------------

FOREST = Forest("", (), (), equal=50.0, margin=75.0, caption="", explained_in="")


def lane(middle: float | None, lower: float | None = None, upper: float | None = None) -> Lane:
    return Lane("oelm", 1, False, "", "", "", "", "", middle, lower, upper, ())


def test_an_interval_is_drawn_to_scale() -> None:
    assert drawn_interval(lane(25.0, 12.5, 37.5), FOREST) == "  ├─●─┤ │   ┆    "


def test_without_an_interval_there_is_a_point_and_without_a_pair_only_the_marks() -> None:
    assert drawn_interval(lane(25.0), FOREST) == "    ●   │   ┆    "
    assert drawn_interval(lane(None), FOREST) == "        │   ┆    "


def test_the_report_room_loads_neither_torch_nor_scipy() -> None:
    code = (
        "import importlib, pkgutil, sys, oelm.report\n"
        "for module in pkgutil.iter_modules(oelm.report.__path__):\n"
        "    importlib.import_module(f'oelm.report.{module.name}')\n"
        "print(*(name in sys.modules for name in ('torch', 'scipy', 'oelm.report.write_terminal')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
