"""Useful FLOPs of a step: the baseline's arithmetic, the same for every contestant.

Training:    6 N (L (4 D^2 + 2 D F) + V D + L T D)    for N tokens; with F = 4 D that is 6 N (12 L D^2 + V D + L T D)
Validation:  a third of it, the forward pass
Generation:  2 (n L (4 D^2 + 2 D F) + g V D + L n^2 D)   for g new tokens and n = prompt + g - 1 that are read
Fine-tuning: 6 N (L (4 D^2 + 2 D F) + 2 L T D)       attention looks both ways, and no vocabulary is scored
In Llama style the FFN has three matrices, 3 D F.

A step that takes half the time has twice the share, whether it skips arithmetic or does it faster.
"""

from oelm.bench.spec import BenchSpec, What
from oelm.config.model import Style


def useful_flops(spec: BenchSpec) -> float:
    """FLOPs that one timed step of the baseline needs."""
    shape, tokens = spec.shape, timed_tokens(spec)
    attention = shape.layers * shape.context * shape.width
    vocabulary = shape.vocabulary * shape.width
    match spec.what:
        case What.VALIDATE:
            return 2.0 * tokens * (block_weights(spec) + vocabulary + attention)
        case What.GENERATE:
            read = spec.prompt_length + spec.tokens - 1
            scores = shape.layers * read**2 * shape.width
            return 2.0 * (read * block_weights(spec) + spec.tokens * vocabulary + scores)
        case What.FINETUNE:
            return 6.0 * tokens * (block_weights(spec) + 2 * attention)
        case _:
            return 6.0 * tokens * (block_weights(spec) + vocabulary + attention)


def block_weights(spec: BenchSpec) -> int:
    """L (4 D^2 + 2 D F), in Llama style L (4 D^2 + 3 D F)."""
    shape = spec.shape
    return shape.layers * (4 * shape.width**2 + shape.ffn_matrices * shape.width * shape.ffn_width)


VALIDATION_BATCHES = 2


def timed_tokens(spec: BenchSpec) -> int:
    """Tokens of one timed step: those that are read, and for generation those that are made."""
    match spec.what:
        case What.GENERATE:
            return spec.tokens
        case What.VALIDATE:
            return VALIDATION_BATCHES * spec.batch_size * spec.shape.context
        case _:
            return spec.batch_size * spec.shape.context


def formula(spec: BenchSpec) -> str:
    """The formula in words, for the record and below the table."""
    blocks = {Style.GPT: "12 L D^2", Style.LLAMA: "L (4 D^2 + 3 D F)"}[spec.shape.style]
    match spec.what:
        case What.VALIDATE:
            return f"2 x tokens x ({blocks} + V D + L T D)"
        case What.GENERATE:
            return f"2 x (n {blocks} + g V D + L n^2 D), n tokens read, g made"
        case What.FINETUNE:
            return f"6 x tokens x ({blocks} + 2 L T D)"
        case _:
            return f"6 x tokens x ({blocks} + V D + L T D)"
