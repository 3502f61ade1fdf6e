"""The opening sentence claims what the verdict claims, and nothing else."""

import pytest

from oelm.config.record import Record
from oelm.report.compose import compose
from oelm.report.groups import build_report
from oelm.report.texts import Language

from .records import BASELINE_LOSSES, finetuned, make_arm, make_config, make_record, shifted

BASELINE = make_arm("baseline", BASELINE_LOSSES)
SAVED = "saved 5.7 % of the trained weights and 5 % of the arithmetic"


def plain(records: list[Record], language: Language = Language.ENGLISH) -> str:
    return compose(build_report(records), language, "").experiments[0].verdict.plain


def oelm(*by: float, **settings: float) -> list[Record]:
    return make_arm("oelm", shifted(by, BASELINE_LOSSES[: len(by)]), **settings)


@pytest.mark.parametrize(
    ("arm", "sentence"),
    [
        (
            oelm(0.002, -0.001, 0.001),
            f"Exploratory: freezing Q and K (oelm) cost no more than 5 % in perplexity here, and {SAVED}.",
        ),
        (
            oelm(0.011, 0.010, 0.009),
            "Exploratory: freezing Q and K (oelm) did cost something in perplexity here, but no more than 5 %, "
            f"and {SAVED}.",
        ),
        (
            oelm(0.11, 0.12, 0.10),
            f"Exploratory: freezing Q and K (oelm) cost more than 5 % in perplexity here: about 12 %, and {SAVED}.",
        ),
        (
            oelm(-0.11, -0.12, -0.10),
            f"Exploratory: freezing Q and K (oelm) made perplexity better here, by about 10 %, and {SAVED}.",
        ),
        (
            oelm(0.02, 0.09, 0.04),
            "We cannot say yet whether freezing Q and K (oelm) costs more than 5 % in perplexity: after 3 paired seeds "
            f"anything from 3.9 % better to 15 % worse is possible; it {SAVED}.",
        ),
        (
            oelm(0.11),
            "We cannot say yet what freezing Q and K (oelm) costs in perplexity: that takes 3 paired seeds, and there "
            f"are 1; it {SAVED}.",
        ),
        (
            oelm(0.11, 0.12, 0.10, lr=3e-4),
            f"Exploratory: freezing Q and K (oelm) cost more than 5 % in perplexity here: about 12 %, and {SAVED}. "
            "Something else differed too, which may explain it.",
        ),
    ],
)
def test_it_says_what_the_verdict_says(arm: list[Record], sentence: str) -> None:
    assert plain([*BASELINE, *arm]) == sentence


def test_of_a_model_that_has_not_learnt_nothing_is_said() -> None:
    records = [
        make_record(make_config(method, seed), 2.50 + seed / 100, answer_entropy=2.55)
        for method in ("baseline", "oelm")
        for seed in range(3)
    ]
    assert plain([r for r in records if r.method == "baseline"] + shifted_losses(records)).startswith(
        "Nothing can be said of freezing Q and K (oelm) yet: its control has hardly learnt anything"
    )


def shifted_losses(records: list[Record]) -> list[Record]:
    """Equal losses of two seeds would be refused elsewhere."""
    return [
        make_record(r.config, r.loss + 0.001 * (1 + r.config.seed), answer_entropy=2.55)
        for r in records
        if r.method == "oelm"
    ]


def test_where_the_negative_control_does_not_fail_nothing_is_said() -> None:
    blind = make_arm("blind", shifted((0.001, -0.002, 0.0015)))
    sentence = plain([*BASELINE, *oelm(0.002, -0.001, 0.001), *blind])
    assert sentence.startswith(
        "We cannot say that freezing Q and K (oelm) is harmless here: even attention that tells no token"
    )


def test_an_accuracy_is_kept_or_lost() -> None:
    records = [*finetuned("baseline", (0.90, 0.91, 0.89)), *finetuned("oelm", (0.88, 0.89, 0.87))]
    assert plain(records).startswith(
        "Exploratory: freezing Q and K (oelm) did cost something in accuracy here, but no more than 5 %, and saved"
    )


def test_what_freezes_nothing_saves_nothing() -> None:
    sentence = plain([*BASELINE, *make_arm("baseline+shift+gain", shifted((-0.05, -0.06, -0.045)))])
    assert sentence == (
        "Exploratory: this method (baseline+shift+gain) made perplexity better here, by about 5 %; it saves nothing."
    )


def test_the_same_in_chinese() -> None:
    assert plain([*BASELINE, *oelm(0.11, 0.12, 0.10)], Language.CHINESE) == (
        "探索性结果：冻结 Q 和 K（oelm）在此使困惑度变差超过 5 %：约 12 %，并节省了 5.7 % 的训练权重和 5 % 的运算量。"
    )


def test_without_a_primary_arm_the_answered_one_that_saves_something_opens() -> None:
    records = [
        *BASELINE,
        *oelm(0.02, 0.09, 0.04),
        *make_arm("oelm-random", shifted((0.31, 0.315, 0.305))),
        *make_arm("baseline+shift+gain", shifted((-0.05, -0.051, -0.049))),
    ]
    headline = build_report(records).groups[0].headline
    assert headline is not None
    assert headline.arm.label == "oelm-random"
