"""The README's commands and code run as written, and its numbers are those of the committed records."""

import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from oelm.base.files import read_json
from oelm.config.measure import PERPLEXITY
from oelm.config.methods import control_of, parse_method
from oelm.config.request import TrainRequest, model_config
from oelm.data.stories import story
from oelm.model.ledger import count_flops
from oelm.report.arms import cell_of
from oelm.report.findings import estimate_pair
from oelm.report.groups import report_runs
from oelm.report.record_files import load_records
from oelm.report.verdicts import Verdict
from oelm.report.write_markdown import as_markdown

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What makes a command quick enough for a test; everything else runs as it stands in the README.
QUICKER = {
    "--steps 1000": "--steps 20 --size tiny --seq-len 64 --validation-sequences 8",
    "run experiments/cpu/quick.yaml": "run experiments/cpu/quick.yaml --only baseline --only oelm --set seeds=[0] "
    "--set tuning.grid=[1e-3,3e-3] --set train.steps=6 --set train.validation_sequences=8 "
    "--set data.stories.source.text_bytes=100000",
}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith("oelm ")]


def ran(command, folder):
    for slow, quick in QUICKER.items():
        command = command.replace(slow, quick)
    return subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.slow
def test_commands_run(tmp_path):
    stories = "\n<|endoftext|>\n".join(story(0, index) for index in range(300))
    (tmp_path / "my.txt").write_text(stories, encoding="utf-8")
    tiny_bert(tmp_path / "bert-base-uncased")
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    found = commands()
    verbs = [command.split()[1] for command in found]
    whole_study = ["experiment", "experiment", "experiment", "report"]
    assert verbs == ["prepare", "train", "train", "compare", "generate", *whole_study, "inspect", "finetune"]
    for command in found[:-1]:
        done = ran(command, tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "runs/mine/oelm-seed0/record.json").is_file()
    assert (tmp_path / "report.html").stat().st_size > 10_000
    offline = ran(found[-1], tmp_path)  # XNLI comes from the Hub
    assert offline.returncode == 2
    assert offline.stderr.startswith("error: cannot fetch xnli")
    assert "--train FILE --evaluate FILE" in offline.stderr


@pytest.mark.slow
def test_ten_lines_train_two_methods_and_compare_them(tmp_path, monkeypatch, capsys):
    lines = [line for line in blocks("python")[1].splitlines() if line and not line.startswith(("import", "from"))]
    assert len(lines) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[1].replace("steps=60", "steps=6"), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "| `oelm` |" in printed
    assert len(list(tmp_path.glob("runs/*/record.json"))) == 6


def test_the_readme_is_short():
    assert len(README.split()) <= 1500


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_three_lines_convert_and_train_a_model(tmp_path, monkeypatch, capsys):
    """As written, under the real Trainer; `bert-base-uncased` is a folder here with a tiny model in it."""
    tiny_bert(tmp_path / "bert-base-uncased")
    monkeypatch.chdir(tmp_path)
    examples = [{"input_ids": [2, 5 + index, 3], "labels": index % 2} for index in range(8)]
    names = {"examples": examples}
    *before_training, training = blocks("python")[0].splitlines()
    lines = [line for line in (*before_training, training) if line and not line.startswith(("import", "from"))]
    assert len(lines) == 3
    exec(compile("\n".join(before_training), "README.md", "exec"), names)
    before = {name: parameter.detach().clone() for name, parameter in names["model"].named_parameters()}
    exec(compile(training, "README.md", "exec"), names)
    assert "BertForSequenceClassification" in capsys.readouterr().out
    for name, parameter in names["model"].named_parameters():
        frozen = ".query." in name or ".key." in name
        assert parameter.requires_grad != frozen
        assert parameter.equal(before[name]) == frozen, name


def tiny_bert(folder):
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=40, max_position_embeddings=16, **sizes)).save_pretrained(folder)


