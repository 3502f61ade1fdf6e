"""The learning rate of each arm: by validation; a diverged one is the worst; grids grow; the edge is flagged."""

import math
from pathlib import Path

import pytest

from experiments.studies import planned, tuned
from oelm.base.errors import CheckpointError, DivergedError
from oelm.config.measure import ACCURACY, PERPLEXITY, Better
from oelm.config.rate_choice import choose, vertex
from oelm.config.study_role import Choice, ChosenBy, Trial
from oelm.experiments.matrix import StudyRun
from oelm.experiments.selection import all_tuning_runs, select
from oelm.experiments.study import TuningPlan
from train.toys import tokens, trained


def trials(folder: Path, grid: list[float], **plan: object) -> list[StudyRun]:
    """What there is to run by now."""
    file = tuned(folder, tokens(), tuning={"grid": grid, "seed": 9, **plan}, arms=["oelm"])
    return all_tuning_runs(planned(file, folder))


def chosen(runs: list[StudyRun], grid: list[float], **plan: object) -> Choice:
    (choice,) = select(runs, TuningPlan(grid=tuple(grid), **plan)).choices  # type: ignore[arg-type]
    return choice


def tried(*losses: float | None, factor: float = 2.0) -> list[Trial]:
    return [Trial(lr=1e-3 * factor**place, loss=loss) for place, loss in enumerate(losses)]


def test_the_lowest_loss_wins(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-5, 1e-2, 10.0])
    losses = {run.config.optim.lr: trained(run.config, run.folder).result.loss for run in runs}
    choice = chosen(runs, [1e-5, 1e-2, 10.0])
    assert choice.lr == min(losses, key=losses.__getitem__) == 1e-2
    assert not choice.at_edge
    assert {trial.lr: trial.loss for trial in choice.trials} == losses


@pytest.mark.slow
def test_the_edge_of_the_grid_is_flagged(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-6, 1e-5, 1e-4])
    for run in runs:
        trained(run.config, run.folder)
    choice = chosen(runs, [1e-6, 1e-5, 1e-4])
    assert choice.lr == 1e-4
    assert choice.at_edge


def test_a_diverged_run_counts_as_the_worst(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-3, 1e30])
    trained(runs[0].config, runs[0].folder)
    with pytest.raises(DivergedError):
        trained(runs[1].config, runs[1].folder)
    choice = chosen(runs, [1e-3, 1e30])
    assert choice.lr == 1e-3
    assert [trial.loss is None for trial in choice.trials] == [False, True]


def test_nothing_is_chosen_from_half_a_grid(tmp_path: Path) -> None:
    runs = trials(tmp_path, [1e-3, 1e-2])
    trained(runs[0].config, runs[0].folder)
    with pytest.raises(CheckpointError, match=r"oelm-lr0\.01 has no record"):
        chosen(runs, [1e-3, 1e-2])


@pytest.mark.slow
def test_a_best_rate_at_the_edge_extends_the_grid_by_its_factor_and_at_most_so_often(tmp_path: Path) -> None:
    grid, seen = [1e-6, 1e-5], []
    for _ in range(4):
        runs = trials(tmp_path, grid, extend=2)
        seen.append([run.config.optim.lr for run in runs])
        for run in runs:
            if not (run.folder / "record.json").is_file():
                trained(run.config, run.folder)
    assert seen == [grid, [*grid, 1e-4], [*grid, 1e-4, 1e-3], [*grid, 1e-4, 1e-3]]
    choice = chosen(runs, grid, extend=2, refine=True)
    assert (choice.lr, choice.at_edge, choice.by) == (1e-3, True, ChosenBy.BEST_AT_EDGE)
    assert [(trial.lr, trial.extension) for trial in choice.trials] == [
        (1e-6, False),
        (1e-5, False),
        (1e-4, True),
        (1e-3, True),
    ]


@pytest.mark.slow
def test_a_grid_is_extended_below_too_and_not_while_it_runs(tmp_path: Path) -> None:
    grid = [3.0, 300.0]
    first, second = trials(tmp_path, grid, extend=1)
    trained(first.config, first.folder)
    assert len(trials(tmp_path, grid, extend=1)) == 2, "half a grid has no best rate"
    with pytest.raises(DivergedError):
        trained(second.config, second.folder)
    assert [run.config.optim.lr for run in trials(tmp_path, grid, extend=1)] == [3.0, 300.0, 0.03]
    assert len(trials(tmp_path, grid)) == 2, "nobody asked for it"


