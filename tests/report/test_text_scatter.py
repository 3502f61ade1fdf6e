"""How another text would move a ratio: by hand, by simulation, and in every format."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from oelm.config.record import Record, TextBlocks
from oelm.report import numerals
from oelm.report.contrasts import text_contrast
from oelm.report.findings import Finding, TextScatter
from oelm.report.groups import build_report
from oelm.report.texts import Language
from oelm.report.write_html import as_html
from oelm.report.write_json import as_json
from oelm.report.write_markdown import as_markdown
from oelm.report.write_terminal import print_report

from .records import BASELINE_LOSSES, make_arm, shifted

# S seeds  K blocks of text  R texts

TOKENS = tuple(range(90, 110))
DIFFICULTY = np.random.default_rng(0).normal(0, 0.4, len(TOKENS))
"""Of the blocks, in nats per token: far more than what arms differ by."""


def with_text(records: list[Record], scatter: float, tokens: tuple[int, ...] = TOKENS) -> list[Record]:
    """Records with blocks whose losses per token scatter so much around the arm's and the block's own."""
    return [_with_text(record, scatter, np.array(tokens)) for record in records]


def _with_text(record: Record, scatter: float, tokens: np.ndarray) -> Record:
    random = np.random.default_rng([record.config.seed, *record.method.encode()])
    rates = record.loss + DIFFICULTY[: len(tokens)] + random.normal(0, scatter, len(tokens))
    losses = rates * tokens
    losses += (record.loss * tokens.sum() - losses.sum()) * tokens / tokens.sum()
    text = TextBlocks(tokens=tuple(tokens.tolist()), losses=tuple(losses.tolist()))
    return record.model_copy(update={"result": record.result.model_copy(update={"text": text})})


BASELINE = make_arm("baseline", BASELINE_LOSSES)
OELM = make_arm("oelm", shifted((0.020, 0.022, 0.024)))
QUIET = [*with_text(BASELINE, 1e-3), *with_text(OELM, 1e-3)]
NOISY = [*with_text(BASELINE, 0.1), *with_text(OELM, 0.1)]


def found(records: list[Record]) -> Finding:
    headline = build_report(records).groups[0].headline
    assert headline is not None
    return headline


# --- the estimator ---------------------------------------------------------------------------------------------------


def test_the_error_is_that_of_a_ratio_by_hand() -> None:
    contrast = text_contrast(np.array([1.0, 4.0, 1.0]), np.array([10.0, 20.0, 10.0]))
    # r = 6 / 40; left over: -0.5, 1, -0.5; sum of squares 1.5
    assert float(contrast.mean) == 0.15
    assert float(contrast.error) == pytest.approx(math.sqrt(3 / 2 * 1.5) / 40)
    assert float(contrast.freedom) == 2
    assert float(contrast.half_width(0.95)) == pytest.approx(4.302652729911275 * 0.0375)


def test_blocks_of_one_length_are_a_plain_mean_and_a_constant_difference_has_no_error() -> None:
    differences = np.array([0.3, -0.1, 0.7, 0.2])
    plain = text_contrast(5 * differences, np.full(4, 5.0))
    assert float(plain.error) == pytest.approx(differences.std(ddof=1) / 2)
    tokens = np.array([3.0, 80.0, 7.0])
    assert float(text_contrast(0.02 * tokens, tokens).error) < 1e-12


def simulated(blocks: int, texts: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses (R, K) of two arms, and tokens: ten documents to a block, each with a difference of its own around 0.02.

    Long documents are easier and differ more, and some are very long.
    """
    random = np.random.default_rng(blocks)
    tokens_RKD = random.lognormal(5, 0.5, (texts, blocks, 10))
    common = random.normal(3, 0.4, tokens_RKD.shape) - 0.1 * np.log(tokens_RKD)
    own = 0.02 + random.standard_t(5, tokens_RKD.shape) * 0.05
    control = (common * tokens_RKD).sum(-1)
    return control + (own * tokens_RKD).sum(-1), control, tokens_RKD.sum(-1)


@pytest.mark.parametrize(("blocks", "lowest"), [(8, 0.93), (20, 0.94), (64, 0.94)])
def test_ninety_five_of_a_hundred_texts_hold_the_truth(blocks: int, lowest: float) -> None:
    arm, control, tokens = simulated(blocks)
    contrast = text_contrast(arm - control, tokens)
    half_width = contrast.half_width(0.95)
    covered = np.abs(contrast.mean - 0.02) <= half_width
    assert lowest <= covered.mean() <= 0.965
    # The twin: without pairs, what makes one document harder than another drowns what the arms differ in.
    unpaired = np.hypot(text_contrast(arm, tokens).error, text_contrast(control, tokens).error)
    assert np.median(unpaired / contrast.error) > 5
    # Another twin: tokens as if each were a draw of its own.
    as_tokens = np.sqrt(((arm - control) ** 2 / tokens).sum(-1)) / tokens.sum(-1)
    assert (np.abs(contrast.mean - 0.02) <= 1.96 * as_tokens).mean() < 0.7