def test_every_table_is_written_from_the_records(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import FILES, TABLES, filled

    texts = {path.name: path.read_text(encoding="utf-8") for path in FILES}
    assert all(any(f"<!-- begin: {name} -->" in text for text in texts.values()) for name in TABLES)
    for name, text in texts.items():
        assert "<!-- begin: " in text
        assert filled(text) == text, f"run `make results`: {name}"


def test_every_page_is_written_from_the_records_and_linked(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import PAGES, page, page_file

    findings = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert sorted(map(page_file, PAGES)) == sorted((ROOT / "docs/pages").iterdir())
    for study in PAGES:
        assert page(study) == page_file(study).read_text(encoding="utf-8"), f"run `make results`: {study}"
        assert f"(pages/{page_file(study).name})" in findings


def test_the_documents_name_files_that_exist():
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        for name in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / name).exists(), f"{path.name}: {name}"


def test_what_is_said_of_the_screening_is_what_its_records_show():
    (group,) = report_runs([ROOT / "results/tinystories"]).groups
    findings = {finding.arm.label: finding for finding in group.findings}
    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    same_length = [findings[name].mean for name in ("oelm", "oelm-random-matched")]
    assert "{:.2f} against {:.2f}".format(*same_length) in text
    assert [name for name, row in findings.items() if row.is_primary] == ["oelm-core"]
    assert findings["oelm-core"].verdict is Verdict.NON_INFERIOR
    assert [name for name, row in findings.items() if row.verdict is Verdict.UNDECIDED] == [
        "oelm-q+shift+gain",
        "oelm-random-matched",
        "oelm-random",
        "oelm",
    ]


def test_what_is_said_of_fine_tuning_is_what_its_records_show():
    (group,) = report_runs([ROOT / "results/sst2-confirmation"]).groups
    found = {row.arm.label: row for row in group.findings}
    keep, text = found["keep"], " ".join(README.split())
    low, high = keep.shown.ends
    assert f"{keep.shown.value:+.2f} points on SST-2 ({low:+.2f} to {high:+.2f}, five seeds)" in text
    assert f"saves {100 * keep.arm.flops_saved_share:.1f} % of the arithmetic" in text
    assert keep.is_primary
    assert group.comparisons[0].can_tell is False
    assert [name for name, row in found.items() if row.verdict is Verdict.NON_INFERIOR] == []
    assert not any(found[name].measurably_worse for name in ("keep", "lora", "top-layers", "frozen-embeddings"))
    assert all(found[name].measurably_worse for name in ("blind", "oelm", "bitfit", "oelm-exact+equal"))
    assert abs(found["oelm"].mean - found["blind"].mean) < 0.01


def test_what_is_said_of_a_causal_model_is_what_its_records_show():
    (group,) = report_runs([ROOT / "results/smollm2"]).groups
    found = {row.arm.label: row for row in group.findings}
    keep, said = found["keep"].estimate, "×{:.3f} ({:.3f} to {:.3f}"
    figures = said.format(keep.value, *keep.ends)
    assert f"perplexity {figures}, three seeds) on SmolLM2" in " ".join(README.split())
    assert figures in (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert found["keep"].is_primary
    assert group.comparisons[0].can_tell
    verdicts = {name: row.verdict for name, row in found.items() if name != "baseline"}
    assert verdicts == {"keep": Verdict.NON_INFERIOR, "lora": Verdict.INFERIOR, "blind": Verdict.INFERIOR}


def test_what_is_said_of_freezing_from_scratch_is_what_its_records_show():
    assert "the original's `oelm`, cost a fifth to a third of perplexity there" in " ".join(README.split())
    for folder in ("quickstart", "tinystories", "confirmation/docs-small"):
        (group,) = report_runs([ROOT / "results" / folder]).groups
        (frozen,) = (row for row in group.findings if row.arm.label == "oelm" and row.measure == PERPLEXITY)
        assert min(frozen.pairs_by_seed.values()) > 1, "with every seed"


def test_what_is_said_of_the_demos_settings_is_what_their_records_show():
    settings = ROOT / "results/quickstart-settings"
    rates: dict[str, dict[float, float]] = {}
    for record in load_records([settings / "rate"]):
        rates.setdefault(record.config.method.name, {})[record.config.optim.lr] = record.result.loss
    assert len(rates) == 4
    assert all(len(losses) == 5 and min(losses, key=losses.__getitem__) == 6e-3 for losses in rates.values())

    first: dict[str, list[str]] = {}
    for record in sorted(load_records([settings / "first"]), key=lambda record: record.config.seed):
        first.setdefault(record.config.method.name, []).append(f"{record.result.measures['perplexity']:.2f}")
    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    for name in ("oelm-lowrank", "baseline+shift+gain"):
        assert "{}, {} and {}".format(*first[name]) in said

    pairs: dict[tuple[str, float, int], dict[int, float]] = {}
    for record in load_records([settings / "warmup"]):
        of = (record.config.method.name, record.config.optim.lr, record.config.seed)
        pairs.setdefault(of, {})[record.config.optim.warmup_steps] = record.result.loss
    assert len(pairs) == 12
    assert all(losses[80] < losses[20] for losses in pairs.values())


def test_what_is_said_of_the_confirmation_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import by_method, report_of

    (group,) = report_of("confirmation/docs-small").groups
    (primary,) = (row for row in group.findings if row.stands_alone)
    assert (primary.arm.label, primary.control.label) == ("oelm-lowrank", "baseline+shift+gain")
    assert primary.verdict is Verdict.BETTER
    assert len(primary.pairs_by_seed) == 5
    figures = "×{:.3f} ({:.3f} to {:.3f}, five seeds)".format(primary.estimate.value, *primary.estimate.ends)
    for name in ("docs/choosing.md", "docs/findings.md"):
        assert figures in " ".join((ROOT / name).read_text(encoding="utf-8").split()), name
    rates = [arm.config.optim.lr for arm in (primary.arm, primary.control)]
    assert rates == pytest.approx([1.2e-2, 3.5e-3], rel=0.05)  # as choosing.md and findings.md say
    trials = by_method("confirmation/docs-small/tuning", "confirmation/docs-controls/tuning")
    documents = {"baseline+shift+gain": ("README.md", "docs/choosing.md"), "baseline+shift+norm": ()}
    for control, others in documents.items():
        half = f"×{math.exp(trials['oelm-lowrank'].best - trials[control].best):.3f}"
        for name in ("docs/findings.md", *others):
            assert half in (ROOT / name).read_text(encoding="utf-8"), name
    to_equipped, to_normed = (
        trials[control].best - trials["oelm-lowrank"].best for control in ("baseline+shift+gain", "baseline+shift+norm")
    )
    assert 0 < to_normed < to_equipped / 2  # "more than half of the lead"
    judged = {row.arm.label: row for row in group.findings if row.measure == PERPLEXITY}
    half_rank, blind = judged["oelm-frame+rank=4"], judged["blind"]
    assert (half_rank.control.label, half_rank.verdict) == ("baseline+shift+gain", Verdict.BETTER)
    assert (blind.control.label, blind.verdict) == ("baseline", Verdict.INFERIOR)
    shown = [
        "×{:.3f} ({:.3f} to {:.3f}, five seeds)".format(row.estimate.value, *row.estimate.ends)
        for row in (half_rank, blind)
    ]
    said = {
        name: " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("docs/choosing.md", "docs/findings.md")
    }
    assert all(shown[0] in text for text in said.values())
    assert f"(`blind`) has {shown[1]} of the perplexity of `baseline`" in said["docs/findings.md"]
    pairs = [(half_rank, primary), (judged["oelm"], blind)]
    between, above_blind = (estimate_pair(one.arm, other.arm, PERPLEXITY, "") for one, other in pairs)
    assert between.ends[0] < 1 < between.ends[1], "no difference shows"
    for found in (between, above_blind):
        assert (
            "×{:.3f} ({:.3f} to {:.3f}, five seeds; in no plan)".format(found.value, *found.ends)
            in said["docs/findings.md"]
        )
    start = f"×{math.exp(trials['frame-trained+shift+gain'].best - trials['baseline+shift+gain'].best):.3f}"
    assert f"reach {start} of the control there" in said["docs/findings.md"]


def test_what_is_said_of_the_rate_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import EQUIPPED, by_method, on_technical_prose, report_of

    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    half, whole = (by_method(f"confirmation/{study}/tuning") for study in ("docs-small", "docs-long"))
    same, high = (
        [
            math.exp(tried["oelm-lowrank"].by_rate[rate].loss - tried[EQUIPPED].by_rate[rate].loss)
            for tried in (half, whole)
        ]
        for rate in (4e-3, 1.6e-2)
    )
    assert (
        "At 4e-3 it has ×{:.3f} of the perplexity of the control after 2,000 steps and ×{:.3f} after".format(*same)
        in said
    )
    assert "at 1.6e-2, where the control suffers, ×{:.3f} and ×{:.3f} (one seed".format(*high) in said
    slower = by_method("confirmation/docs-controls/tuning")["baseline+shift+gain+qk-lr=0.25"]
    bears = [math.exp(row.by_rate[1.6e-2].loss) for row in (slower, half[EQUIPPED], half["oelm-lowrank"])]
    assert (
        "has {:.2f} after 2,000 steps, where the plain one has {:.2f} and `oelm-lowrank` {:.2f}".format(*bears) in said
    )
    arms = on_technical_prose()
    lower = arms["baseline+shift+gain+qk-lr=0.25"]
    pairs = (
        estimate_pair(one, other, PERPLEXITY, "")
        for one, other in ((lower, arms[EQUIPPED]), (arms["oelm-lowrank"], lower))
    )
    for found, words in zip(pairs, ("took that one for whole runs:", "and `oelm-lowrank` has"), strict=True):
        assert (
            f"{words} ×{found.value:.3f} ({found.ends[0]:.3f} to {found.ends[1]:.3f}, three seeds; in no plan)" in said
        )
    at_best = [math.exp(row.best) for row in (slower, half[EQUIPPED])]
    assert "hardly better than the plain one's best, {:.2f} against {:.2f}".format(*at_best) in said
    best = [math.exp(tried["oelm-lowrank"].best - tried[EQUIPPED].best) for tried in (half, whole)]
    assert "the ratio goes from ×{:.3f} after 2,000 steps to ×{:.3f} after 4,000".format(*best) in said
    (group,) = report_of("confirmation/docs-small").groups
    runs = {arm.label: arm.records for arm in group.arms}
    on_the_way = {}
    for step in (1000, 2000, 3000):
        arm, control = (
            [next(point.loss for point in run.curve if point.step == step) for run in runs[label]]
            for label in ("oelm-lowrank", EQUIPPED)
        )
        on_the_way[step] = [math.exp(ours - theirs) for ours, theirs in zip(arm, control, strict=True)]
    behind = [*on_the_way[1000], *on_the_way[2000]]
    assert f"arm is behind with every seed (×{min(behind):.2f} to ×{max(behind):.2f})" in said
    assert f"at 3,000 level (×{min(on_the_way[3000]):.2f} to ×{max(on_the_way[3000]):.2f})" in said


def test_what_is_said_of_the_second_corpus_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import by_method, report_of

    (group,) = report_of("confirmation/tinystories-small").groups
    (primary,) = (row for row in group.findings if row.stands_alone)
    assert (primary.arm.label, primary.control.label) == ("oelm-lowrank", "baseline+shift+gain")
    assert primary.verdict is Verdict.UNDECIDED
    assert len(primary.pairs_by_seed) == 3
    figures = "×{:.3f} ({:.3f} to {:.3f}, three seeds".format(primary.estimate.value, *primary.estimate.ends)
    for name in ("docs/choosing.md", "docs/findings.md"):
        assert figures in " ".join((ROOT / name).read_text(encoding="utf-8").split()), name
    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    runs = primary.arm.records, primary.control.records
    for steps in (1000, 2000, 3000):
        ends = [fmean(next(point.loss for point in one.curve if point.step == steps) for one in arm) for arm in runs]
        assert f"×{math.exp(ends[0] - ends[1]):.3f} after {steps:,}" in said
    behind = [100 * (math.exp(arm.loss - control.loss) - 1) for arm, control in zip(*runs, strict=True)]
    assert f"behind with every seed, by {min(behind):.1f} to {max(behind):.1f} %" in said
    assert [arm.config.optim.lr for arm in (primary.control, primary.arm)] == pytest.approx([1.0e-2, 1.2e-2], rel=0.05)
    trials = by_method("confirmation/tinystories-small/tuning")
    half = math.exp(trials["oelm-lowrank"].best - trials["baseline+shift+gain"].best)
    assert f"×{half:.3f} in the half-length runs" in said


def test_what_is_said_of_the_larger_study_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from confirmed_answers import LARGER, answers, loss_by_part
    from fill_readme import EQUIPPED, by_method, report_of

    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    (group,) = report_of("confirmation/docs-larger").groups
    (primary,) = (row for row in group.findings if row.is_primary)
    assert (primary.verdict, primary.stands_alone) == (Verdict.UNDECIDED, False)
    arms = {arm.label: arm for arm in group.arms}
    own, control = (arms[name] for name in ("oelm-lowrank", EQUIPPED))
    by_itself = estimate_pair(own, control, PERPLEXITY, "")
    shown = by_itself.value, *by_itself.ends
    assert "×{:.3f}, and {:.3f} to {:.3f} if nothing is corrected".format(*shown) in said
    assert "so the interval is {:.3f} to {:.3f}, undecided".format(*primary.estimate.ends) in said
    ahead = [round(100 * (1 - pair)) for pair in primary.pairs_by_seed.values()]
    assert f"ahead with every seed, by {min(ahead)} to {max(ahead)} %" in said
    perplexities = [[run.result.measures["perplexity"] for run in arm.records] for arm in (own, control)]
    for words, three in zip(("perplexities of ", "`baseline+shift+gain` "), perplexities, strict=True):
        assert words + "{:.2f}, {:.2f} and {:.2f}".format(*three) in said
    on_the_way = [
        math.exp(ours.curve[place].loss - theirs.curve[place].loss)
        for place in (0, 1)
        for ours, theirs in zip(own.records, control.records, strict=True)
    ]
    assert (
        f"behind after 1,000 and 2,000 steps with every seed (×{min(on_the_way):.2f} to ×{max(on_the_way):.2f})" in said
    )
    assert own.record.counts.trained_query_key_share == pytest.approx(1 / 16, abs=0.001)
    assert f"needs {100 * own.flops_saved_share:.0f} % less arithmetic" in said
    trained, weights = (arm.record.counts.trained for arm in (own, control))
    (small,) = (arm for arm in report_of("confirmation/docs-small").groups[0].arms if arm.label == EQUIPPED)
    assert f"the arm has {100 * (1 - trained / weights):.0f} % fewer trained weights" in said
    assert f"With {weights / small.record.counts.trained:.1f} times the weights" in said
    assert [arm.config.optim.lr for arm in (control, own)] == pytest.approx([1.1e-3, 1.1e-2], rel=0.05)
    tried = by_method("confirmation/docs-larger/tuning")[EQUIPPED].by_rate
    curve = [math.exp(tried[rate].loss) for rate in sorted(tried)]
    assert "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} from 5e-4 to 8e-3".format(*curve) in said
    both = report_runs([ROOT / "results/confirmation" / name for name in ("docs-small", "docs-larger")])
    (slope,) = (each for trend in both.trends for each in trend.slopes if trend.measure == PERPLEXITY)
    assert (slope.axis, slope.pairs) == ("weights", 8)
    assert "×{:.3f} ({:.3f} to {:.3f}, eight pairs)".format(slope.estimate.value, *slope.estimate.ends) in said
    choosing = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    assert f"At width 256 with six layers ×{primary.estimate.value:.3f}, ahead with each of three seeds" in choosing

    rows = [row.strip("| ").split(" | ") for row in answers(LARGER).splitlines()[2:]]
    ratios = [
        float(row[2].rstrip(" %")) / float(row[1].rstrip(" %")) for row in rows if "answers from context" in row[0]
    ]
    assert min(ratios) >= 2, "two to three times as often"
    assert max(ratios) < 3.2
    gaps = [float(row.split(" | ")[3]) for row in loss_by_part(LARGER).splitlines() if "tokens seen" in row]
    assert max(gaps) < 0, "ahead in every context"


def test_what_is_said_of_llama_style_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import by_method, report_of

    (llama,), (gpt,) = (report_of(f"confirmation/{study}").groups for study in ("docs-llama", "docs-small"))
    (primary,) = (row for row in llama.findings if row.is_primary)
    tried = by_method("confirmation/docs-llama/tuning")
    half = math.exp(tried["oelm-lowrank"].best - tried["baseline+shift+gain"].best)
    means = {arm.label: math.exp(fmean(run.loss for run in arm.records)) for arm in gpt.arms}
    own, control = (math.exp(fmean(run.loss for run in arm.records)) for arm in (primary.arm, primary.control))
    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    assert min(primary.pairs_by_seed.values()) > 1
    assert f"run ({', '.join(f'×{each:.3f}' for each in primary.pairs_by_seed.values())})" in said
    assert f"the rates (×{half:.3f}, one seed)" in said
    assert f"is {control:.2f} here and {means['baseline+shift+gain']:.2f} with learned positions" in said
    assert f"of the arm {own:.2f} and {means['oelm-lowrank']:.2f}" in said
    for name in ("docs/findings.md", "docs/choosing.md"):
        assert f"×{primary.estimate.value:.3f} (" in (ROOT / name).read_text(encoding="utf-8")


def test_what_is_said_of_the_long_study_is_what_its_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import by_method, report_of

    (long,), (short,) = (report_of(f"confirmation/{study}").groups for study in ("docs-long", "docs-small"))
    (primary,) = (row for row in long.findings if row.is_primary)
    assert (primary.arm.label, primary.control.label) == ("oelm-lowrank", "baseline+shift+gain")
    assert (primary.arm.seeds, primary.control.seeds) == ((0,), (0, 1))  # "one seed", "the control's second one aside"
    (others,) = report_of("screening/docs-long-rates").groups
    rates = {(arm.method.name, arm.config.optim.lr): arm for arm in others.arms}
    assert all(arm.seeds == (0,) for arm in others.arms)
    control, (own, of_control) = (
        primary.control.records[0],
        (arm.config.optim.lr for arm in (primary.arm, primary.control)),
    )
    lower, lowest, less = (
        next(arm for (name, rate), arm in rates.items() if name == method and rate == pytest.approx(wanted, rel=1e-3))
        for method, wanted in (
            ("oelm-lowrank", own / 2),
            ("oelm-lowrank", of_control),
            ("baseline+shift+gain", of_control / 2),
        )
    )
    behind, level, same_rate, worse = (
        f"×{math.exp(arm.records[0].loss - control.loss):.3f}" for arm in (primary.arm, lower, lowest, less)
    )
    assert behind == f"×{primary.estimate.value:.3f}"
    for name in ("docs/choosing.md", "docs/findings.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert behind in text, name
        assert level in text, name
    said = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    assert f"At half that rate it ends at {level}, at the control's own at {same_rate}" in said
    assert f"at half its rate it ends at {worse} of itself" in said
    assert lower.records[0].loss < min(lowest.records[0].loss, primary.arm.records[0].loss), "the best that was tried"
    far, nearer = (math.exp(arm.records[0].curve[0].loss - control.curve[0].loss) for arm in (primary.arm, lower))
    assert f"(×{far:.3f} after 4,000 steps)" in said
    assert f"from nearer (×{nearer:.3f})" in said
    first = {arm.label: arm.records[0].loss for arm in short.arms}
    assert f"the same seed led by ×{math.exp(first['oelm-lowrank'] - first['baseline+shift+gain']):.3f} after" in said
    rates = [arm.config.optim.lr for arm in (primary.control, primary.arm)]
    assert rates == pytest.approx([3.9e-3, 1.3e-2], rel=0.02)
    trials = by_method("confirmation/docs-long/tuning")["baseline+shift+gain"].by_rate
    doubt = [math.exp(trials[rate].loss) for rate in (4e-3, 8e-3, 1.6e-2)]
    assert "4e-3 gave {:.2f}, 8e-3 {:.2f} and 1.6e-2 {:.2f}".format(*doubt) in said

    both = report_runs([ROOT / "results/confirmation" / name for name in ("docs-small", "docs-long-own-rates")])
    (group,) = report_of("confirmation/docs-long-own-rates").groups
    (again,) = (row for row in group.findings if row.is_primary)
    rates = [arm.config.optim.lr for arm in (again.arm, again.control)]
    assert rates == pytest.approx([lower.config.optim.lr, of_control], rel=1e-3), "the best that were tried"
    ratios = ", ".join(f"×{pair:.3f}" for pair in again.pairs_by_seed.values())
    assert f"So far, one of four pairs: {ratios}**" in said
    (slope,) = (each for trend in both.trends for each in trend.slopes if trend.measure == PERPLEXITY)
    doubling = "×{:.3f} ({:.3f} to {:.3f}, six pairs)".format(slope.estimate.value, *slope.estimate.ends)
    assert slope.pairs == 6
    assert f"{doubling} with every doubling" in said
    choosing = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    assert f"by {doubling} with every doubling" in choosing
    assert f"{ratios} with another" in choosing


def test_what_is_said_of_the_plain_baseline_and_the_original_is_what_their_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import after_4000_steps, by_method, report_of

    said = {
        name: " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "docs/choosing.md", "docs/findings.md")
    }
    (group,) = report_of("confirmation/docs-small").groups
    judged = {row.arm.label: row for row in group.findings if row.measure == PERPLEXITY}
    for label in ("baseline+shift+gain", "oelm"):
        assert judged[label].control.label == "baseline"
        assert len(judged[label].pairs_by_seed) == 5
    assert judged["baseline+shift+gain"].verdict is Verdict.BETTER
    assert judged["oelm"].verdict is Verdict.INFERIOR
    frozen, equipped = (
        "×{:.3f} ({:.3f} to {:.3f}, five seeds)".format(row.estimate.value, *row.estimate.ends)
        for row in (judged["oelm"], judged["baseline+shift+gain"])
    )
    assert frozen in said["docs/findings.md"]
    assert all(equipped in said[name] for name in ("docs/choosing.md", "docs/findings.md"))
    assert 1.25 < judged["oelm"].estimate.value < 1.4, "a third"
    table = after_4000_steps()
    assert all(shown.replace(", five seeds", "") in table for shown in (frozen, equipped)), "judged once, shown alike"
    rows = as_markdown(report_of("confirmation/docs-small")).splitlines()
    assert next("±13 %" in row for row in rows if row.startswith("| `baseline+shift+gain` |"))
    assert "would move the ×0.667 by 13 %" in said["docs/findings.md"]

    arms = {arm.label: arm for arm in group.arms}
    plain = arms["baseline"]
    lead = estimate_pair(arms["oelm-lowrank"], plain, PERPLEXITY, "")
    assert (
        "×{:.3f} ({:.3f} to {:.3f}, five seeds; in no plan)".format(lead.value, *lead.ends) in said["docs/findings.md"]
    )
    assert all(f"×{lead.value:.3f}" in text for text in said.values())
    (rates,) = report_of("screening/docs-rates").groups
    (lower,) = (arm for arm in rates.arms if arm.label == "oelm")
    assert lower.seeds == (0, 1, 2)
    low, high, least = (
        [record.result.measures["perplexity"] for record in arm.records[:3]] for arm in (lower, arms["oelm"], plain)
    )
    assert (
        "at {:.2f}, {:.2f} and {:.2f} instead of {:.2f}, {:.2f} and {:.2f}".format(*low, *high)
        in said["docs/findings.md"]
    )
    cost, to_random = (estimate_pair(lower, arms[name], PERPLEXITY, "") for name in ("baseline", "oelm-random-matched"))
    lower_cost, no_better = (
        "×{:.3f} ({:.3f} to {:.3f}, three seeds".format(it.value, *it.ends) for it in (cost, to_random)
    )
    assert (
        "cost a fifth to a third of perplexity there, by the rate, and about a tenth on TinyStories"
        in said["README.md"]
    )
    assert 1.15 < cost.value < 1.25, "a fifth"
    assert min(low) > max(least)
    assert f"{100 * (cost.value - 1):.0f} % at [a tenth of it](findings.md) (three seeds)" in said["docs/choosing.md"]
    assert f"{lower_cost}; in no plan) of `baseline`" in said["docs/findings.md"]
    assert f"{no_better}; in no plan)" in said["docs/findings.md"]
    stories = {arm.label: arm for arm in report_of("tinystories").groups[0].arms}
    there = estimate_pair(stories["oelm"], stories["oelm-random-matched"], PERPLEXITY, "")
    neither = "too: ×{:.3f} ({:.3f} to {:.3f}, three seeds;".format(there.value, *there.ends)
    assert neither in said["docs/findings.md"]
    of_stories = next(row for row in report_of("tinystories").groups[0].findings if row.arm.label == "oelm")
    assert (of_stories.verdict, round(of_stories.estimate.value, 1)) == (Verdict.UNDECIDED, 1.1), "a tenth"

    reaching = [row for row in judged.values() if row.estimate and row.estimate.ends[1] < 1.02]
    fewest = min(reaching, key=lambda row: row.arm.record.counts.trained_query_key_share)
    assert (fewest.arm.label, fewest.control.label) == ("oelm-frame+rank=4", "baseline+shift+gain")
    assert "whose interval ends below ×1.05, and it ends below ×1.02 too" in said["docs/findings.md"]
    shares = [math.log(up / down) / math.log(up / base) for down, up, base in zip(low, high, least, strict=True)]
    assert 0.3 < fmean(shares) < 0.4, "a third"
    (other,) = (arm for arm in rates.arms if arm.label == "baseline")
    assert other.seeds == (0,)  # "one seed"
    gained = other.records[0].result.measures["perplexity"], least[0]
    assert (
        "gains little from that rate: {:.2f} instead of {:.2f} (one seed)".format(*gained) in said["docs/findings.md"]
    )
    half = [next(point.loss for point in record.curve if point.step == 2000) for record in plain.records]
    assert f"perplexities of {math.exp(min(half)):.0f} to {math.exp(max(half)):.0f}" in said["docs/findings.md"]

    trials = by_method("confirmation/docs-small/tuning")
    level = f"({math.exp(trials['oelm'].best):.1f} and {math.exp(trials['baseline'].best):.1f}, one seed)"
    assert f"level with `baseline` {level}" in said["docs/findings.md"]
    nowhere = math.exp(trials["blind"].best)
    assert f"(`blind`: {nowhere:.1f}, the best of four rates)" in said["docs/findings.md"]
    assert len(trials["blind"].by_rate) == 4
    flat = [math.exp(record.result.loss) for record in trials["oelm"].by_rate.values()]
    assert f"4e-3 to 6.4e-2 gave `oelm` {min(flat):.0f} to {max(flat):.0f}, level" in said["docs/findings.md"]
    assert arms["oelm"].config.optim.lr == pytest.approx(2.6e-2, rel=0.01)

    random, matched = arms["oelm-random-matched"], judged["oelm-random-matched"]
    assert matched.control.label == "baseline"
    assert matched.verdict is Verdict.INFERIOR
    found = "×{:.3f} ({:.3f} to {:.3f}, five seeds)".format(matched.estimate.value, *matched.estimate.ends)
    assert f"(`oelm-random-matched`) have {found} of the perplexity of `baseline`" in said["docs/findings.md"]
    other = estimate_pair(arms["oelm"], random, PERPLEXITY, "")
    theirs = "×{:.3f} ({:.3f} to {:.3f}, five seeds; in no plan)".format(other.value, *other.ends)
    assert f"`oelm` is the worse one: {theirs}" in said["docs/findings.md"]
    assert random.config.optim.lr == pytest.approx(2.7e-3, rel=0.01)
    for name, places in {"oelm": (4e-3, 3.2e-2), "oelm-random-matched": (2e-3, 1.6e-2)}.items():
        two = [math.exp(trials[name].by_rate[rate].result.loss) for rate in places]
        written = [f"{rate:.1e}".replace("e-0", "e-").replace(".0e", "e") for rate in places]
        minima = f"`{name}`: {two[0]:.1f} at {written[0]} and {two[1]:.1f} at {written[1]}"
        assert minima in said["docs/findings.md"]


def test_what_is_said_of_normed_queries_and_keys_is_what_their_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import by_method, on_technical_prose, report_of

    (group,) = report_of("confirmation/docs-controls").groups
    (primary,) = (row for row in group.findings if row.stands_alone)
    assert (primary.arm.label, primary.control.label) == ("oelm-lowrank+norm", "baseline+shift+norm")
    assert primary.verdict is Verdict.BETTER
    figures = "×{:.3f} ({:.3f} to {:.3f}, three seeds)".format(primary.estimate.value, *primary.estimate.ends)
    for name in ("docs/choosing.md", "docs/findings.md"):
        assert figures in " ".join((ROOT / name).read_text(encoding="utf-8").split()), name

    findings = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    losses = {
        name: {record.config.seed: record.loss for record in arm.records} for name, arm in on_technical_prose().items()
    }
    for seed in range(3):
        assert losses["oelm-lowrank+norm"][seed] < losses["oelm-lowrank"][seed], "better with every seed"
        assert losses["baseline+shift+norm"][seed] > losses["baseline+shift+gain"][seed], "does not help the baseline"

    trials = by_method("confirmation/docs-controls/tuning")
    half = math.exp(trials["oelm-lowrank+norm"].best - trials["baseline+shift+norm"].best)
    assert f"from ×{half:.3f} to ×{primary.estimate.value:.3f}" in findings
    assert f"rate, {primary.control.config.optim.lr * 100:.1f}e-2, comes" in findings

    def step_times(record):
        rows = read_json(ROOT / f"results/bench/{record}.json")["steps"][0]["rows"]
        return {row["name"]: f"×{row['ratio']['median']:.2f}" for row in rows if row["ratio"]}

    times = [step_times(f"normed-{width}") for width in (128, 256)]
    normed, lean = ([row[name] for row in times] for name in ("oelm-lowrank+norm", "oelm-lowrank"))
    said = "{} of a plain baseline's step at width 128 and {} at 256 instead of {} and {}".format(*normed, *lean)
    choosing = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    assert said in choosing
    wide, small = (
        [step_times(f"{where}-{width}")["oelm-lowrank"] for where in ("amd", "amd-avx512", "intel")]
        for width in (256, 128)
    )
    said = (
        "{} at width 256 and {} at 128 on AMD as PyTorch comes, {} and {} (0.976 to 1.003) there [with Intel's kernels]"
        "(speed.md#on-amd-twice-as-fast), {} and {} on Intel."
    )
    assert said.format(*(ratio for pair in zip(wide, small, strict=True) for ratio in pair)) in choosing


def test_what_is_said_of_the_answers_is_what_they_are(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from confirmed_answers import SMALL, answers, loss_by_part
    from fill_readme import report_of

    gaps = {row.split(" | ")[0]: row.split(" | ")[3:] for row in loss_by_part(SMALL).splitlines()}
    assert float(gaps["| tokens seen: 1"][0]) > 0
    assert float(gaps["| tokens seen: 8-15"][1].rstrip(" |").split(", ")[1]) < 0, "in every seed"
    assert float(gaps["| tokens seen: 128-255"][0]) == pytest.approx(-0.09, abs=0.005)
    rows = [
        row.strip("| ").split(" | ") for row in answers(SMALL, report_of("confirmation/docs-small")).splitlines()[2:]
    ]
    ratios = {row[0]: float(row[2].rstrip(" %")) / float(row[1].rstrip(" %")) for row in rows}
    assert all(1.8 < ratio < 3 for name, ratio in ratios.items() if name.endswith("answers from context"))
    assert ratios["repeated-tokens: look at the same token"] == pytest.approx(9, abs=0.5)
    assert ratios["stories: repeated four-token phrases"] > 1.5
    assert ratios["blimp: right choices"] == pytest.approx(1, abs=0.02)


def test_what_is_said_of_where_heads_look_is_what_the_models_answer(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from confirmed_answers import where_heads_look

    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    rows = [row.strip("| ").split(" | ") for row in where_heads_look().splitlines()[2:]]
    looks = {(name.strip("`"), when): [share.rstrip(" %") for share in shares] for name, when, *shares in rows}
    _, same, behind, *_ = looks["oelm-lowrank", "before"]
    assert f"puts {behind} % of its attention there and {same} % on the earlier occurrence itself" in text
    alike = {looks[name, "before"][place] for name in ("baseline", "baseline+shift+gain", "blind") for place in (1, 2)}
    assert alike == {"1.1"}  # "so does that of `baseline`"
    assert f"little better, {looks['oelm', 'before'][2]} and {looks['oelm', 'before'][1]} %" in text
    (*_, arms_best, arms_heads, _), (*_, best, heads, _) = (
        looks[name, "after"] for name in ("oelm-lowrank", "baseline+shift+gain")
    )
    assert f"the arm has {arms_heads} heads that put a fifth of their attention there and the control {heads}" in text
    assert f"{best} against {arms_best} %" in text


def _answers(folder: str) -> dict[tuple[str, int, float], list[float]]:
    """Exact answers in per cent by seed, for each method, depth and rate."""
    found: dict[tuple[str, int, float], list[float]] = {}
    for record in sorted(load_records([ROOT / "results" / folder]), key=lambda record: record.config.seed):
        place = record.config.method.name, record.config.model.layers, record.config.optim.lr
        found.setdefault(place, []).append(round(100 * record.result.measures["probe_accuracy"], 1))
    return found


def test_what_is_said_of_the_open_questions_is_what_their_records_show(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from fill_readme import OPEN_QUESTIONS, report_of

    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    said = text[text.index("## What the original wanted to know next") : text.index("<!-- begin: the original's open")]
    rows = {cell_of(row.arm.config): row for group in report_of(OPEN_QUESTIONS).groups for row in group.findings}
    ratios = {name: f"×{row.estimate.value:.3f}" for name, row in rows.items() if row.estimate}
    assert {name for name, ratio in ratios.items() if ratio not in said} == {"blind"}
    assert f"attention that looks nowhere (`blind`) {100 * rows['blind'].estimate.value - 100:.0f} %" in said
    primary = rows["oelm+all-but-last=2"]
    assert (primary.is_primary, primary.stands_alone, primary.verdict) == (True, True, Verdict.UNDECIDED)
    assert (
        "{} ({:.3f} to {:.3f}, the primary arm)".format(ratios["oelm+all-but-last=2"], *primary.estimate.ends) in said
    )
    left = (primary.estimate.value - 1) / (rows["oelm"].estimate.value - 1)
    assert left == pytest.approx(1 / 5, abs=0.01)
    assert [round(rows[name].mean) for name in ("baseline-warmup=50", "baseline")] == [29, 24]
    assert "at the edge of its grid" in said
    assert {
        name for name, row in rows.items() if (tuning := row.arm.config.study.tuning) and tuning.choice.at_edge
    } == {"oelm-ffn"}
    assert "1.3 epochs" in said
    first = {cell_of(row.arm.config): row for group in report_of("open-questions").groups for row in group.findings}
    assert len(first) == 8
    for name, phrase in (("oelm", "`oelm` stood at ×{:.3f}"), ("blind", "`blind` (×{:.3f})")):
        assert phrase.format(first[name].estimate.value) in said
    last_two, thawed, frozen = (ratios[name] for name in ("oelm+all-but-last=2", "oelm+thaw=0.2..0.8", "oelm"))
    choosing = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    assert (
        f"{last_two} and {thawed} of `baseline` after 1,000 steps of TinyStories, where `oelm` had {frozen}" in choosing
    )


def test_what_is_said_of_two_hops_is_what_their_records_show():
    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    shares = {name: values for (name, layers, _), values in _answers("induction-2").items() if layers == 4}
    assert [len(values) for values in shares.values()] == [3] * 8
    assert f"`blind` answers about {fmean(shares.pop('blind')):.0f} %" in text
    assert all(values == [100.0] * 3 for values in shares.values())
    records = load_records([ROOT / "results/induction-2"])
    minutes = [record.timing.wall_seconds / 60 for record in records]
    assert f"{min(minutes):.0f} to {max(minutes):.0f} minutes of one thread" in text
    assert max(minutes) <= 15
    early = {
        name: sorted(record.curve[0].loss for record in records if record.config.method.name == name)
        for name in ("baseline", "oelm")
    }
    said = (
        f"the loss of `oelm` is at least {early['oelm'][0]:.2f} with every seed, that of two of three plain baselines"
    )
    assert f"{said} at most {early['baseline'][1]:.2f}, of the third {early['baseline'][2]:.2f}" in text


def test_what_is_said_of_two_hops_with_three_layers_is_what_their_records_show():
    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    shares = {name: values for (name, *_), values in _answers("induction-2-settings/three-layers").items()}
    assert [len(values) for values in shares.values()] == [3] * 8
    del shares["blind"]
    for name in ("baseline", "oelm", "oelm-random-matched"):
        assert "{:.1f}, {:.1f} and {:.1f} %".format(*shares.pop(name)) in text
    assert all(values == [100.0] * 3 for values in shares.values())
    early: dict[bool, list[float]] = {True: [], False: []}
    for record in load_records([ROOT / "results/induction-2-settings/three-layers"]):
        if not record.config.method.blind:
            early[control_of(record.config.method) != "baseline"].append(record.curve[0].loss)
    assert f"at most {max(early[True]):.2f} after 1,000 steps, the others at least {min(early[False]):.2f}" in text

    pilot = _answers("induction-2-settings/depth-and-rate")
    low, high = (pilot["baseline", 3, rate] for rate in (2e-3, 4e-3))
    assert "reach {:.1f} and {:.1f} % at 2e-3, {:.1f} and {:.1f} % at 4e-3".format(*low, *high) in text
    assert all(pilot["baseline", 4, rate] == [100.0, 100.0] for rate in (2e-3, 4e-3))


def test_flop_shares_are_the_ledgers():
    config = model_config(TrainRequest(size="medium-512", seq_len=512), 50257)
    shares = [
        count_flops(config, parse_method(name), total_steps=1, tokens=1).saved_share for name in ("oelm", "oelm-frame")
    ]
    text = " ".join(README.split())
    assert f"saves {100 * shares[0]:.1f} % of the matmul FLOPs" in text
    assert f"coordinate frames {100 * shares[1]:.1f} %" in text