@pytest.mark.slow
def test_a_best_rate_between_others_extends_nothing(tmp_path: Path) -> None:
    grid = [1e-5, 1e-2, 10.0]
    for run in trials(tmp_path, grid, extend=2):
        trained(run.config, run.folder)
    assert len(trials(tmp_path, grid, extend=2)) == 3


def test_the_rate_used_is_the_vertex_between_the_neighbours() -> None:
    choice = choose("oelm", tried(3.2, 3.0, 3.1, 3.9), PERPLEXITY, refine=True)
    assert choice.by is ChosenBy.VERTEX
    assert choice.best == 2e-3
    assert choice.lr == pytest.approx(2e-3 * 2 ** (1 / 6), rel=1e-3)  # (0.2 - 0.1) / (2 (0.2 + 0.1)) of a step
    assert not choice.at_edge
    assert choose("oelm", tried(3.2, 3.0, 3.1, 3.9), PERPLEXITY, refine=False).lr == 2e-3


@pytest.mark.parametrize(
    ("losses", "by", "lr"),
    [
        ((3.0, 3.1, 3.2), ChosenBy.BEST_AT_EDGE, 1e-3),
        ((3.2, 3.1, 3.0), ChosenBy.BEST_AT_EDGE, 4e-3),
        ((3.2, 3.0, None), ChosenBy.BEST_BESIDE_DIVERGED, 2e-3),
        ((3.2, None, 3.0, 3.1), ChosenBy.BEST_BESIDE_DIVERGED, 4e-3),
        ((3.1, 3.0, 3.0), ChosenBy.VERTEX, None),
    ],
)
def test_without_two_good_neighbours_it_is_the_best_rate(
    losses: tuple[float | None, ...], by: ChosenBy, lr: float | None
) -> None:
    choice = choose("oelm", tried(*losses), PERPLEXITY, refine=True)
    assert choice.by is by
    assert choice.lr == (lr or choice.lr)


def test_a_flat_valley_has_no_vertex() -> None:
    flat = [Trial(lr=rate, loss=loss, value=0.5) for rate, loss in ((1e-3, 2.0), (2e-3, 1.0), (4e-3, 2.0))]
    assert choose("oelm", flat, ACCURACY, refine=True).by is ChosenBy.BEST_WITHOUT_CURVATURE


def test_the_measure_says_which_value_is_the_better_one() -> None:
    trials = [Trial(lr=rate, loss=1.0, value=value) for rate, value in ((1e-3, 0.7), (2e-3, 0.9), (4e-3, 0.8))]
    assert choose("oelm", trials, ACCURACY, refine=False).lr == 2e-3
    lower = ACCURACY.model_copy(update={"better": Better.LOWER})
    assert choose("oelm", trials, lower, refine=False).lr == 1e-3


def test_a_trial_of_an_older_record_is_read() -> None:
    assert Trial.model_validate({"lr": 1e-3, "loss": 0.4, "accuracy": 0.9, "extension": False}).value == 0.9


def test_all_diverged_is_refused() -> None:
    with pytest.raises(CheckpointError, match="every learning rate of oelm diverged"):
        choose("oelm", tried(None, None), PERPLEXITY, refine=True)


def test_a_grid_of_unequal_factors_cannot_be_extended() -> None:
    with pytest.raises(ValueError, match=r"factors are 3, 3\.33"):
        TuningPlan(grid=(1e-3, 3e-3, 1e-2), extend=1)
    assert TuningPlan(grid=(1e-3, 3e-3, 1e-2)).extend == 0


@pytest.mark.parametrize("rates", [(1e-3, 2e-3, 4e-3), (1e-4, 5e-4, 1e-3)])
@pytest.mark.parametrize("lowest", [3e-4, 7e-4, 2e-3])
def test_the_vertex_of_a_true_parabola_is_found(rates: tuple[float, ...], lowest: float) -> None:
    scores = [3 + 0.7 * math.log(rate / lowest) ** 2 for rate in rates]
    assert vertex(rates, scores) == pytest.approx(lowest, rel=1e-3)


def test_a_score_in_the_rate_itself_has_another_vertex() -> None:
    """The twin: a parabola in the rate, not in its logarithm, is not met."""
    rates = (1e-3, 2e-3, 4e-3)
    assert vertex(rates, [(rate / 2.4e-3 - 1) ** 2 for rate in rates]) != pytest.approx(2.4e-3, rel=1e-2)


@pytest.mark.parametrize("scores", [(1.0, 1.0, 1.0), (3.0, 2.0, 1.0), (1.0, 2.0, 1.0)])
def test_without_a_minimum_there_is_none(scores: tuple[float, ...]) -> None:
    assert vertex((1e-3, 2e-3, 4e-3), scores) is None
