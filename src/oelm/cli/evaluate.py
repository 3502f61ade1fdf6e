"""`oelm eval`: what a trained model can do."""

from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from oelm.base.console import Console
from oelm.cli.options import Checkpoint, panel
from oelm.config.evaluated import EvaluationFile, EvaluationRequest, Part, Suite, SuiteResult
from oelm.config.measure import Measure

_likelihood, _drawn, _harness = panel("Likelihood"), panel("Probes and generation"), panel("Harness")
_DEFAULT = EvaluationRequest()
_SAMPLES = 2
_TEXT_COLUMNS = ("", "model", "set", "measure")


def evaluate(
    models: Annotated[
        list[str],
        Argument(
            metavar="MODEL...",
            help="Run folders, folders of transformers models, or names on the Hub; all after the first are paired "
            "with it.",
        ),
    ],
    suite: Annotated[
        str, Option(help=f"With commas between: {', '.join(each.value for each in Suite)}.")
    ] = Suite.LIKELIHOOD.value,
    out: Annotated[Path | None, Option(help="Folder for eval.json. \\[default: the model's own]")] = None,
    checkpoint: Annotated[Checkpoint, Option(help="The last step or the best validation.")] = Checkpoint.LAST,
    batch_size: Annotated[int, Option(min=1, help="Changes nothing but time and memory.")] = _DEFAULT.batch_size,
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    text: Annotated[
        list[str] | None,
        _likelihood("A file of text or a folder of token files; again for more. \\[default: the run's validation]"),
    ] = None,
    items: Annotated[
        list[str] | None,
        panel("Choices")("JSON lines: minimal pairs (BLiMP), choices or last words; again for more files."),
    ] = None,
    tasks: Annotated[str | None, _harness("Names of tasks, with commas between.")] = None,
    task_folder: Annotated[Path | None, _harness("Task files of your own instead of the harness's.")] = None,
    half: Annotated[str | None, _likelihood("first or second, of the validation documents of a folder.")] = None,
    window: Annotated[int | None, _likelihood("Tokens at once. \\[default: the whole context]")] = None,
    stride: Annotated[int | None, _likelihood("By how much it moves on. \\[default: half a window]")] = None,
    sequences: Annotated[int, _drawn("Of each probe; texts to generate.")] = _DEFAULT.sequences,
    tokens: Annotated[int, _drawn("Of each text, at most.")] = _DEFAULT.tokens,
    temperature: Annotated[float, _drawn("0 takes the likeliest token.")] = _DEFAULT.temperature,
    top_k: Annotated[int, _drawn("Draw from so many likeliest; 0 for all.")] = _DEFAULT.top_k,
    top_p: Annotated[float, _drawn("Draw from the fewest with this probability.")] = _DEFAULT.top_p,
    repetition_penalty: Annotated[float, _drawn("Above 1: against repetition.")] = _DEFAULT.repetition_penalty,
    seed: Annotated[int, _drawn("Of what is drawn.")] = _DEFAULT.seed,
    judge: Annotated[str | None, _drawn("A run or model that measures the perplexity of the texts.")] = None,
    most_tokens: Annotated[int | None, _likelihood("Of each text only so many.")] = None,
) -> None:
    """Ask trained models about text, choices, probes, generation and attention: one table, eval.json per model."""
    from oelm.base.runtime import choose_runtime
    from oelm.config.settings import parse
    from oelm.experiments.evaluated_model import evaluate_models, unfinished_steps

    given = {name: value for name, value in locals().items() if name in EvaluationRequest.model_fields}
    lists = {"suites": _named(suite), "texts": tuple(text or ()), "items": tuple(items or ()), "tasks": _named(tasks)}
    others = {"task_folder": None if task_folder is None else str(task_folder), "checkpoint": checkpoint.value}
    request = parse(EvaluationRequest, {**given, **lists, **others}, "oelm eval")
    console, done = Console(), []
    for found, path in evaluate_models(models, request, choose_runtime(device), out):
        done.append(found)
        _print_parts(found, console)
        console.print(f"written: {path}", highlight=False, soft_wrap=True)
        if left := unfinished_steps(path):
            console.print(f"[yellow]unfinished, {left}: reports pass over these answers; ask again at its end[/yellow]")
    _print_samples(done, console)
    console.print(_table(done))
    _print_differences(done, console)