# --- in a finding ----------------------------------------------------------------------------------------------------


def test_a_finding_has_the_interval_over_the_mean_of_its_seeds() -> None:
    differences = [
        np.subtract(one.result.text.losses, other.result.text.losses)  # type: ignore[union-attr]
        for one, other in zip(NOISY[3:], NOISY[:3], strict=True)
    ]
    contrast = text_contrast(np.mean(differences, axis=0), np.array(TOKENS, float))
    text = found(NOISY).text
    assert text is not None
    assert float(contrast.mean) == pytest.approx(0.022)
    assert text.factor == pytest.approx(math.exp(float(contrast.half_width(0.95))))
    assert (text.blocks, text.confidence) == (len(TOKENS), 0.95)


def test_it_says_whether_text_or_seeds_leave_more_open_and_changes_no_verdict() -> None:
    plain, quiet, noisy = (found(records) for records in ([*BASELINE, *OELM], QUIET, NOISY))
    assert plain.text is None
    assert quiet.text is not None
    assert noisy.text is not None
    assert (quiet.text.exceeds_seeds, noisy.text.exceeds_seeds) == (False, True)
    assert plain.verdict == quiet.verdict == noisy.verdict
    assert plain.estimate == quiet.estimate == noisy.estimate


def test_one_pair_has_a_text_but_no_seeds_to_exceed() -> None:
    text = found([NOISY[0], NOISY[3]]).text
    assert text is not None
    assert not text.exceeds_seeds


@pytest.mark.parametrize(
    "records",
    [
        [*QUIET[:3], *QUIET[3:5], OELM[2]],
        [*QUIET[:3], *QUIET[3:5], *with_text(OELM[2:], 1e-3, TOKENS[::-1])],
        [*BASELINE, *QUIET[3:]],
        [*with_text(BASELINE, 1e-3, TOKENS[:10]), *QUIET[3:]],
    ],
    ids=["a seed lacks it", "a seed read other blocks", "the control lacks it", "the control read less"],
)
def test_without_the_same_blocks_in_every_pair_nothing_is_said(records: list[Record]) -> None:
    assert found(records).text is None


# --- in words --------------------------------------------------------------------------------------------------------

MOVES = {Language.ENGLISH: "Another validation text of this kind", Language.CHINESE: "换一段同类的验证文本"}
HOLDS = {Language.ENGLISH: "the verdict holds for this validation text", Language.CHINESE: "判定只对这段验证文本成立"}
COLUMN = {Language.ENGLISH: "another text", Language.CHINESE: "换一段文本"}


def written(records: list[Record], language: Language) -> dict[str, str]:
    report, terminal = build_report(records), io.StringIO()
    print_report(report, Console(file=terminal, width=200), language)
    return {
        "terminal": " ".join(terminal.getvalue().split()),
        "short": as_markdown(report, language),
        "whole": as_markdown(report, language, whole=True),
        "page": as_html(report, language),
    }


@pytest.mark.parametrize("language", Language)
def test_every_format_says_it_beside_the_interval_over_seeds(language: Language) -> None:
    quiet, noisy = written(QUIET, language), written(NOISY, language)
    for name in quiet:
        assert MOVES[language] in quiet[name], name
        assert HOLDS[language] not in quiet[name], name
        assert HOLDS[language] in noisy[name], name
        assert (COLUMN[language] in quiet[name]) == (name != "terminal")


@pytest.mark.parametrize("language", Language)
def test_records_without_blocks_are_written_as_before(language: Language) -> None:
    for text in written([*BASELINE, *OELM], language).values():
        assert MOVES[language] not in text
        assert COLUMN[language] not in text
        assert "±" not in text


@pytest.mark.parametrize(
    ("factor", "text"),
    [(1.0, "±0 %"), (1.00034, "±0.034 %"), (1.0047, "±0.47 %"), (1.012, "±1.2 %"), (2.5, "±150 %"), (math.inf, "±∞ %")],
)
def test_the_figure_has_the_digits_that_matter(factor: float, text: str) -> None:
    assert numerals.text_scatter(TextScatter(factor, 0.95, 20, exceeds_seeds=False)) == text


def test_the_sentence_and_the_json_have_the_figure() -> None:
    text = found(NOISY).text
    assert text is not None
    expected = (
        f"Another validation text of this kind would move the ratio by ±{100 * text.share:.1f} % (95 % interval over "
        "20 blocks of whole documents, with these seeds). That is more than other seeds would: the verdict holds for "
        "this validation text."
    )
    assert expected in as_markdown(build_report(NOISY))
    rows = json.loads(as_json(build_report(NOISY)))["groups"][0]["comparisons"][0]["findings"]
    assert [row["text"] and row["text"]["factor"] for row in rows] == [None, text.factor]
