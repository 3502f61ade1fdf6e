"""The page's own words in both languages: headings, choices, explanations. Sentences about results are `Texts`."""

from collections.abc import Mapping
from dataclasses import dataclass

from oelm.report.texts import Language

Choices = tuple[tuple[str, str], ...]
"""The names that the script knows, each with the word that the reader sees."""


@dataclass(frozen=True)
class Words:
    """One language. A field added here is missing in no language, or the type checker says so."""

    other_code: str
    other_name: str
    """The switch: the other language in its own words."""
    long_sentence: int
    """Characters from which the verdict is set smaller."""
    comma: str
    facts: str
    overview: str
    # the answer
    arm: str
    data: str
    size: str
    pairs: str
    estimate: str
    ratio: str
    share_kept: str
    margin: str
    share_wanted: str
    interval: str
    by_seed: str
    verdict: str
    primary_arm: str
    seed: str
    forest_caption: str
    confound_count: str
    confounds_heading: str
    no_confounds: str
    nothing_compared: str
    # what was measured
    measured: str
    measured_lead: str
    measured_accuracy_lead: str
    reported: str
    reported_lead: str
    learning_rate: str
    trained: str
    frozen: str
    absent: str
    perplexity_by_seed: str
    accuracy_by_seed: str
    evaluation_set: str
    best_checkpoint: str
    points: str
    mean: str
    bits_per_byte: str
    comparisons: str
    comparisons_lead: str
    # curves
    curves: str
    curves_lead: str
    measure_choices: Choices
    against_choices: Choices
    split_choices: Choices
    span_choices: Choices
    seed_summaries: Choices
    nothing_to_draw: str
    needs_script: str
    # views
    ablation: str
    ablation_lead: str
    change: str
    from_arm: str
    to_arm: str
    confounds: str
    resources: str
    resources_lead: str
    loss: str
    accuracy: str
    trained_weights: str
    training_flops: str
    training_time: str
    speed: str
    speed_lead: str
    flops_saved: str
    time_saved: str
    step_time: str
    tokens_per_second: str
    validation_share: str
    peak_memory: str
    memory_saved: str
    audit: str
    audit_lead: str
    frozen_tensors: str
    later_tensors: str
    trained_tensors: str
    unchanged: str
    moved: str
    yes: str
    no: str
    unknown: str
    geometry: str
    geometry_lead: str
    layers: str
    query_error: str
    key_error: str
    overlap: str
    row_norm: str
    logit_std: str
    # across experiments
    trends: str
    trends_lead: str
    stored_weights: str
    trained_tokens: str
    beside: str
    beside_lead: str
    ours: str
    theirs: str
    their_id: str
    differs: str
    tuning: str
    tuning_lead: str
    at_edge: str
    vertex: str
    unlike_records: str
    not_finished: str
    tuning_title: str
    environment: str
    runs: str
    threads: str
    device: str
    commit: str
    with_changes: str
    reproduce: str
    reproduce_lead: str