def _named(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",")) if text else ()


def _print_parts(found: EvaluationFile, console: Console) -> None:
    """Every division of every set, a small table each."""
    for result in found.results:
        for by in dict.fromkeys(part.by for part in result.parts):
            rows = [part for part in result.parts if part.by == by]
            title = Text.assemble("\n", (_short(found.model), "bold"), f" on {result.evaluation.name}, {by}")
            console.print(title, soft_wrap=True)
            console.print(_part_table(rows, result.measures))


def _print_samples(files: list[EvaluationFile], console: Console) -> None:
    """The first generated texts of all models, side by side under their beginning."""
    by_model = {_short(found.model): result for found in files for result in found.results if result.samples}
    for place in range(_SAMPLES if by_model else 0):
        texts = {name: result.samples[place] for name, result in by_model.items() if place < len(result.samples)}
        for beginning in dict.fromkeys(sample.prompt for sample in texts.values()):
            console.print(f"\n{beginning}", highlight=False, style="bold")
        table = _new_table("model", "")
        for name, sample in texts.items():
            table.add_row(name, " ".join(sample.text.split()))
        console.print(table)


def _part_table(rows: list[Part], measures: tuple[Measure, ...]) -> Table:
    shown = [measure for measure in measures if any(measure.name in row.measures for row in rows)]
    table = _new_table("", "count", *(measure.title.english for measure in shown))
    for row in rows:
        values = [measure.written(row.measures[measure.name]) for measure in shown]
        table.add_row(row.name, f"{row.count:,}", *values)
    return table


def _table(files: list[EvaluationFile]) -> Table:
    """One row for each figure, the models side by side; of a single one, how much another sample would change it."""
    alone = len(files) == 1
    names = ["value", "95 % over the set"] if alone else [_short(found.model) for found in files]
    table = _new_table("set", "measure", *names, "count")
    answers = [
        {(result.evaluation.name, measure): result for result in found.results for measure in result.measures}
        for found in files
    ]
    for on, measure in dict.fromkeys(asked for each in answers for asked in each):
        results = [each.get((on, measure)) for each in answers]
        values = ["" if each is None else measure.written(each.evaluation.measures[measure.name]) for each in results]
        count = next(each.count for each in results if each is not None)
        ends = [_ends(results[0], measure)] if alone and results[0] is not None else []
        table.add_row(on, measure.title.english, *values, *ends, f"{count:,}")
    return table


def _ends(result: SuiteResult, measure: Measure) -> str:
    ends = result.intervals.get(measure.name)
    return "" if ends is None else f"{measure.bare(ends[0])} to {measure.bare(ends[1])}"


def _print_differences(files: list[EvaluationFile], console: Console) -> None:
    """Every model against the first one on the same tokens or items."""
    for found in files:
        measures = {measure.name: measure for result in found.results for measure in result.measures}
        for against in dict.fromkeys(pair.against for pair in found.paired):
            console.print(
                Text.assemble("\n", (f"{_short(found.model)} minus {_short(against)}", "bold")), soft_wrap=True
            )
            table = _new_table("set", "measure", "difference", "95 % over the set")
            for pair in found.paired:
                measure = measures[pair.measure]
                by, *ends = (
                    "" if end is None else f"{measure.factor * end:+.{measure.decimals}f}"
                    for end in (pair.difference, pair.lower, pair.upper)
                )
                if pair.against == against:
                    table.add_row(pair.on, measure.title.english, by, " to ".join(filter(None, ends)))
            console.print(table)


def _new_table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _TEXT_COLUMNS else "right", overflow="fold")
    return table


def _short(model: str) -> str:
    """The last part of a path, or of a name on the Hub."""
    return Path(model).name
