"""The original study as records: every figure that it reported, marked as such, none of it measured here.

Plan, page and tests read them from here. `benchmarks/original_study.py` writes the file and adds what follows from the
figures (weights, FLOPs).
"""

from functools import cache
from importlib import resources
from typing import Any

from pydantic import TypeAdapter

from oelm.config.measure import Bilingual
from oelm.config.model import GPTConfig
from oelm.config.record import Record
from oelm.config.settings import Settings


def original_record(run: str | None) -> Record | None:
    """What the original reported for one of its runs, by its name (`GPT-02`); None for a run that it does not have."""
    return next((record for record in original_records() if record.reported and record.reported.id == run), None)


def script_settings(steps: int) -> dict[str, Any]:
    """What the original's training script does where its commands say nothing, as settings of a `TrainRequest`.

    Its warm-up is left to ours in a run that is too short for it.
    """
    record = original_record("GPT-02")
    assert record is not None
    assert isinstance(record.config.model, GPTConfig)
    model, optim, train = record.config.model, record.config.optim, record.config.train
    return {
        "size": "medium-512",
        "seq_len": model.context,
        "dropout": model.dropout,
        "min_lr": optim.min_lr_ratio * optim.lr,
        "warmup_steps": optim.warmup_steps if optim.warmup_steps < steps else None,
        **{name: getattr(optim, name) for name in ("schedule", "weight_decay", "decay", "clip", "beta1", "beta2")},
        "batch_size": train.batch_size,
        "validation_sequences": train.validation_sequences,
        "save_every": record.config.machine.save_every,
        "seed": record.config.seed,
    }


@cache
def original_records() -> tuple[Record, ...]:
    """The runs of the original study, in the order of its reports."""
    text = resources.files("oelm.config").joinpath("original_study.json").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Record, ...]).validate_json(text)


_CONTRADICTIONS = (
    (
        "Size: tables give the GPT about 82M parameters; the model described has 44,896,768 (44.9M).",
        "规模：表中称 GPT 约有 82M 参数；按其描述，模型实为 44,896,768（44.9M）。",
    ),
    (
        "Frozen share: 12.9 % is given for the GPT. That is BERT's (14,174,208 of 109,484,547, with 95,310,339 "
        "trained); of the GPT, 3,145,728 of 44,896,768 are 7.0 %.",
        "冻结比例：称 GPT 为 12.9 %。这是 BERT 的比例（109,484,547 中的 14,174,208，可训练 95,310,339）；"
        "GPT 为 44,896,768 中的 3,145,728，即 7.0 %。",
    ),
    (
        "Memory: 514M and 490M are sizes of the checkpoint file (weights and two Adam moments), not of memory.",
        "内存：514M 与 490M 是检查点文件（权重与两个 Adam 矩）的大小，而非内存。",
    ),
    (
        "Data: the trend orders the sets as 2M, 40M and 118M tokens. By the token files TinyStories has about 448M "
        "(896 MB; validation 9 MB) and is the largest, the subset of OpenWebText about 95M (189 MB and 2 MB), "
        "WikiText-103 118M; and steps differ as well (100K, 150K, 200K).",
        "数据：其趋势按 2M、40M、118M 词元排序。按词元文件，TinyStories 约 448M（896 MB，验证集 9 MB），为最大；"
        "OpenWebText 子集约 95M（189 MB 和 2 MB）；WikiText-103 为 118M；步数也不同（100K、150K、200K）。",
    ),
    (
        "Steps: GPT-04 and GPT-05 have 150K in one table and 100K in another.",
        "步数：GPT-04 与 GPT-05 在一张表中为 150K，在另一张中为 100K。",
    ),
    (
        "Time per step: GPT-01 and GPT-02 have 0.184 s in two places and 0.0837 s in two others. Validation was 45 % "
        "of GPT-01's wall time.",
        "每步时间：GPT-01 与 GPT-02 两处为 0.184 秒，另两处为 0.0837 秒。GPT-01 的总用时中 45 % 用于验证。",
    ),
    (
        "First version: one global orthogonal matrix is said to cost +19 % perplexity (the head-wise one +9.8 %); the "
        "figures of the first report give +12.6 %.",
        "第一版：称整体正交矩阵使困惑度 +19 %（按头正交为 +9.8 %）；而首份报告的数字给出 +12.6 %。",
    ),
    (
        "Freezing: the first report's text says that it was not active; its count (41,751,040, total and trainable) "
        "is the baseline's without Q and K.",
        "冻结：首份报告正文称冻结并未生效；其参数量（总数与可训练数均为 41,751,040）却是 baseline 减去 Q、K。",
    ),
    (
        "Best checkpoint: the first report calls 85K steps the best of M512-OELM (1.5396) and what follows a slight "
        "overfit, but its table is lower at 99K (1.5389).",
        "最佳检查点：首份报告称 M512-OELM 在 85K 步最佳（1.5396），其后略有过拟合，而其表中 99K 步更低（1.5389）。",
    ),
    (
        "Warm-up: the first report states 2,000 steps; the rates that it logged (5.35e-07 at 98K, 1.34e-09 at 99.9K) "
        "fit 4,000.",
        "预热：首份报告称 2,000 步；其记录的学习率（98K 步 5.35e-07，99.9K 步 1.34e-09）却与 4,000 步相符。",
    ),
    (
        "Number of experiments: the final report counts 15; its overview has 13 rows, and two are not named.",
        "实验数目：最终报告称 15 项；其总表只有 13 行，另有两项未列名。",
    ),
    (
        "Init of the baseline: a table says Xavier, the rest normal with std 0.02.",
        "baseline 的初始化：一张表写 Xavier，其余各处为标准差 0.02 的正态分布。",
    ),
    (
        "Speed: 29 % (first report) and 57 % (XNLI) faster are not possible from freezing, which saves 2.3 % of the "
        "matmul FLOPs of Medium-512 (5.6 % of its blocks). GPT-03 is 8 % faster than GPT-02 on the same arithmetic.",
        "速度：快 29 %（首份报告）与快 57 %（XNLI）不可能来自冻结，冻结只节省 Medium-512 矩阵乘法 FLOPs 的 2.3 %"
        "（各层的 5.6 %）。GPT-03 与 GPT-02 运算相同，却快 8 %。",
    ),
    (
        "Orthogonality: it is called 6 % better than random (GPT-02 against GPT-03), but its entries have std 0.044 "
        "and the random ones 0.02, so the first logits differ about fivefold: that may be scale.",
        "正交性：称其比随机好 6 %（GPT-02 对 GPT-03），但其元素标准差为 0.044，随机者为 0.02，"
        "初始 logit 相差约五倍：这可能只是尺度之差。",
    ),
    (
        "Efficiency: perplexity per parameter (9.22e-08 and 1.12e-07) and per hour (0.637 and 0.932) are called wins "
        "of OELM; of a cost per resource the lower one is better.",
        "效率：称每参数困惑度（9.22e-08 与 1.12e-07）和每小时困惑度（0.637 与 0.932）为 OELM 的优势；"
        "而单位资源的代价应以低者为佳。",
    ),
)
CONTRADICTIONS = tuple(Bilingual(english=english, chinese=chinese) for english, chinese in _CONTRADICTIONS)
"""Where the original's documents contradict each other, or arithmetic."""


