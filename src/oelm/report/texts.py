"""Every text of the results that a reader sees, in one place and in both languages.

Templates are filled by `str.format` in `sentences.py`; the names in braces are the same in each language.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from oelm.report.confounds import ConfoundKind
from oelm.report.statistics import Verdict
from oelm.report.views import AblationChange


class Language(StrEnum):
    """A language of the report, by its code."""

    ENGLISH = "en"
    CHINESE = "zh"


@dataclass(frozen=True)
class Texts:
    """One language. A field added here is missing in no language, or the type checker says so."""

    measured_title: str
    arm: str
    trained: str
    frozen: str
    perplexity_by_seed: str
    mean: str
    bits_per_byte: str
    flops_saved: str
    step_time: str
    verdict_title: str
    against: str
    ratio: str
    interval: str
    verdict: str
    scale: str
    learning_rate: str
    evaluation: str
    accuracy_title: str
    accuracy_by_seed: str
    best_checkpoint: str
    points: str
    share: str
    primary: str
    """Marks the primary arm in a table."""
    group_title: str
    study_title: str
    reported_title: str
    verdict_names: Mapping[Verdict, str]
    """One word or two, for a table."""
    verdicts: Mapping[Verdict, str]
    """Phrases that end a sentence; `{margin}` is a percentage."""
    accuracy_verdicts: Mapping[Verdict, str]
    also_measurably_worse: str
    plain_interval: str
    adjusted_interval: str
    finding: str
    finding_without_interval: str
    finding_without_pairs: str
    accuracy_finding: str
    accuracy_without_interval: str
    no_control: str
    resolution: str
    own_interval: str
    variances_differ: str
    primary_remark: str
    add_runs: str
    add_run: str
    confound: str
    confounds: Mapping[ConfoundKind, str]
    planned_confound: str
    scale_gap: str
    blocks: str
    blocks_left_out: str
    speed_bound: str
    speed_measured: str
    time_ratio: str
    speed_caveat: str
    exceeds_bound: str
    unfinished: str
    registered: str
    registered_first: str
    registered_late: str
    with_changes: str
    amended: str
    planned_missing: str
    plan_not_here: str
    exploratory: str
    ablation_changes: Mapping[AblationChange, str]
    trend_caveat: str
    trend_setting: str
    beside: str
    beside_differs: str
    perplexity_figure: str
    ratio_figure: str
    accuracy_figure: str
    footnotes: tuple[str, ...]
    pooled_footnote: str
    family_footnote: str
    no_primary_footnote: str
    accuracy_footnotes: tuple[str, ...]
    reported_footnote: str
    trained_later: str


ENGLISH = Texts(
    measured_title="What was measured",
    arm="method",
    trained="trained",
    frozen="frozen",
    perplexity_by_seed="perplexity by seed",
    mean="mean",
    bits_per_byte="bits/byte",
    flops_saved="FLOPs saved",
    step_time="ms/step",
    verdict_title="What it shows (perplexity ratio, margin {margin})",
    against="vs {control}",
    ratio="ratio",
    interval="95 % interval",
    verdict="verdict",
    scale="│ = 1, ┆ = margin",
    learning_rate="lr",
    evaluation="set",
    accuracy_title="What it shows (accuracy, at least {share} of the control's)",
    accuracy_by_seed="accuracy by seed, %",
    best_checkpoint="best ckpt",
    points="points to control",
    share="share of control, %",
    primary="primary",
    group_title="{data}, {size}",
    study_title="{study}: {data}, {size}",
    reported_title="{data}, {size}, as reported by {study}",
    verdict_names={
        Verdict.BETTER: "better",
        Verdict.NON_INFERIOR: "non-inferior",
        Verdict.INFERIOR: "inferior",
        Verdict.UNDECIDED: "undecided",
        Verdict.NO_VERDICT: "no verdict",
    },
    verdicts={
        Verdict.BETTER: "better",
        Verdict.NON_INFERIOR: "non-inferior at the {margin} margin",
        Verdict.INFERIOR: "inferior to the {margin} margin",
        Verdict.UNDECIDED: "undecided at the {margin} margin",
        Verdict.NO_VERDICT: "no verdict, which takes {needed} paired seeds",
    },
    accuracy_verdicts={
        Verdict.BETTER: "better",
        Verdict.NON_INFERIOR: "at least {margin} of the control's accuracy is kept",
        Verdict.INFERIOR: "less than {margin} of the control's accuracy is kept",
        Verdict.UNDECIDED: "undecided whether {margin} of the control's accuracy is kept",
        Verdict.NO_VERDICT: "no verdict, which takes {needed} paired seeds",
    },
    also_measurably_worse=", yet measurably worse",
    plain_interval="95 % interval",
    adjusted_interval="95 % interval after Holm",
    finding=(
        "{arm}: perplexity x{ratio} ({interval} {lower} to {upper}, n = {pairs} paired seeds) of {control}: {verdict}."
    ),
    finding_without_interval=(
        "{arm}: perplexity x{ratio} (no interval, n = {pairs} paired seed) of {control}: {verdict}."
    ),
    finding_without_pairs="{arm} and {control} have no seed in common: {verdict}.",
    accuracy_finding=(
        "{arm} on {evaluation}: accuracy {points} points ({interval} {lower} to {upper}) to {control}, which is "
        "{share} of it ({share_lower} to {share_upper}; n = {pairs} paired seeds, {examples} examples): {verdict}."
    ),
    accuracy_without_interval=(
        "{arm} on {evaluation}: accuracy {points} points to {control}, which is {share} of it "
        "(no interval, n = {pairs} paired seed): {verdict}."
    ),
    no_control=(
        "{arm}: no control among these runs, so no ratio and no verdict. "
        "Add runs of {control} (or of baseline) with the same settings and seeds."
    ),
    resolution="Smallest margin that this design could have shown: x{resolution}.",
    own_interval="From its own pairs alone: {lower} to {upper}.",
    variances_differ=("The arms scatter unequally, so the interval is from its own pairs; pooled: {lower} to {upper}."),
    primary_remark="The primary arm, stated before the runs: tested without correction.",
    add_runs="For a verdict, with all other settings as before: {commands}.",
    add_run="`oelm {verb} --method {method} --seed {seed}`",
    confound="Confound: {confound}.",
    confounds={
        ConfoundKind.SETTING: "{what} differs ({arm} against {control})",
        ConfoundKind.UNEQUAL_TUNING: "the learning rates were tuned differently: {what} {arm} against {control}",
        ConfoundKind.LOWEST_OF_GRID: (
            "{what} took the lowest learning rate of its grid ({arm}), so a lower one may be better"
        ),
        ConfoundKind.HIGHEST_OF_GRID: (
            "{what} took the highest learning rate of its grid ({arm}), so a higher one may be better"
        ),
        ConfoundKind.TUNING_SEED: "{what} is judged with the seed that its learning rate was chosen with ({arm})",
        ConfoundKind.EXTRAS: "extras differ ({arm} against {control}), so not only Q and K do",
        ConfoundKind.SCALE: (
            "rows of Q and K have norm {arm} and {control} at init, "
            "so a difference between the two may be one of scale, not of direction"
        ),
        ConfoundKind.SEEDS: "seeds differ ({arm} against {control}); only those in both are used",
        ConfoundKind.ONE_SEED: "one paired seed only, so the method cannot be told from chance",
        ConfoundKind.ENVIRONMENT: "{what} differs ({arm} against {control})",
        ConfoundKind.FREEZE_AUDIT: "frozen weights moved during training (seed {arm})",
        ConfoundKind.NO_FREEZE_AUDIT: "no freeze audit, so nobody can tell whether frozen weights stayed as they were",
        ConfoundKind.BEST_CHECKPOINT: "the figures are those of the best checkpoint, not of the last step",
        ConfoundKind.UNKNOWN_CHECKPOINT: "it is not known whether the figures are those of the last step",
    },
    planned_confound="{arm} against {control}: {confound}.",
    scale_gap=(
        "{one} against {other}: rows of Q and K have norm {one_norm} and {other_norm} at init, "
        "so a difference between the two may be one of scale, not of direction."
    ),
    blocks="Scatter is pooled over {arms} arms and the seeds {seeds}.",
    blocks_left_out=(
        "Scatter is pooled over {arms} arms and the seeds {seeds}; left out, as not in all arms: {left_out}."
    ),
    speed_bound="Speed: matmul FLOPs bound what a method can save on baseline's step: {shares}.",
    speed_measured="Measured time per step relative to the control, shown without a claim: {ratios}.",
    time_ratio="{arm} x{ratio}",
    speed_caveat="Times of runs side by side on a shared machine are not evidence.",
    exceeds_bound=(
        "{arm} took {saved} less time than {control}, but the method saves only {bound} of the arithmetic: "
        "something else differed."
    ),
    registered="Plan registered {when} by commit {commit}, {before}.",
    registered_first="before the first run",
    registered_late="when {runs} runs had already ended",
    with_changes="{commit} with uncommitted changes",
    amended="Amended since: {times}.",
    planned_missing="Planned runs that are missing: {runs}.",
    plan_not_here="Its file is not here, so planned runs that are missing cannot be named.",
    exploratory="Exploratory: no registered plan.",
    unfinished="Left out, as not finished: {folders}. A run that failed is a result too.",
    ablation_changes={
        AblationChange.FREEZING: "trained Q and K become frozen orthogonal ones",
        AblationChange.DIRECTION: "frozen orthogonal rows become random ones of the same length",
        AblationChange.DIRECTION_AND_SCALE: "frozen orthogonal rows become random and shorter ones",
        AblationChange.SCALE: "frozen random rows become shorter",
        AblationChange.INIT: "the init of trained Q and K becomes orthogonal",
        AblationChange.FREEZING_ALONE: "trained orthogonal Q and K become frozen",
    },
    trend_caveat="Data and size are not all that changes along this trend: {settings}.",
    trend_setting="{name} ({values})",
    beside="{arm} on {data}: {ours} here; {theirs} as reported for {id}{differs}.",
    beside_differs=", with other settings ({settings})",
    perplexity_figure="perplexity {perplexity}",
    ratio_figure="perplexity {perplexity} (x{ratio} of the control)",
    accuracy_figure="accuracy {accuracy}",
    footnotes=(
        "Perplexities are those of the last step, not of the best checkpoint; the mean is exp(mean loss).",
        "Ratios are paired by seed: both runs of a pair share batches and all weights outside the method.",
    ),
    pooled_footnote=(
        "Intervals use the scatter of all arms (arm + seed model); an arm whose pairs scatter more is judged by its "
        "own paired t-interval."
    ),
    family_footnote=(
        "The primary arm is tested uncorrected; the intervals of all others are widened after Holm, so that with 95 % "
        "confidence all their verdicts on the margin are right together."
    ),
    no_primary_footnote=(
        "No primary arm was stated, so all intervals are widened after Holm: with 95 % confidence all verdicts on the "
        "margin are right together."
    ),
    accuracy_footnotes=(
        "Verdict: is at least {share} of the control's accuracy kept?",
        "Intervals are from a crossed bootstrap over seeds and examples, with t quantiles for the few seeds: they "
        "speak of other seeds and other examples.",
        "Accuracies are those of the last step; the best checkpoint was chosen by hold-out loss.",
    ),
    reported_footnote="Figures are as the study reported them; nothing of it was run here.",
    trained_later="Trained weights include those that a freezing plan releases later.",
)

CHINESE = Texts(
    measured_title="测量结果",
    arm="方法",
    trained="可训练",
    frozen="冻结",
    perplexity_by_seed="各种子的困惑度",
    mean="均值",
    bits_per_byte="比特/字节",
    flops_saved="节省 FLOPs",
    step_time="毫秒/步",
    verdict_title="结论（困惑度之比，界限 {margin}）",
    against="对照：{control}",
    ratio="比值",
    interval="95 % 区间",
    verdict="判定",
    scale="│ = 1，┆ = 界限",
    learning_rate="学习率",
    evaluation="评测集",
    accuracy_title="结论（准确率，至少达到对照的 {share}）",
    accuracy_by_seed="各种子的准确率（%）",
    best_checkpoint="最佳检查点",
    points="与对照相差（百分点）",
    share="占对照的比例（%）",
    primary="主要",
    group_title="{data}，{size}",
    study_title="{study}：{data}，{size}",
    reported_title="{data}，{size}（数据引自{study}）",
    verdict_names={
        Verdict.BETTER: "更优",
        Verdict.NON_INFERIOR: "非劣效",
        Verdict.INFERIOR: "劣于界限",
        Verdict.UNDECIDED: "未定",
        Verdict.NO_VERDICT: "不作判定",
    },
    verdicts={
        Verdict.BETTER: "更优",
        Verdict.NON_INFERIOR: "在 {margin} 界限内非劣效",
        Verdict.INFERIOR: "超出 {margin} 界限，较差",
        Verdict.UNDECIDED: "在 {margin} 界限下尚无定论",
        Verdict.NO_VERDICT: "不作判定，判定需要 {needed} 个配对种子",
    },
    accuracy_verdicts={
        Verdict.BETTER: "更优",
        Verdict.NON_INFERIOR: "至少保持了对照准确率的 {margin}",
        Verdict.INFERIOR: "未能保持对照准确率的 {margin}",
        Verdict.UNDECIDED: "是否保持了对照准确率的 {margin} 尚无定论",
        Verdict.NO_VERDICT: "不作判定，判定需要 {needed} 个配对种子",
    },
    also_measurably_worse="，但可测地更差",
    plain_interval="95 % 区间",
    adjusted_interval="Holm 校正后的 95 % 区间",
    finding=(
        "{arm}：困惑度为 {control} 的 {ratio} 倍（{interval} {lower} 至 {upper}，n = {pairs} 个配对种子）：{verdict}。"
    ),
    finding_without_interval=("{arm}：困惑度为 {control} 的 {ratio} 倍（无区间，n = {pairs} 个配对种子）：{verdict}。"),
    finding_without_pairs="{arm} 与 {control} 没有共同的种子：{verdict}。",
    accuracy_finding=(
        "{arm} 在 {evaluation} 上：准确率与 {control} 相差 {points} 个百分点（{interval} {lower} 至 {upper}），"
        "为其 {share}（{share_lower} 至 {share_upper}；n = {pairs} 个配对种子，{examples} 个样本）：{verdict}。"
    ),
    accuracy_without_interval=(
        "{arm} 在 {evaluation} 上：准确率与 {control} 相差 {points} 个百分点，为其 {share}"
        "（无区间，n = {pairs} 个配对种子）：{verdict}。"
    ),
    no_control=(
        "{arm}：这些运行中没有它的对照，因此没有比值，也不作判定。"
        "请以相同的设置和种子补充 {control}（或 baseline）的运行。"
    ),
    resolution="本设计所能证实的最小界限：{resolution} 倍。",
    own_interval="仅用其自身配对差值所得的区间：{lower} 至 {upper}。",
    variances_differ="各组离散程度不一，故区间仅由其自身配对差值得出；合并估计为 {lower} 至 {upper}。",
    primary_remark="主要实验组，运行之前已声明：检验不作校正。",
    add_runs="要得出判定，请在其余设置不变的情况下运行：{commands}。",
    add_run="`oelm {verb} --method {method} --seed {seed}`",
    confound="混杂因素：{confound}。",
    confounds={
        ConfoundKind.SETTING: "{what} 不同（{arm} 对 {control}）",
        ConfoundKind.UNEQUAL_TUNING: "学习率的调优方式不同：{what} 为 {arm} 对 {control}",
        ConfoundKind.LOWEST_OF_GRID: "{what} 选中了网格中最低的学习率（{arm}），更低的值可能更好",
        ConfoundKind.HIGHEST_OF_GRID: "{what} 选中了网格中最高的学习率（{arm}），更高的值可能更好",
        ConfoundKind.TUNING_SEED: "{what} 的评判重复使用了选取学习率时的种子（{arm}）",
        ConfoundKind.EXTRAS: "附加组件不同（{arm} 对 {control}），差别不仅在于 Q 和 K",
        ConfoundKind.SCALE: "初始化时 Q、K 的行范数分别为 {arm} 和 {control}，两者之差可能源于尺度而非方向",
        ConfoundKind.SEEDS: "种子不同（{arm} 对 {control}），只使用双方共有的种子",
        ConfoundKind.ONE_SEED: "只有一个配对种子，无法区分方法的效果与偶然",
        ConfoundKind.ENVIRONMENT: "运行环境中的 {what} 不同（{arm} 对 {control}）",
        ConfoundKind.FREEZE_AUDIT: "被冻结的权重在训练中发生了变化（种子 {arm}）",
        ConfoundKind.NO_FREEZE_AUDIT: "没有冻结核查，无从得知被冻结的权重是否保持不变",
        ConfoundKind.BEST_CHECKPOINT: "所报数值取自最佳检查点，而非最后一步",
        ConfoundKind.UNKNOWN_CHECKPOINT: "不清楚所报数值是否取自最后一步",
    },
    planned_confound="{arm} 对 {control}：{confound}。",
    scale_gap=(
        "{one} 对 {other}：初始化时 Q、K 的行范数分别为 {one_norm} 和 {other_norm}，两者之差可能源于尺度而非方向。"
    ),
    blocks="离散程度由 {arms} 组、种子 {seeds} 合并估计。",
    blocks_left_out="离散程度由 {arms} 组、种子 {seeds} 合并估计；种子 {left_out} 并非各组都有，未纳入。",
    speed_bound="速度：矩阵乘法的 FLOPs 决定了一种方法最多能在 baseline 的一步中节省多少：{shares}。",
    speed_measured="实测每步时间与对照之比，仅供参考，不作论断：{ratios}。",
    time_ratio="{arm} {ratio} 倍",
    speed_caveat="在共享机器上并行运行所得的时间不能作为证据。",
    exceeds_bound="{arm} 比 {control} 少用 {saved} 的时间，而该方法只节省 {bound} 的运算量：必有其他差别。",
    registered="计划登记于 {when}，提交 {commit}，{before}。",
    registered_first="先于首次运行",
    registered_late="其时已有 {runs} 次运行结束",
    with_changes="{commit}（含未提交的更改）",
    amended="此后修订次数：{times}。",
    planned_missing="计划内缺失的运行：{runs}。",
    plan_not_here="此处没有计划文件，无法列出缺失的运行。",
    exploratory="探索性结果：没有登记的计划。",
    unfinished="未完成，故未计入：{folders}。失败的运行同样是结果。",
    ablation_changes={
        AblationChange.FREEZING: "可训练的 Q、K 换成冻结的正交矩阵",
        AblationChange.DIRECTION: "冻结的正交行换成同样长度的随机行",
        AblationChange.DIRECTION_AND_SCALE: "冻结的正交行换成更短的随机行",
        AblationChange.SCALE: "冻结的随机行变短",
        AblationChange.INIT: "可训练的 Q、K 改用正交初始化",
        AblationChange.FREEZING_ALONE: "可训练的正交 Q、K 改为冻结",
    },
    trend_caveat="沿此趋势变化的不只是数据和规模：{settings}。",
    trend_setting="{name}（{values}）",
    beside="{arm}（{data}）：此处{ours}；{id} 原报告{theirs}{differs}。",
    beside_differs="，设置有所不同（{settings}）",
    perplexity_figure="困惑度 {perplexity}",
    ratio_figure="困惑度 {perplexity}（对照的 {ratio} 倍）",
    accuracy_figure="准确率 {accuracy}",
    footnotes=(
        "困惑度取自最后一步，而非最佳检查点；均值为 exp(平均损失)。",
        "比值按种子配对：一对运行共用相同的批次以及方法之外的全部权重。",
    ),
    pooled_footnote="区间使用所有组的离散程度（组 + 种子模型）；若某组的配对差值更为离散，则改用其自身的配对 t 区间。",
    family_footnote=(
        "主要实验组的检验不作校正；其余各组的区间按 Holm 方法加宽，使它们关于界限的全部判定以 95 % 的置信度同时成立。"
    ),
    no_primary_footnote=(
        "未事先声明主要实验组，因此所有区间都按 Holm 方法加宽：关于界限的全部判定以 95 % 的置信度同时成立。"
    ),
    accuracy_footnotes=(
        "判定标准：是否至少保持了对照准确率的 {share}。",
        "区间来自对种子和样本的交叉自助法，并因种子较少而采用 t 分位数：结论适用于其他种子和其他样本。",
        "准确率取自最后一步；最佳检查点按留出集损失选取。",
    ),
    reported_footnote="数值均为该研究所报告，此处未作任何运行。",
    trained_later="可训练权重包括冻结方案在后期释放的部分。",
)

TEXTS: Mapping[Language, Texts] = {Language.ENGLISH: ENGLISH, Language.CHINESE: CHINESE}