ENGLISH = Words(
    other_code="zh",
    other_name="中文",
    long_sentence=190,
    comma=", ",
    facts="{runs} runs: {arms} arms, seeds {seeds}, {steps} steps",
    overview="All experiments",
    arm="method",
    data="data",
    size="size",
    pairs="n",
    estimate="estimate",
    ratio="perplexity ratio",
    share_kept="share of control",
    margin="margin",
    share_wanted="to be kept",
    interval="95 % interval",
    by_seed="by seed",
    verdict="verdict",
    primary_arm="the primary arm: the question of this study, stated before the runs",
    seed="seed {seed}",
    forest_caption="solid line: no difference · dashed: margin {margin} · open dots: seeds",
    confound_count="confounds: {count}",
    confounds_heading="What else could explain it",
    no_confounds="Nothing was found: by the records, the two arms differ in the method only.",
    nothing_compared="There is no arm here with a control to compare it with.",
    measured="What was measured",
    measured_lead=(
        "Validation perplexity after the last step. An absent weight has no matrix at all; a frozen one exists and "
        "never changes."
    ),
    measured_accuracy_lead="Accuracy after the last step; the best checkpoint, chosen by hold-out loss, beside it.",
    reported="What was reported",
    reported_lead="The figures of another study, as it printed them; nothing of it was run here.",
    learning_rate="learning rate",
    trained="trained",
    frozen="frozen",
    absent="absent",
    perplexity_by_seed="perplexity by seed",
    accuracy_by_seed="accuracy by seed, %",
    evaluation_set="set",
    best_checkpoint="best checkpoint",
    points="points to control",
    mean="mean",
    bits_per_byte="bits per byte",
    comparisons="Every comparison",
    comparisons_lead="Each arm with what this design could have shown, and what else could explain the difference.",
    curves="Learning curves",
    curves_lead="Every run is a line. Point at the chart for the values of all seeds; press a name to hide its lines.",
    measure_choices=(
        ("loss", "loss"),
        ("perplexity", "perplexity"),
        ("bits", "bits per byte"),
        ("ratio", "ratio to control"),
    ),
    against_choices=(("steps", "steps"), ("tokens", "tokens"), ("time", "time")),
    split_choices=(("validation", "validation"), ("training", "training")),
    span_choices=(("whole", "whole run"), ("end", "second half")),
    seed_summaries=(("mean", "mean"), ("lowest", "lowest"), ("highest", "highest")),
    nothing_to_draw="Nothing to draw for this choice.",
    needs_script="The curves are drawn by a script, which this reader does not run.",
    ablation="What each part is worth",
    ablation_lead=(
        "Each row changes one thing; the ratio is the perplexity after the change to that before. Plain 95 % "
        "intervals, for the eye: they are not corrected for there being several."
    ),
    change="change",
    from_arm="from",
    to_arm="to",
    confounds="confounds",
    resources="Result against cost",
    resources_lead="Each arm with what it used. Filled dots are means, open ones are seeds.",
    loss="loss",
    accuracy="accuracy, %",
    trained_weights="trained weights",
    training_flops="training FLOPs",
    training_time="training time",
    speed="Speed and memory",
    speed_lead=(
        "Arithmetic bounds what a method can save: it cannot save a larger share of the time than of the FLOPs by "
        "computing less. Times of runs side by side on a shared machine are not evidence."
    ),
    flops_saved="FLOPs saved (bound)",
    time_saved="time saved",
    step_time="ms per step",
    tokens_per_second="tokens/s",
    validation_share="of it validation",
    peak_memory="peak memory",
    memory_saved="memory saved",
    audit="Freeze audit",
    audit_lead="Frozen means byte-equal at the end; trained means that every tensor moved.",
    frozen_tensors="frozen tensors",
    later_tensors="trained later",
    trained_tensors="trained tensors",
    unchanged="frozen stayed equal",
    moved="trained moved",
    yes="yes",
    no="NO",
    unknown="not known",
    geometry="Geometry of Q and K at init",
    geometry_lead=(
        "Measured on the built models, mean over seeds, lowest to highest layer value. Error: how far a head's rows "
        "are from orthonormal. Overlap: between the row spaces of two heads."
    ),
    layers="layers",
    query_error="Q error",
    key_error="K error",
    overlap="overlap of heads",
    row_norm="row norm",
    logit_std="std of logits",
    trends="Across data and sizes",
    trends_lead="One method in several experiments, to be read together only as far as nothing else differs.",
    stored_weights="weights",
    trained_tokens="tokens trained on",
    beside="Beside what was reported",
    beside_lead="Our figures beside those of the same method on data of the same name in another study.",
    ours="ours",
    theirs="reported",
    their_id="their run",
    differs="settings that differ (ours, theirs)",
    tuning="How learning rates were chosen",
    tuning_lead="The grid of each arm on a seed that no compared run has. The chosen rate is marked ✓.",
    at_edge="{arm}: the chosen rate is at the edge of its grid, so the best one may lie beyond.",
    vertex="{arm}: its final runs use {rate}, the vertex of the parabola through the marked rate and its neighbours.",
    unlike_records="{arm}: the tuning records of {rates} give other results than those that the choice was made by.",
    not_finished="not finished",
    tuning_title="{data}: {measure} at seed {seed}, {steps} steps",
    environment="Environment",
    runs="runs",
    threads="threads",
    device="device",
    commit="commit",
    with_changes="{commit} with changes",
    reproduce="Reproduce it",
    reproduce_lead="The runs, and this page from their records.",
)