class Claim(Settings):
    """What the original says of its results, in its figures, and what stands in the way of believing it."""

    claim: Bilingual
    doubt: Bilingual


_CLAIMS = (
    (
        "Freezing head-wise orthogonal Q and K costs 9.8 % perplexity on TinyStories (4.69 against 4.27), 14.9 % on "
        "OpenWebText (54.29 against 47.24) and 15.5 % on WikiText-103 (29.03 against 25.13). Its criterion, at most "
        "5 %, is met by none of its language models.",
        "冻结按头正交的 Q、K，困惑度在 TinyStories 上 +9.8 %（4.69 对 4.27），OpenWebText 上 +14.9 %"
        "（54.29 对 47.24），WikiText-103 上 +15.5 %（29.03 对 25.13）。其自定标准为至多 5 %，语言模型无一达到。",
        "One seed each, and the learning rate differs with the method (1e-3 against 3e-4): what freezing alone costs "
        "cannot be told.",
        "各只有一个种子，且学习率随方法而异（1e-3 对 3e-4）：冻结本身的代价无从得知。",
    ),
    (
        "A fine-tuned BERT keeps 98.0 % of its accuracy on SST-2 (91.28 against 93.12) and 98.5 % on MNLI (82.23 "
        "against 83.44), and gains 1.08 points on XNLI (77.79 against 76.71).",
        "微调的 BERT 在 SST-2 上保持 98.0 % 的准确率（91.28 对 93.12），在 MNLI 上 98.5 %（82.23 对 83.44），"
        "在 XNLI 上提高 1.08 个百分点（77.79 对 76.71）。",
        "One seed each, and learning rates of 1e-4 against 2e-5: the gain on XNLI may be the rate's.",
        "各只有一个种子，且学习率为 1e-4 对 2e-5：XNLI 上的提高可能来自学习率。",
    ),
    (
        "Orthogonality matters: frozen random Q and K reach 4.97 where orthogonal ones reach 4.69, which is 6 % more.",
        "正交性有用：冻结的随机 Q、K 为 4.97，正交者为 4.69，即高 6 %。",
        "The rows differ in length as well (entries of std 0.02 against 0.044): it may be scale.",
        "行的长度也不同（元素标准差 0.02 对 0.044）：可能只是尺度之差。",
    ),
    (
        "Training is 29 % faster in the first report and 57 % faster on XNLI.",
        "首份报告称训练快 29 %，XNLI 上快 57 %。",
        "Freezing Q and K saves 2.3 % of the arithmetic of this GPT. More cannot come from it.",
        "冻结 Q、K 只节省该 GPT 2.3 % 的运算量，更多的不可能来自冻结。",
    ),
    (
        "The larger the data, the larger the cost of freezing.",
        "数据越大，冻结的代价越大。",
        "By its token files TinyStories, where the cost is smallest, is the largest; steps differ as well.",
        "按其词元文件，代价最小的 TinyStories 反而最大；步数也不同。",
    ),
)
CLAIMS = tuple(
    Claim(claim=Bilingual(english=english, chinese=chinese), doubt=Bilingual(english=but_english, chinese=but_chinese))
    for english, chinese, but_english, but_chinese in _CLAIMS
)
"""What the original concludes from its figures."""


