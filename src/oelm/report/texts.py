"""Every text that a reader sees, in both languages side by side, by its id.

Names in braces are filled in; units stand in the texts or beside the value (`numerals.py`), never in the value.
What a measure is called stands in the measure.
"""

from enum import StrEnum

from oelm.config.measure import Bilingual, Measure


class Language(StrEnum):
    """A language of the report, by its code."""

    ENGLISH = "en"
    CHINESE = "zh"


class Texts:
    """The texts of one language: `say("arm")`, `say("at_edge", arm="oelm")`."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._place = list(Language).index(language)

    def __call__(self, text: str, **values: object) -> str:
        """The text of this id, filled in."""
        found = TEXTS[text][self._place]
        return found.format(**values) if values else found

    def of(self, text: Bilingual) -> str:
        """A text that a record or a measure brings along."""
        return text.chinese if self.language is Language.CHINESE else text.english

    def name(self, measure: Measure) -> str:
        """What a measure is called."""
        return self.of(measure.title)

    def unit(self, measure: Measure) -> str:
        """The unit of a measure after its name in a heading."""
        return self("percent_unit") if measure.percent else ""


ENGLISH = Texts(Language.ENGLISH)

TEXTS: dict[str, tuple[str, str]] = {
    # the page
    "other_language": ("中文", "English"),
    "facts": (
        "{runs} runs: {arms} arms, seeds {seeds}, {steps} steps",
        "{runs} 次运行：{arms} 组，种子 {seeds}，{steps} 步",
    ),
    "group_title": ("{data}, {size}", "{data}，{size}"),
    "study_title": ("{study}: {data}, {size}", "{study}：{data}，{size}"),
    "reported_title": ("{data}, {size}, as reported by {study}", "{data}，{size}（数据引自{study}）"),
    # headings of columns
    "arm": ("method", "方法"),
    "data": ("data", "数据"),
    "size": ("size", "规模"),
    "learning_rate": ("learning rate", "学习率"),
    "trained": ("trained", "训练"),
    "frozen": ("frozen", "冻结"),
    "absent": ("absent", "无矩阵"),
    "by_seed": ("by seed", "各种子"),
    "measure_by_seed": ("{measure} by seed{unit}", "各种子的{measure}{unit}"),
    "percent_unit": (", %", "（%）"),
    "mean": ("mean", "均值"),
    "best_checkpoint": ("best checkpoint", "最佳检查点"),
    "points_to_control": ("points to control", "与对照相差（百分点）"),
    "to_control": ("difference to control", "与对照之差"),
    "estimate": ("estimate", "估计值"),
    "estimate.ratio": ("ratio", "比值"),
    "estimate.share": ("share of control", "占对照的比例"),
    "estimate.difference": ("difference", "差"),
    "measure_estimate.ratio": ("{measure} ratio", "{measure}之比"),
    "measure_estimate.share": ("share of control", "占对照的比例"),
    "measure_estimate.difference": ("difference of {measure}", "{measure}之差"),
    "interval": ("95 % interval", "95 % 区间"),
    "pairs": ("n", "n"),
    "verdict": ("verdict", "结论"),
    "flops_saved": ("FLOPs saved", "节省 FLOPs"),
    "step_time": ("ms/step", "毫秒/步"),
    # the answer
    "limit.ratio": ("margin", "界限"),
    "limit.share": ("to be kept", "须保持"),
    "limit.difference": ("margin", "界限"),
    "point": ("{value} point", "{value} 个百分点"),
    "points": ("{value} points", "{value} 个百分点"),
    "against": ("vs {control}", "对照：{control}"),
    "control": ("beside", "对照"),
    "primary_arm": ("the primary arm: the study's question", "主要实验组：研究所问的问题"),
    "seed": ("seed {seed}", "种子 {seed}"),
    "forest_caption": (
        "solid line: no difference · dashed: margin {margin} · open dots: seeds",
        "实线：无差异 · 虚线：界限 {margin} · 空心点：各种子",
    ),
    "forest_marks": ("│ equal  ┆ margin", "│ 相等  ┆ 界限"),
    "confound_count": ("confounds: {count}", "混杂因素：{count}"),
    "confounds_heading": ("What else could explain it", "还有什么可以解释它"),
    "no_confounds": ("Nothing was found: the arms differ in the method only.", "未发现：两组只在方法上不同。"),
    "nothing_compared": ("No arm here has a control to compare it with.", "这里没有带对照的实验组可供比较。"),
    "title.ratio": ("What it shows ({measure} ratio, margin {criterion})", "结论（{measure}之比，界限 {criterion}）"),
    "title.share": ("What it shows ({measure}, at least {criterion} kept)", "结论（{measure}，至少保持 {criterion}）"),
    "title.difference": ("What it shows ({measure}, margin {criterion})", "结论（{measure}之差，界限 {criterion}）"),
    "on_set": (" on {set}", "（{set}）"),
    # verdicts
    "verdict.better": ("better", "更优"),
    "verdict.non-inferior": ("non-inferior", "非劣效"),
    "verdict.inferior": ("inferior", "劣于界限"),
    "verdict.undecided": ("undecided", "未定"),
    "verdict.no verdict": ("no verdict", "不作判定"),
    "judged.better": ("better", "更优"),
    "judged.no verdict": ("no verdict, which takes {needed} paired seeds", "不作判定，判定需要 {needed} 个配对种子"),
    "judged.margin.non-inferior": ("non-inferior at the {criterion} margin", "在 {criterion} 界限内非劣效"),
    "judged.margin.inferior": ("inferior to the {criterion} margin", "超出 {criterion} 界限，较差"),
    "judged.margin.undecided": ("undecided at the {criterion} margin", "在 {criterion} 界限下尚无定论"),
    "judged.share.non-inferior": (
        "at least {criterion} of the control's {measure} is kept",
        "至少保持了对照{measure}的 {criterion}",
    ),
    "judged.share.inferior": (
        "less than {criterion} of the control's {measure} is kept",
        "未能保持对照{measure}的 {criterion}",
    ),
    "judged.share.undecided": (
        "undecided whether {criterion} of the control's {measure} is kept",
        "是否保持了对照{measure}的 {criterion} 尚无定论",
    ),
    "also_measurably_worse": (", yet measurably worse", "，但可测地更差"),
    # in plain words
    "plain.exploratory": ("exploratory: ", "探索性结果："),
    "plain.better": (
        "{doing} ({arm}) made {measure} better here, by about {amount}",
        "{doing}（{arm}）在此使{measure}变好，约 {amount}",
    ),
    "plain.non_inferior": (
        "{doing} ({arm}) cost no more than {limit} in {measure} here",
        "{doing}（{arm}）在此使{measure}变差不超过 {limit}",
    ),
    "plain.non_inferior_yet_worse": (
        "{doing} ({arm}) did cost something in {measure} here, but no more than {limit}",
        "{doing}（{arm}）在此确使{measure}变差，但不超过 {limit}",
    ),
    "plain.inferior": (
        "{doing} ({arm}) cost more than {limit} in {measure} here: about {amount}",
        "{doing}（{arm}）在此使{measure}变差超过 {limit}：约 {amount}",
    ),
    "plain.undecided": (
        "we cannot say yet whether {doing} ({arm}) costs more than {limit} in {measure}: after {pairs} paired seeds "
        "anything from {best} to {worst} is possible",
        "尚不能断定{doing}（{arm}）是否使{measure}变差超过 {limit}：{pairs} 个配对种子之后，从{best}到{worst}都有可能",
    ),
    "plain.no_verdict": (
        "we cannot say yet what {doing} ({arm}) costs in {measure}: that takes {needed} paired seeds, and there are "
        "{pairs}",
        "尚不能断定{doing}（{arm}）使{measure}变差多少：这需要 {needed} 个配对种子，现有 {pairs} 个",
    ),
    "plain.withheld_no_outcomes": (
        "we cannot say what {doing} ({arm}) costs in {measure}: of some runs the single answers, which an interval is "
        "made of, are missing",
        "不能断定{doing}（{arm}）使{measure}变差多少：部分运行缺少逐条答案，无法得出区间",
    ),
    "plain.withheld_no_share": (
        "we cannot say what {doing} ({arm}) costs in {measure}: the control has next to nothing right, so there is "
        "nothing that could be kept",
        "不能断定{doing}（{arm}）使{measure}变差多少：对照几乎没有答对的，无从谈起保持",
    ),
    "plain.no_pair": (
        "we cannot say yet what {doing} ({arm}) costs in {measure}: it shares no seed with its control",
        "尚不能断定{doing}（{arm}）使{measure}变差多少：它与对照没有共同的种子",
    ),
    "plain.withheld_incomplete": (
        "we cannot say yet what {doing} ({arm}) costs in {measure}: planned runs or their figures are missing",
        "尚不能断定{doing}（{arm}）使{measure}变差多少：缺少计划内的运行或其结果",
    ),
    "plain.withheld_no_negative": (
        "we cannot say yet that {doing} ({arm}) is harmless in {measure}: figures of the negative control, which "
        "would show whether this study can tell, are missing",
        "尚不能说{doing}（{arm}）对{measure}无害：缺少阴性对照的结果，无从得知本研究能否分辨",
    ),
    "plain.withheld_not_learnt": (
        "nothing can be said of {doing} ({arm}) yet: its control has hardly learnt anything, with one seed at least, "
        "and is no yardstick",
        "关于{doing}（{arm}）尚无话可说：对照至少有一个种子几乎什么也没有学到，不能作为标准",
    ),
    "plain.withheld_cannot_tell": (
        "we cannot say that {doing} ({arm}) is harmless here: even attention that tells no token from another is not "
        "shown to cost more than the margin, so keeping within it proves little",
        "在此不能说{doing}（{arm}）无害：就连不分词元的注意力也未被证明超出界值，处于界值之内说明不了什么",
    ),
    "plain.reported_worse": (
        "as reported, {doing} ({arm}) cost {amount} in {measure}, with one seed: no verdict",
        "据其报告，{doing}（{arm}）使{measure}变差 {amount}，只有一个种子：不作判定",
    ),
    "plain.reported_better": (
        "as reported, {doing} ({arm}) made {measure} better by {amount}, with one seed: no verdict",
        "据其报告，{doing}（{arm}）使{measure}变好 {amount}，只有一个种子：不作判定",
    ),
    "plain.unchanged": ("no change", "不变"),
    "plain.better_by": ("{amount} better", "好 {amount}"),
    "plain.worse_by": ("{amount} worse", "差 {amount}"),
    "plain.saved_and": (", and saved {what}", "，并节省了 {what}"),
    "plain.saved_it": ("; it saved {what}", "；它节省了 {what}"),
    "plain.weights": ("{share} of the trained weights", "{share} 的训练权重"),
    "plain.arithmetic": ("{share} of the arithmetic", "{share} 的运算量"),
    "plain.and": (" and ", "和 "),
    "plain.saved_nothing": ("; it saves nothing", "；没有任何节省"),
    "plain.end": (".", "。"),
    "plain.confounded": (" Something else differed too, which may explain it.", "另有其他差别，或可解释此结果。"),
    "doing.frozen": ("freezing {what}", "冻结 {what}"),
    "doing.absent": ("leaving out {what}", "去掉 {what}"),
    "doing.partly": ("freezing {what} in part", "部分冻结 {what}"),
    "doing.changing": ("this method", "此方法"),
    "doing.and": (" and ", " 和 "),
    "doing.also": (" and ", "并"),
    "doing.query": ("Q", "Q"),
    "doing.key": ("K", "K"),
    "doing.feed-forward": ("the feed-forward layers", "前馈层"),
    # the drawing of attention
    "drawings": ("What every method trains, freezes and leaves out", "各方法训练、冻结和去掉的部分"),
    "partly": ("partly frozen", "部分冻结"),
    "draw.softmax": ("softmax", "softmax"),
    "draw.uniform": ("all alike", "一视同仁"),
    "draw.shared": ("same as Q", "与 Q 相同"),
    "role.feed-forward": ("feed-forward", "前馈层"),
    "role.key shift": ("key shift", "键移位"),
    "role.logit gain": ("gain", "增益"),
    "role.core": ("core", "核"),
    "role.low-rank update": ("low rank", "低秩更新"),
    "role.query and key bias": ("biases", "偏置"),
    # the study
    "kind.registered": ("registered plan", "计划已登记"),
    "kind.registered_late": ("plan registered after the first runs", "计划在首次运行之后才登记"),
    "kind.plan_not_here": ("exploratory, its registered plan is not here", "探索性，登记的计划不在此处"),
    "kind.exploratory": ("exploratory, no registered plan", "探索性，没有登记的计划"),
    "kind.reported": ("as reported, nothing was run here", "据其报告，此处未运行"),
    # the sentence on an arm
    "plain_interval": ("95 % interval", "95 % 区间"),
    "adjusted_interval": ("95 % interval after Holm", "Holm 校正后的 95 % 区间"),
    "looks_interval": ("95 % interval over all looks", "计入全部分析次数的 95 % 区间"),
    "finding.ratio": (
        "{arm}{on}: {measure} ×{value} ({interval} {lower} to {upper}, n = {pairs} paired seeds) of {control}: "
        "{verdict}.",
        "{arm}{on}：{measure}为 {control} 的 {value} 倍（{interval} {lower} 至 {upper}，n = {pairs} 个配对种子）："
        "{verdict}。",
    ),
    "finding.ratio.bare": (
        "{arm}{on}: {measure} ×{value} (no interval, n = {pairs} paired seed) of {control}: {verdict}.",
        "{arm}{on}：{measure}为 {control} 的 {value} 倍（无区间，n = {pairs} 个配对种子）：{verdict}。",
    ),
    "finding.share": (
        "{arm}{on}: {measure} {value} % of {control} ({interval} {lower} to {upper} %; {shown}n = {pairs} paired "
        "seeds, {examples} examples): {verdict}.",
        "{arm}{on}：{measure}为 {control} 的 {value} %（{interval} {lower} 至 {upper} %；{shown}n = {pairs} 个配对"
        "种子，{examples} 个样本）：{verdict}。",
    ),
    "finding.share.bare": (
        "{arm}{on}: {measure} {value} % of {control} ({shown}no interval, n = {pairs} paired seed): {verdict}.",
        "{arm}{on}：{measure}为 {control} 的 {value} %（{shown}无区间，n = {pairs} 个配对种子）：{verdict}。",
    ),
    "finding.difference": (
        "{arm}{on}: {measure} {value} ({interval} {lower} to {upper}, n = {pairs} paired seeds) to {control}: "
        "{verdict}.",
        "{arm}{on}：{measure}与 {control} 相差 {value}（{interval} {lower} 至 {upper}，n = {pairs} 个配对种子）："
        "{verdict}。",
    ),
    "finding.difference.bare": (
        "{arm}{on}: {measure} {value} (no interval, n = {pairs} paired seed) to {control}: {verdict}.",
        "{arm}{on}：{measure}与 {control} 相差 {value}（无区间，n = {pairs} 个配对种子）：{verdict}。",
    ),
    "shown_difference": ("{value} points, {lower} to {upper}; ", "相差 {value} 个百分点，{lower} 至 {upper}；"),
    "shown_difference.bare": ("{value} points; ", "相差 {value} 个百分点；"),
    "finding.none": ("{arm} and {control} share no seed: {verdict}.", "{arm} 与 {control} 无共同种子：{verdict}。"),
    "no_control": (
        "{arm}: no control among these runs, so nothing to compare it with and no verdict. Add runs of {controls} "
        "with the same settings and seeds.",
        "{arm}：这些运行中没有它的对照，因此没有比较，也不作判定。请以相同的设置和种子补充 {controls} 的运行。",
    ),
    "smallest": (
        "Smallest margin that this design could have shown: {value}. Probability of lying within the margin: {within}.",
        "本设计可证实的最小界限：{value}。落在界限之内的概率：{within}。",
    ),
    "own_interval": ("From its own pairs alone: {lower} to {upper}.", "仅由其自身配对差值：{lower} 至 {upper}。"),
    "variances_differ": (
        "The arms scatter unequally, so the interval is from its own pairs; pooled: {lower} to {upper}.",
        "各组离散程度不一，故区间仅由其自身配对差值得出；合并估计为 {lower} 至 {upper}。",
    ),
    "text_moves": (
        "Another validation text of this kind would move the ratio by {by} ({interval} over {blocks} blocks of whole "
        "documents, with these seeds).",
        "换一段同类的验证文本，比值会变动 {by}（对 {blocks} 个由完整文档组成的文本块的 {interval}，种子不变）。",
    ),
    "text_exceeds_seeds": (
        " That is more than other seeds would: the verdict holds for this validation text.",
        "这大于更换种子的影响：判定只对这段验证文本成立。",
    ),
    "withheld.no-outcomes": ("no verdict, because single answers are missing", "不作判定，因为缺少逐条答案"),
    "withheld.no-share": (
        "no verdict, because the control has next to nothing right",
        "不作判定，因为对照几乎没有答对的",
    ),
    "withheld.incomplete": (
        "no verdict, because planned runs or their figures are missing",
        "不作判定，因为缺少计划内的运行或其结果",
    ),
    "withheld.no-negative": (
        "no verdict, because figures of the negative control are missing",
        "不作判定，因为缺少阴性对照的结果",
    ),
    "withheld.not-learnt": (
        "no verdict, because the control has hardly learnt anything",
        "不作判定，因为对照几乎什么也没有学到",
    ),
    "withheld.cannot-tell": (
        "no verdict, because the negative control did not fail either",
        "不作判定，因为阴性对照同样没有失败",
    ),
    "more_seeds": (
        "Further seeds that would decide it if difference and scatter stay as they are: {count}. The plan allows for "
        "{looks} analyses in all.",
        "若差异与离散程度不变，还需 {count} 个种子即可定论。计划共允许 {looks} 次分析。",
    ),
    "more_seeds_new_plan": (
        "Further seeds that would decide it if difference and scatter stay as they are: {count}; they count only under "
        "a plan that allowed for them (`looks`), or in a new study.",
        "若差异与离散程度不变，还需 {count} 个种子即可定论；须由事先允许追加的计划（`looks`）或新的研究来做。",
    ),
    "over": ("more than {number}", "超过 {number}"),
    "primary_remark": ("The primary arm, stated before the runs: not corrected.", "主要实验组，运行前声明：不校正。"),
    "primary_unregistered": (
        "The primary arm by the records of the runs, without a registered plan that would prove it: not corrected.",
        "主要实验组依运行记录所述，没有登记的计划为证：不校正。",
    ),
    "primary_corrected": (
        "The primary arm, but corrected here like all others: it stands uncorrected on the study's first measure only, "
        "and on several data sets only if it holds on all of them.",
        "主要实验组，但在此与其他各组一样校正：仅在研究的第一项指标上不校正，若有多个数据集，还须在全部数据集上成立。",
    ),
    "primary_amended": (
        "The primary arm, named before the runs; its plan was amended after runs had ended: all arms corrected.",
        "主要实验组，运行之前即已指定；其计划在已有运行结束之后修订：所有组均校正。",
    ),
    "primary_after": ("Chosen after the runs: all arms corrected.", "运行之后才选定：所有组均校正。"),
    "after.primary": (
        "The primary arm was chosen after the runs (before: {before}; now: {now}): all arms corrected.",
        "主要实验组在运行之后才选定（此前：{before}；现在：{now}）：所有组均校正。",
    ),
    "after.plan": (
        "These runs were made under several plans: all arms corrected.",
        "这些运行属于多个登记的计划：所有组均校正。",
    ),
    "after.margin": (
        "The margin was chosen after the runs (before: {before}; now: {now}): all arms corrected.",
        "界限在运行之后才选定（此前：{before}；现在：{now}）：所有组均校正。",
    ),
    "add_runs": ("For a verdict: {commands}.", "要得出判定，请运行：{commands}。"),
    "confound": ("Confound: {confound}.", "混杂因素：{confound}。"),
    "planned_confound": ("{arm} against {control}: {confound}.", "{arm} 对 {control}：{confound}。"),
    "confound.setting": ("{what} differs ({arm} against {control})", "{what} 不同（{arm} 对 {control}）"),
    "confound.unequal-tuning": (
        "the learning rates were tuned differently: {what} {arm} against {control}",
        "学习率的调优方式不同：{what} 为 {arm} 对 {control}",
    ),
    "confound.lowest-of-grid": (
        "{what} took the lowest learning rate of its grid ({arm}), so a lower one may be better",
        "{what} 选中了网格中最低的学习率（{arm}），更低的值可能更好",
    ),
    "confound.highest-of-grid": (
        "{what} took the highest learning rate of its grid ({arm}), so a higher one may be better",
        "{what} 选中了网格中最高的学习率（{arm}），更高的值可能更好",
    ),
    "confound.two-minima": (
        "{what} did about equally well at two learning rates with worse ones between them ({arm} and {control}): "
        "which of them serves a whole run better is not known",
        "{what} 在两个学习率（{arm} 与 {control}）下表现相近，而其间的学习率更差：完整运行中何者更好尚不清楚",
    ),
    "confound.tuning-seed": (
        "{what} is judged with the seed that its learning rate was chosen with ({arm})",
        "{what} 的评判重复使用了选取学习率时的种子（{arm}）",
    ),
    "confound.extras": (
        "extras differ ({arm} against {control}), so not only Q and K do",
        "附加组件不同（{arm} 对 {control}），差别不仅在于 Q 和 K",
    ),
    "confound.scale": (
        "rows of Q and K have norm {arm} and {control} at init, so a difference between the two may be one of scale, "
        "not of direction",
        "初始化时 Q、K 的行范数分别为 {arm} 和 {control}，两者之差可能源于尺度而非方向",
    ),
    "confound.seeds": (
        "seeds differ ({arm} against {control}); only those in both are used",
        "种子不同（{arm} 对 {control}），只使用双方共有的种子",
    ),
    "confound.one-seed": (
        "one paired seed only: method and chance cannot be told apart",
        "只有一个配对种子，无法排除偶然",
    ),
    "confound.environment": ("{what} differs ({arm} against {control})", "环境中的 {what} 不同（{arm} 对 {control}）"),
    "confound.two-seeds": (
        "two paired seeds only: there will be an interval, but no verdict",
        "只有两个配对种子：有区间，但不作判定",
    ),
    "confound.no-control": ("its control is not among the runs", "这些运行中没有它的对照"),
    "confound.uncommitted": (
        "{what} was computed with uncommitted changes of the source (seed {arm})",
        "{what} 运行时源代码含未提交的更改（种子 {arm}）",
    ),
    "confound.freeze-audit": (
        "frozen weights of {what} moved during training (seed {arm})",
        "{what} 的冻结权重在训练中变了（种子 {arm}）",
    ),
    "confound.not-trained": (
        "weights of {what} that should have been trained stayed as they were (seed {arm})",
        "{what} 中本应训练的权重没有变（种子 {arm}）",
    ),
    "confound.no-freeze-audit": (
        "no freeze audit, so nobody can tell whether frozen weights stayed as they were",
        "没有冻结核查，无从得知被冻结的权重是否保持不变",
    ),
    "confound.best-checkpoint": ("the figures are of the best checkpoint, not of the last step", "数值取自最佳检查点"),
    "confound.unknown-checkpoint": ("it is not known whether the figures are of the last step", "不知数值是否取自末步"),
    # remarks on an experiment
    "assay.learnt": (
        "{control} has learnt: its loss is {share} of that of a prediction that looks at nothing; over the last fifth "
        "of the steps it changed by {change}.",
        "{control} 已学到东西：其损失为不看输入的预测的 {share}；在最后五分之一的步数里变化了 {change}。",
    ),
    "assay.not_learnt": (
        "{control} has hardly learnt anything: the loss of its worst run is {share} of that of a prediction that looks "
        "at nothing, and over the last fifth of the steps it changed by {change}. That is no yardstick.",
        "{control} 几乎什么也没有学到：其最差一次运行的损失为不看输入的预测的 {share}，在最后五分之一的步数里变化了 "
        "{change}。它不能作为标准。",
    ),
    "assay.not_known": (
        "How much {control} has learnt is not known: its records do not hold the entropy of their data. Over the last "
        "fifth of the steps its loss changed by {change}.",
        "{control} 学到了多少尚不得知：其记录没有数据的熵。在最后五分之一的步数里损失变化了 {change}。",
    ),
    "assay.fails": (
        "The negative control {arm} fails, as it must: this study can tell arms apart.",
        "阴性对照 {arm} 如预期失败：本研究能够区分各组。",
    ),
    "assay.does_not_fail": (
        "The negative control {arm} is not shown to fail at this margin: an arm that keeps within it may be no better.",
        "阴性对照 {arm} 在该界值下未被证明失败：处于界值之内的组未必更好。",
    ),
    "assay.no_negative": (
        "Without a negative control (`blind`) that has seeds enough for a verdict it is not shown that this study can "
        "tell arms apart.",
        "没有种子足够的阴性对照（`blind`），本研究能否区分各组未经证明。",
    ),
    "pooled": ("Scatter is pooled over {arms} arms and the seeds {seeds}.", "离散度由 {arms} 组、种子 {seeds} 合并。"),
    "pooled_left_out": (
        "Scatter is pooled over {arms} arms and the seeds {seeds}; left out, as not in all arms: {left_out}.",
        "离散程度由 {arms} 组、种子 {seeds} 合并估计；种子 {left_out} 并非各组都有，未纳入。",
    ),
    "speed_bound": (
        "Speed: matmul FLOPs bound what a method can save on baseline's step: {shares}.",
        "速度：矩阵乘法的 FLOPs 决定了一种方法最多能在 baseline 的一步中节省多少：{shares}。",
    ),
    "speed_measured": (
        "Measured time per step relative to the control, shown without a claim: {ratios}. Times of runs side by side "
        "on a shared machine are not evidence.",
        "实测每步时间与对照之比，仅供参考，不作论断：{ratios}。在共享机器上并行运行所得的时间不能作为证据。",
    ),
    "exceeds_bound": (
        "{arm} took {saved} less time than {control}, but the method saves only {bound} of the arithmetic: something "
        "else differed.",
        "{arm} 比 {control} 少用 {saved} 的时间，而该方法只节省 {bound} 的运算量：必有其他差别。",
    ),
    "registered": ("Plan registered {when} by commit {commit}, {before}.", "登记于 {when}，提交 {commit}，{before}。"),
    "registered_first": ("before the first run", "先于首次运行"),
    "registered_late": ("when {runs} runs had already ended", "其时已有 {runs} 次运行结束"),
    "with_changes": ("{commit} with uncommitted changes", "{commit}（含未提交的更改）"),
    "amended": ("Amended since: {times}.", "此后修订次数：{times}。"),
    "planned_missing": ("Planned runs that are missing: {runs}.", "计划内缺失的运行：{runs}。"),
    "and_more": ("and {count} more", "另有 {count} 次"),
    "diverged_runs": ("Of these diverged: {count} ({runs}).", "其中发散：{count}（{runs}）。"),
    "failed_runs": ("Of these failed: {count} ({runs}).", "其中失败：{count}（{runs}）。"),
    "added_runs": (
        "Runs beyond the plan, which are not judged: {count} ({runs}).",
        "计划之外的运行，不计入判定：{count}（{runs}）。",
    ),
    "looks": (
        "The plan allows for {looks} analyses with more and more seeds, each at 5 % / {looks}.",
        "计划允许在不断增加种子的情况下分析 {looks} 次，每次水平为 5 % / {looks}。",
    ),
    "unlike_runs": (
        "Runs with other settings than the plan has, which are not judged: {count} ({runs}).",
        "设置与计划不符、不作判定的运行：{count}（{runs}）。",
    ),
    "changed_after": (
        "Changed by an amendment after runs had ended: {what}. All arms corrected.",
        "已有运行结束之后才修订：{what}。所有组均校正。",
    ),
    "all_corrected": (
        "Primary arm and margin were not fixed before the runs: all arms corrected.",
        "主要实验组和界限并非在运行前确定：所有组均校正。",
    ),
    "ended.diverged": ("diverged", "发散"),
    "ended.failed": ("failed", "失败"),
    "better_rate": (
        "{arm}: by its tuning records {rate} was better than the rate that was chosen ({used}).",
        "{arm}：按其调参记录，{rate} 优于所选的学习率（{used}）。",
    ),
    "unchecked_choices": (
        "The choice of learning rates cannot be checked, as these tuning records are not here: {arms}.",
        "无法核查学习率的选择，此处缺少这些调参记录：{arms}。",
    ),
    "plan_not_here": ("Its file is not here: missing runs cannot be named.", "此处没有计划文件，无法列出缺失的运行。"),
    "exploratory": ("Exploratory: no registered plan.", "探索性结果：没有登记的计划。"),
    "damaged": (
        "Left out, as their records are damaged: {problems}.",
        "记录已损坏，故未计入：{problems}。",
    ),
    "unfinished": (
        "Left out, as not finished: {folders}. A run that failed is a result too.",
        "未完成，故未计入：{folders}。失败的运行同样是结果。",
    ),
    # footnotes
    "note.ratio": (
        "Values of {measure} are those of the last step, not of the best checkpoint; means over seeds are geometric.",
        "{measure}取自最后一步，而非最佳检查点；各种子的均值为几何均值。",
    ),
    "note.share": (
        "Verdict: is at least {criterion} of the control's {measure} kept? Values are those of the last step; the best "
        "checkpoint was chosen by {best_by}.",
        "判定标准：是否至少保持了对照{measure}的 {criterion}。数值取自最后一步；最佳检查点按{best_by}选取。",
    ),
    "best_by_holdout": ("hold-out loss", "留出集损失"),
    "best_by_set": (
        "{measure} on {sets} itself, so that its value there is a little too good",
        "{sets} 上的{measure}（因此其在该集上的数值略偏高）",
    ),
    "note.difference": ("Values of {measure} are those of the last step.", "{measure}取自最后一步，而非最佳检查点。"),
    "note.run": (
        "Arms are paired by seed: both runs of a pair share batches and all weights outside the method.",
        "各组按种子配对：一对运行共用相同的批次以及方法之外的全部权重。",
    ),
    "note.example": (
        "Intervals are from a crossed bootstrap over seeds and examples, with t quantiles for the few seeds: they "
        "speak of other seeds and other examples.",
        "区间来自对种子和样本的交叉自助法，并因种子较少而采用 t 分位数：结论适用于其他种子和其他样本。",
    ),
    "note.pooled": (
        "Intervals use the scatter of all arms (arm + seed model); an arm whose pairs scatter more is judged by its "
        "own paired t-interval.",
        "区间使用所有组的离散程度（组 + 种子模型）；若某组的配对差值更为离散，则改用其自身的配对 t 区间。",
    ),
    "note.primary": (
        "The primary arm is tested uncorrected; the intervals of all others are widened after Holm, so that with 95 % "
        "confidence all their verdicts on the margin are right together.",
        "主要实验组的检验不作校正；其余各组的区间按 Holm 方法加宽，使它们关于界限的全部判定以 95 % 的置信度同时成立。",
    ),
    "note.no_primary": (
        "No primary arm stands uncorrected here, so all intervals are widened after Holm: with 95 % confidence all "
        "verdicts on the margin are right together.",
        "此处没有不作校正的主要实验组，因此所有区间都按 Holm 方法加宽：关于界限的全部判定以 95 % 的置信度同时成立。",
    ),
    "note.reported": ("Figures are as the study reported them; nothing was run here.", "数值为其所报告，此处未运行。"),
    "note.later": ("Trained weights include those that a plan releases later.", "可训练权重包括后期释放的部分。"),
    # sections
    "overview": ("All experiments", "全部实验"),
    "measured": ("What was measured", "测得的结果"),
    "measured.lead": (
        "{measure}{on} after the last step. An absent weight has no matrix at all; a frozen one exists and never "
        "changes.",
        "最后一步之后的{measure}{on}。“无矩阵”的权重根本不存在；冻结的权重存在但从不改变。",
    ),
    "reported_figures": ("What was reported", "已报告的结果"),
    "statistics": ("The statistics", "统计"),
    "comparisons": ("Every comparison", "逐项比较"),
    "comparisons.lead": (
        "Each arm with what this design could have shown, and what else could explain the difference.",
        "每个实验组，连同此设计本可显示的差异，以及差异的其他可能解释。",
    ),
    "curves": ("Learning curves", "学习曲线"),
    "curves.lead": (
        "Lines are means over seeds, bands reach from the lowest seed to the highest. Point at the chart for the "
        "values of all seeds; press a name to hide its curves.",
        "线为各种子的均值，带从最低的种子到最高的种子。将指针移到图上可查看所有种子的数值；点击名称可隐藏其曲线。",
    ),
    "curve.loss": ("loss", "损失"),
    "curve.ratio": ("ratio to control", "与对照之比"),
    "curve.steps": ("steps", "步数"),
    "curve.tokens": ("tokens", "词元数"),
    "curve.time": ("time", "时间"),
    "curve.validation": ("validation", "验证集"),
    "curve.training": ("training", "训练集"),
    "curve.whole": ("whole run", "全程"),
    "curve.end": ("second half", "后半程"),
    "curve.means": ("means", "均值"),
    "curve.seeds": ("all seeds", "所有种子"),
    "curve.lowest": ("lowest", "最低"),
    "curve.highest": ("highest", "最高"),
    "nothing_to_draw": ("Nothing to draw for this choice.", "此选择没有可绘制的数据。"),
    "needs_script": ("The curves are drawn by a script, which does not run here.", "曲线由脚本绘制，此处脚本未运行。"),
    "samples": ("The same beginnings, continued", "同样的开头，各自续写"),
    "samples.lead": (
        "Each model drew with the same random numbers; one run of each method. To be read, not judged: figures are "
        "below.",
        "各模型使用相同的随机数；每种方法一次运行。仅供阅读，不作判断：数字见下。",
    ),
    "heads": ("Where every head looks", "每个头看向何处"),
    "heads.lead": (
        "On random tokens that come twice, in percent: layers from the bottom up, heads from left to right. Entropy: "
        "100 looks at all places alike, 0 at one. The others: how much of the look goes to that place.",
        "随机词元重复两次，单位为百分比：层自下而上，头自左而右。熵：100 表示同等看待所有位置，0 表示只看一处。"
        "其余：投向该处的注意力。",
    ),
    "text_uncertainty": ("What another text might have shown", "换一段文本会怎样"),
    "text_uncertainty.lead": (
        "Two models on the same tokens or items, with 95 % over these alone: the seed is given, the text is a sample. "
        "The intervals of verdicts are over seeds.",
        "两个模型在同样的词元或题目上之差，95 % 区间只针对这些文本：种子给定，文本为样本。判定所用的区间针对种子。",
    ),
    "seed_column": ("seed", "种子"),
    "measured_by": ("measure", "指标"),
    "model_against": ("against", "相对于"),
    "text_interval": ("95 % over the text", "文本的 95 % 区间"),
    "other_text": ("another text", "换一段文本"),
    "other_text_by": ("another text {by}", "换一段文本 {by}"),
    "ablation": ("What each part is worth", "各部分的作用"),
    "ablation.lead": (
        "Each row changes one thing and compares {measure} after the change with that before. A row that is judged "
        "above has the interval of its verdict; the others are plain 95 % intervals, not corrected for there being "
        "several.",
        "每行只改变一处，比较改变之后与之前的{measure}。上文已作判定者，区间即判定所用；其余为未作校正的 95 % 区间。",
    ),
    "change": ("change", "改变"),
    "from_arm": ("from", "从"),
    "to_arm": ("to", "到"),
    "confounds": ("confounds", "混杂因素"),
    "ablation.freezing": ("trained Q and K become frozen orthogonal ones", "可训练的 Q、K 换成冻结的正交矩阵"),
    "ablation.direction": ("frozen orthogonal rows become random, of equal length", "冻结的正交行换成等长的随机行"),
    "ablation.direction-and-scale": (
        "frozen orthogonal rows become random, of another length",
        "冻结的正交行换成长度不同的随机行",
    ),
    "ablation.scale": ("frozen random rows change their length", "冻结的随机行改变长度"),
    "ablation.init": ("the init of trained Q and K becomes orthogonal", "可训练的 Q、K 改用正交初始化"),
    "ablation.freezing-alone": ("trained orthogonal Q and K become frozen", "可训练的正交 Q、K 改为冻结"),
    "price": ("Quality against saving", "质量与节省"),
    "price.lead": (
        "Each method against its own control: how much worse or better, with its interval, and what it saves. Below "
        "the dashed line is within the margin.",
        "每种方法与其对照相比：好坏程度及其区间，以及所节省的。虚线以下即在界限之内。",
    ),
    "price.lead_higher": (
        "Each method against its own control: how much worse or better, with its interval, and what it saves. Above "
        "the dashed line is within the margin.",
        "每种方法与其对照相比：好坏程度及其区间，以及所节省的。虚线以上即在界限之内。",
    ),
    "arithmetic_saved": ("arithmetic saved", "节省的运算量"),
    "weights_saved": ("trained weights saved", "节省的训练权重"),
    "resources": ("Result against cost", "结果与代价"),
    "resources.lead": (
        "Each arm with what it used. Filled dots are means, open ones are seeds.",
        "每个实验组及其所耗。实心点为均值，空心点为各种子。",
    ),
    "trained_query_key": ("trained share of Q and K", "Q、K 中训练的比例"),
    "training_time": ("training time", "训练时间"),
    "speed": ("Speed and memory", "速度与内存"),
    "speed.lead": (
        "Arithmetic bounds what a method can save: it cannot save a larger share of the time than of the FLOPs by "
        "computing less. Times of runs side by side on a shared machine are not evidence.",
        "算术决定了方法所能节省的上限：少做计算所节省的时间比例，不可能超过所节省的 FLOPs 比例。"
        "在共享机器上并行运行所测的时间不能作为证据。",
    ),
    "flops_bound": ("FLOPs saved (bound)", "节省的 FLOPs（上限）"),
    "time_saved": ("time saved", "节省的时间"),
    "tokens_per_second": ("tokens/s", "词元/秒"),
    "validation_share": ("of it validation", "其中验证"),
    "peak_memory": ("peak memory", "峰值内存"),
    "memory_saved": ("memory saved", "节省的内存"),
    "audit": ("Freeze audit", "冻结审计"),
    "audit.lead": (
        "Frozen means byte-equal at the end; trained means that every tensor moved.",
        "冻结意味着结束时逐字节相等；训练意味着每个张量都已改变。",
    ),
    "frozen_tensors": ("frozen tensors", "冻结的张量"),
    "later_tensors": ("trained later", "之后训练"),
    "trained_tensors": ("trained tensors", "训练的张量"),
    "skipped_steps": (
        "Steps that changed nothing (overflows in float16, or steps that were refused): {counts}.",
        "未更新权重的步数（float16 溢出，或被拒绝的步）：{counts}。",
    ),
    "skipped_by_seed": ("{count} with seed {seed}", "种子 {seed}：{count}"),
    "unchanged": ("frozen stayed equal", "冻结者未变"),
    "moved": ("trained moved", "训练者已变"),
    "yes": ("yes", "是"),
    "no": ("NO", "否！"),
    "unknown": ("not known", "未知"),
    "geometry": ("Geometry of Q and K at init", "初始化时 Q 与 K 的几何"),
    "geometry.lead": (
        "Measured on the built models, mean over seeds, lowest to highest layer value. Error: how far a head's rows "
        "are from orthonormal. Overlap: between the row spaces of two heads.",
        "在建好的模型上测得，取种子均值，列出各层的最低与最高值。误差：一个头的各行偏离标准正交的程度。"
        "重叠：两个头的行空间之间。",
    ),
    "layers": ("layers", "层数"),
    "query_gram_error": ("Q error", "Q 误差"),
    "key_gram_error": ("K error", "K 误差"),
    "cross_head_overlap": ("overlap of heads", "头间重叠"),
    "row_norm": ("row norm", "行范数"),
    "logit_std": ("std of logits", "logit 标准差"),
    "trends": ("Across data and sizes", "跨数据与规模"),
    "trends.lead": (
        "One method in several experiments, to be read together only as far as nothing else differs.",
        "同一方法在多个实验中的结果；只有在其他设置都相同时才可放在一起读。",
    ),
    "trend_caveat": (
        "Data and size are not all that changes along this trend: {settings}.",
        "沿此趋势变化的不只是数据和规模：{settings}。",
    ),
    "slope": (
        "With every doubling of the {axis} ({values}) it moves by {estimate} against its control (95 % interval "
        "{interval}, {pairs} pairs); nothing else differs but learning rates, warm-up and what it was validated on.",
        "{axis}每增加一倍（{values}），它相对于对照变化 {estimate}（95 % 区间 {interval}，{pairs} 对）；"
        "除学习率、预热步数和验证文本外其他设置相同。",
    ),
    "slope.steps": ("steps", "步数"),
    "slope.weights": ("weights", "权重数"),
    "slope.heads": ("heads", "头数"),
    "trend_setting": ("{name} ({values})", "{name}（{values}）"),
    "stored_weights": ("weights", "权重"),
    "trained_tokens": ("tokens trained on", "训练词元数"),
    "reported": ("Next to what was reported", "与已报告的结果并列"),
    "reported.lead": (
        "Our figures next to those of the same method on data of the same name in another study.",
        "我们的数字，与另一项研究中同一方法、同名数据的数字并列。",
    ),
    "reported_pair": (
        "{arm} on {data}: {measure} {ours} here; {theirs} as reported for {id}{differs}.",
        "{arm}（{data}）：此处{measure} {ours}；{id} 原报告 {theirs}{differs}。",
    ),
    "reported_differs": (", with other settings ({settings})", "，设置有所不同（{settings}）"),
    "relative_figure": ("{mean} ({estimate} of the control)", "{mean}（对照的 {estimate}）"),
    "ours": ("ours", "我们"),
    "theirs": ("reported", "已报告"),
    "ours_relative": ("ours: estimate", "我们：估计值"),
    "theirs_relative": ("reported: estimate", "已报告：估计值"),
    "their_id": ("their run", "对方的运行"),
    "their_name": ("their name", "对方的名称"),
    "differs": ("settings that differ (ours, theirs)", "不同的设置（我们，对方）"),
    # another study's figures
    "claims": ("What the original study claims", "原始研究的主张"),
    "claims.lead": (
        "Its claims with its own figures, and below each what stands in the way of believing it. By its criterion a "
        "language model may have at most 1.05 times the baseline's perplexity; a classifier may lose at most 5 %, read "
        "here as at least 95 % of the accuracy kept.",
        "其主张及其自身的数字，每条之下是妨碍采信的缘由。其标准：语言模型的困惑度至多为 baseline 的 1.05 倍；"
        "分类器至多降低 5 %，此处读作至少保持 95 % 的准确率。",
    ),
    "reported_runs": ("All runs as reported", "全部已报告的运行"),
    "reported_runs.lead": (
        "Language models and classifiers side by side. Epochs of a language model follow from steps, batch and the "
        "size of the corpus, steps of a classifier from its three epochs; SST-2's weights from those of three classes.",
        "语言模型与分类器并列。语言模型的 epoch 数由步数、批量和语料规模算出，分类器的步数由其三个 epoch 算出；"
        "SST-2 的权重数由三类者推得。",
    ),
    "steps": ("steps", "步数"),
    "epochs": ("epochs", "epoch 数"),
    "result": ("result", "结果"),
    "loss": ("loss", "损失"),
    "against_control": ("against the baseline", "相对 baseline"),
    "reported_times": ("Times as reported", "已报告的用时"),
    "reported_times.lead": (
        "Wall time, seconds per step and validation as printed; nothing of it was measured here.",
        "总用时、每步秒数与验证用时均照原文；此处未作任何测量。",
    ),
    "wall_time": ("wall time", "总用时"),
    "step_seconds": ("s/step, mean", "每步秒数，均值"),
    "median_step_seconds": ("s/step, median", "每步秒数，中位数"),
    "measured_steps": ("steps measured", "计时步数"),
    "validation_time": ("validation", "验证用时"),
    "converged_epochs": ("converged at epoch", "收敛于 epoch"),
    "reported_courses": ("Validation as reported", "已报告的验证过程"),
    "reported_courses.lead": (
        "Improvement: how much lower the loss is than in the row before of the same run. Where only perplexities were "
        "printed there is no loss; `~` is the original's own.",
        "改进：损失比同一运行的上一行低多少。只报告困惑度之处没有损失；`~` 为原文所有。",
    ),
    "step": ("step", "步"),
    "perplexity": ("PPL", "困惑度"),
    "improvement": ("improvement", "改进"),
    "loss_against": ("loss of {run} against {other}", "{run} 的损失相对 {other}"),
    "reported_training": ("The last training steps as reported", "已报告的最后训练阶段"),
    "reported_training.lead": (
        "Training loss with the learning rate, and the perplexity that it stands for.",
        "训练损失与学习率，以及损失所对应的困惑度。",
    ),
    "training_loss": ("training loss", "训练损失"),
    "training_perplexity": ("training PPL", "训练困惑度"),
    "reported_targets": ("Steps to a loss", "达到某一损失所需的步数"),
    "reported_targets.lead": (
        "The first validation at or below a loss, in steps and in epochs of the corpus; computed here, from "
        "perplexities where only these were printed. A dash: never reached, or before the first validation reported.",
        "验证损失首次不高于该值时的步数与语料 epoch 数；由此处算出，只报告困惑度之处由困惑度算出。"
        "短横：从未达到，或在首次报告的验证之前已达到。",
    ),
    "reported_efficiency": ("Perplexity per weight and per hour", "每权重与每小时的困惑度"),
    "reported_efficiency.lead": (
        "As the original divides them. Perplexity is a cost: the lower, the better, so a larger figure here is no win.",
        "按原文的除法。困惑度是代价，越低越好，因此此处数值大并非优势。",
    ),
    "per_weight": ("PPL per trained weight", "困惑度 / 可训练权重"),
    "per_hour": ("PPL per hour", "困惑度 / 小时"),
    "reported_settings": ("Settings and their sources", "设置及其来源"),
    "reported_settings.lead": (
        "What the reports state, what only the training script has as a default, and what neither says: there the "
        "value is a usual one.",
        "报告写明者、仅见于训练脚本默认值者，以及两者均未说明者（此时取通常值）。",
    ),
    "setting": ("setting", "设置"),
    "value": ("value", "值"),
    "source": ("source", "来源"),
    "source.report": ("report", "报告"),
    "source.script": ("script", "脚本"),
    "source.not_stated": ("not stated", "未说明"),
    "contradictions": ("Where the original contradicts itself", "原始研究自相矛盾之处"),
    "contradictions.lead": (
        "Figures that disagree with each other, or with arithmetic.",
        "彼此不符，或与算术不符的数字。",
    ),
    "wishes": ("What the original asked for next", "原始研究接下来想要的"),
    "wishes.lead": (
        "Each with the studies and commands here that are about it. A study file is a question: the answer takes runs.",
        "每条之后是此处与之相关的研究与命令。研究文件只是提问，答案须由运行得出。",
    ),
    "wish": ("{what}: {where}", "{what}：{where}"),
    "reported_in_full": (
        "All that the original reported, its contradictions, what it asked for next: add `-o report.html` or `.md`.",
        "原始研究所报告的全部内容、自相矛盾之处及其接下来想要的：请加上 `-o report.html` 或 `.md`。",
    ),
    "tuning": ("How learning rates were chosen", "学习率如何选定"),
    "tuning.lead": (
        "The grid of each arm on a seed that no compared run has. The chosen rate is marked ✓.",
        "每个实验组的网格，所用种子不属于任何参与比较的运行。选定者以 ✓ 标出。",
    ),
    "at_edge": (
        "{arm}: the chosen rate is at the edge of its grid, so the best one may lie beyond.",
        "{arm}：选定的学习率位于网格边缘，最佳值可能在网格之外。",
    ),
    "vertex": (
        "{arm}: its final runs use {rate}, the vertex of the parabola through the marked rate and its neighbours.",
        "{arm}：最终运行使用 {rate}，即过标出者与其相邻两点的抛物线的顶点。",
    ),
    "unlike_records": (
        "{arm}: the tuning records of {rates} give other results than those that the choice was made by.",
        "{arm}：{rates} 的调参记录与选定时所依据的结果不同。",
    ),
    "not_finished": ("not finished", "未完成"),
    "tuning_title": (
        "{data}: {measure}{unit}, seed {seed}, {steps} steps",
        "{data}：{measure}{unit}，种子 {seed}，{steps} 步",
    ),
    "environment": ("Environment", "运行环境"),
    "runs": ("runs", "运行次数"),
    "threads": ("threads", "线程"),
    "device": ("device", "设备"),
    "commit": ("commit", "提交"),
    "reproduce": ("Reproduce it", "如何重现"),
    "reproduce.lead": (
        "The study from its file, or step by step from the text on; and this page from the records.",
        "由研究文件整体重现，或从文本开始逐步重现；并由记录生成此页。",
    ),
    "reproduce.study": ("the whole study; its file stands below", "整个研究，研究文件见下"),
    "reproduce.data": ("the data", "数据"),
    "reproduce.tokens": (
        "token files in {folder} (digest {digest}): how they were made, only their study file or manifest says",
        "{folder} 中的词元文件（摘要 {digest}）：其来由只见于研究文件或其清单",
    ),
    "reproduce.runs": ("the runs", "各次运行"),
    "reproduce.page": ("this page", "此页"),
    "reproduce.file": ("The study file of {study}", "{study} 的研究文件"),
    # the live page
    "live.none_ended": ("No final run has ended yet.", "尚无正式运行结束。"),
    "live.problem": (
        "This page cannot be renewed: {reason} It shows the finished runs as of {time}.",
        "此页无法更新：{reason} 所示为 {time} 时已结束的运行。",
    ),
    "live.lost": (
        "No answer from `oelm report --serve`: the page shows what was last known.",
        "`oelm report --serve` 没有应答：此页所示为最后已知的状态。",
    ),
    "live.curves": ("Runs so far", "目前的运行"),
    "live.curves.lead": (
        "Dashed: runs that have not ended. They are shown, never judged.",
        "虚线：尚未结束的运行；仅供查看，不作判定。",
    ),
    "live.summary": ("{total} runs: {counts}", "{total} 次运行：{counts}"),
    "live.count": ("{count} {state}", "{state} {count} 次"),
    "live.silent": ("{state}, silent", "{state}，无响应"),
    "live.run": ("run", "运行"),
    "live.state": ("state", "状态"),
    "live.step": ("step", "步"),
    "live.loss": ("training loss", "训练损失"),
    "live.best": ("best", "最佳"),
    "live.speed": ("tokens/s", "词元/秒"),
    "live.left": ("left", "剩余"),
    "live.elapsed": ("elapsed", "已用"),
    "live.device": ("device", "设备"),
    "state.waiting": ("waiting", "等待"),
    "state.queued": ("queued", "排队"),
    "state.running": ("running", "运行中"),
    "state.interrupted": ("interrupted", "中断"),
    "state.failed": ("failed", "失败"),
    "state.diverged": ("diverged", "发散"),
    "state.finished": ("finished", "已结束"),
}