CHINESE = Words(
    other_code="en",
    other_name="English",
    long_sentence=110,
    comma="，",
    facts="共 {runs} 次运行：{arms} 个实验组，种子 {seeds}，{steps} 步",
    overview="全部实验",
    arm="方法",
    data="数据",
    size="规模",
    pairs="n",
    estimate="估计值",
    ratio="困惑度之比",
    share_kept="占对照的比例",
    margin="界限",
    share_wanted="须保持",
    interval="95 % 区间",
    by_seed="各种子",
    verdict="结论",
    primary_arm="主要实验组：运行之前就声明的研究问题",
    seed="种子 {seed}",
    forest_caption="实线：无差异 · 虚线：界限 {margin} · 空心点：各种子",
    confound_count="混杂因素：{count}",
    confounds_heading="还有什么可以解释它",
    no_confounds="未发现：根据记录，两组只在方法上不同。",
    nothing_compared="这里没有带对照的实验组可供比较。",
    measured="测得的结果",
    measured_lead="最后一步之后的验证集困惑度。“无矩阵”的权重根本不存在；冻结的权重存在但从不改变。",
    measured_accuracy_lead="最后一步之后的准确率；旁边是按留出集损失选出的最佳检查点。",
    reported="已报告的结果",
    reported_lead="另一项研究所印的数字；此处未作任何运行。",
    learning_rate="学习率",
    trained="训练",
    frozen="冻结",
    absent="无矩阵",
    perplexity_by_seed="各种子的困惑度",
    accuracy_by_seed="各种子的准确率（%）",
    evaluation_set="评测集",
    best_checkpoint="最佳检查点",
    points="与对照相差（百分点）",
    mean="均值",
    bits_per_byte="每字节比特数",
    comparisons="逐项比较",
    comparisons_lead="每个实验组，连同此设计本可显示的差异，以及差异的其他可能解释。",
    curves="学习曲线",
    curves_lead="每次运行一条线。将指针移到图上可查看所有种子的数值；点击名称可隐藏其曲线。",
    measure_choices=(
        ("loss", "损失"),
        ("perplexity", "困惑度"),
        ("bits", "每字节比特数"),
        ("ratio", "与对照之比"),
    ),
    against_choices=(("steps", "步数"), ("tokens", "词元数"), ("time", "时间")),
    split_choices=(("validation", "验证集"), ("training", "训练集")),
    span_choices=(("whole", "全程"), ("end", "后半程")),
    seed_summaries=(("mean", "均值"), ("lowest", "最低"), ("highest", "最高")),
    nothing_to_draw="此选择没有可绘制的数据。",
    needs_script="曲线由脚本绘制，而此阅读器不运行脚本。",
    ablation="各部分的作用",
    ablation_lead="每行只改变一处；比值是改变之后与之前的困惑度之比。95 % 区间仅供参考，未因项数较多而校正。",
    change="改变",
    from_arm="从",
    to_arm="到",
    confounds="混杂因素",
    resources="结果与代价",
    resources_lead="每个实验组及其所耗。实心点为均值，空心点为各种子。",
    loss="损失",
    accuracy="准确率（%）",
    trained_weights="训练的权重",
    training_flops="训练 FLOPs",
    training_time="训练时间",
    speed="速度与内存",
    speed_lead=(
        "算术决定了方法所能节省的上限：少做计算所节省的时间比例，不可能超过所节省的 FLOPs 比例。"
        "在共享机器上并行运行所测的时间不能作为证据。"
    ),
    flops_saved="节省的 FLOPs（上限）",
    time_saved="节省的时间",
    step_time="每步毫秒",
    tokens_per_second="词元/秒",
    validation_share="其中验证",
    peak_memory="峰值内存",
    memory_saved="节省的内存",
    audit="冻结审计",
    audit_lead="冻结意味着结束时逐字节相等；训练意味着每个张量都已改变。",
    frozen_tensors="冻结的张量",
    later_tensors="之后训练",
    trained_tensors="训练的张量",
    unchanged="冻结者未变",
    moved="训练者已变",
    yes="是",
    no="否！",
    unknown="未知",
    geometry="初始化时 Q 与 K 的几何",
    geometry_lead="在建好的模型上测得，取种子均值，列出各层的最低与最高值。误差：一个头的各行偏离标准正交的程度。重叠：两个头的行空间之间。",
    layers="层数",
    query_error="Q 误差",
    key_error="K 误差",
    overlap="头间重叠",
    row_norm="行范数",
    logit_std="logit 标准差",
    trends="跨数据与规模",
    trends_lead="同一方法在多个实验中的结果；只有在其他设置都相同时才可放在一起读。",
    stored_weights="权重",
    trained_tokens="训练词元数",
    beside="与已报告的结果并列",
    beside_lead="我们的数字，与另一项研究中同一方法、同名数据的数字并列。",
    ours="我们",
    theirs="已报告",
    their_id="对方的运行",
    differs="不同的设置（我们，对方）",
    tuning="学习率如何选定",
    tuning_lead="每个实验组的网格，所用种子不属于任何参与比较的运行。选定者以 ✓ 标出。",
    at_edge="{arm}：选定的学习率位于网格边缘，最佳值可能在网格之外。",
    vertex="{arm}：最终运行使用 {rate}，即过标出者与其相邻两点的抛物线的顶点。",
    unlike_records="{arm}：{rates} 的调参记录与选定时所依据的结果不同。",
    not_finished="未完成",
    tuning_title="{data}：{measure}，种子 {seed}，{steps} 步",
    environment="运行环境",
    runs="运行次数",
    threads="线程",
    device="设备",
    commit="提交",
    with_changes="{commit}（有改动）",
    reproduce="如何重现",
    reproduce_lead="重现这些运行，并由其记录生成此页。",
)

WORDS: Mapping[Language, Words] = {Language.ENGLISH: ENGLISH, Language.CHINESE: CHINESE}
