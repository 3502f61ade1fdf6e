"""The FLOP formula against numbers by hand and against the ledger."""

import pytest

from oelm.bench.finetuning import step_flops
from oelm.bench.spec import BenchRequest, What, specs_of
from oelm.bench.useful import formula, useful_flops
from oelm.config.methods import parse_method
from oelm.model.ledger import count_flops
from oelm.train.flops import FlopRates


def spec_of(what: What, **values: int | str):
    (spec,) = specs_of(BenchRequest(what=(what,), sizes=("medium-512",), **values))
    return spec


def test_medium_512_by_hand():
    spec = spec_of(What.TRAIN, batch_size=8, seq_len=512, vocab_size=50257)
    blocks, vocabulary, attention = 12 * 6 * 512**2, 50257 * 512, 6 * 512 * 512
    assert useful_flops(spec) == 6 * 8 * 512 * (blocks + vocabulary + attention)


def test_it_is_the_ledgers_up_to_the_diagonal_of_the_scores():
    """The ledger counts T+1 keys where the formula says T, and nothing else differs."""
    spec = spec_of(What.TRAIN)
    counted = count_flops(spec.shape, parse_method("baseline"), total_steps=1, tokens=4 * 256)
    diagonal = 6 * 4 * 256 * spec.shape.layers * spec.shape.width
    assert counted.run == useful_flops(spec) + diagonal


def test_llama_style_has_a_third_matrix_in_its_ffn():
    spec = spec_of(What.TRAIN, style="llama")
    assert formula(spec) == "6 x tokens x (L (4 D^2 + 3 D F) + V D + L T D)"
    assert formula(spec_of(What.TRAIN)) == "6 x tokens x (12 L D^2 + V D + L T D)"
    counted = count_flops(spec.shape, parse_method("baseline"), total_steps=1, tokens=4 * 256)
    assert counted.run == useful_flops(spec) + 6 * 4 * 256 * spec.shape.layers * spec.shape.width


def test_validation_is_a_third_of_training_per_token():
    training, validation = spec_of(What.TRAIN), spec_of(What.VALIDATE)
    assert 3 * useful_flops(validation) == 2 * useful_flops(training)  # two batches


def test_generation_reads_every_token_once():
    spec = spec_of(What.GENERATE, seq_len=64, tokens=10, vocab_size=100)
    read = 32 + 10 - 1
    expected = 2 * (read * 12 * 6 * 512**2 + 10 * 100 * 512 + 6 * read**2 * 512)
    assert useful_flops(spec) == expected


def test_checkpointing_computes_the_forward_pass_again():
    rates = FlopRates(forward=1.0, backward=1.9, baseline=3.0)
    assert step_flops(rates, checkpointing=False) == pytest.approx(2.9 / 3)
    assert step_flops(rates, checkpointing=True) == pytest.approx(3.9 / 3)