class Wish(Settings):
    """What the original wanted to know, or to have, next; and the studies and commands here that are about it."""

    what: Bilingual
    where: tuple[str, ...]


_SMALL = "experiments/cpu/open-questions-longer.yaml"
_WISHES = (
    (
        "Freeze ratios: 0.075 (Q/K only), 0.25 (Q/K and part of the FFN), 0.50 (Q/K and more of the FFN)",
        "冻结比例：0.075（仅 Q/K）、0.25（Q/K 与部分 FFN）、0.50（Q/K 与更多 FFN）",
        ("experiments/followups/freeze-ratios.yaml", _SMALL),
    ),
    (
        "Q/K trained in the last one or two layers only",
        "只训练最后一两层的 Q/K",
        ("experiments/followups/unfreezing.yaml", _SMALL),
    ),
    (
        "Q/K updated in every N-th step only",
        "每 N 步才更新一次 Q/K",
        ("experiments/followups/periodic.yaml", _SMALL),
    ),
    (
        "Progressive unfreezing during training",
        "训练中逐步解冻",
        ("experiments/followups/progressive.yaml", _SMALL),
    ),
    (
        "Learning rates by layer",
        "各层使用不同的学习率",
        ("experiments/followups/layer-lr.yaml", _SMALL),
    ),
    (
        "Tuned learning rates of the frozen arms, 5e-4 and others",
        "为冻结各组调学习率（5e-4 等）",
        tuple(f"experiments/fair/gpt-{name}.yaml" for name in ("tinystories", "openwebtext", "wikitext103")),
    ),
    (
        "A longer warm-up",
        "更长的预热",
        ("experiments/followups/warmup.yaml", _SMALL),
    ),
    (
        "Other sizes: Tiny (2 layers, width 128), Small (4, 256), Large (8, 768)",
        "其他规模：Tiny（2 层，宽 128）、Small（4 层，宽 256）、Large（8 层，宽 768）",
        ("experiments/followups/sizes.yaml", _SMALL),
    ),
    (
        "Encoder-decoder models: T5 and BART",
        "编码器—解码器模型：T5 与 BART",
        (
            "experiments/followups/encoder-decoder.yaml",
            "experiments/followups/summarisation.yaml",
            "experiments/cpu/seq2seq.yaml",
        ),
    ),
    (
        "WikiText-103",
        "WikiText-103 语料",
        ("experiments/original/gpt-wikitext103.yaml", "experiments/fair/gpt-wikitext103.yaml"),
    ),
    (
        "More classification sets",
        "更多分类数据集",
        ("experiments/fair/bert-sst2.yaml", "experiments/fair/bert-mnli.yaml", "experiments/cpu/sst2.yaml"),
    ),
    (
        "Fine-tuning of the models that were pre-trained",
        "对预训练所得模型作微调",
        ("experiments/cpu/transfer.yaml",),
    ),
    (
        "The quality of generated text, and zero-shot tasks",
        "生成文本的质量与零样本任务",
        ("oelm generate", "oelm eval"),
    ),
    (
        "Starting one arm or both, status and logs, waiting for an idle GPU, one experiment after another, on a server "
        "that others use as well",
        "启动一组或两组、查看状态与日志、等待空闲 GPU、实验依次进行，且在多人共用的服务器上运行",
        ("oelm experiment run", "oelm experiment status", "oelm experiment logs"),
    ),
    (
        "Reports by phase and at the end, in Chinese as well as in English",
        "分阶段与最终的报告，中英文皆备",
        ("oelm report --lang zh",),
    ),
)
WISHES = tuple(
    Wish(what=Bilingual(english=english, chinese=chinese), where=where) for english, chinese, where in _WISHES
)
"""What the original wanted next."""
