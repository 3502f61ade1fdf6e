import hashlib
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from oelm.base.errors import DataError
from oelm.config.manifest import TokenizerKind
from oelm.data.stories import stories
from oelm.data.tokenizer import (
    END_OF_TEXT,
    byte_tokenizer,
    encoder,
    end_of_text_id,
    gpt2_tokenizer,
    ignored_settings,
    load_tokenizer,
    save_tokenizer,
    train_bpe,
)

BYTES = byte_tokenizer()
BPE = train_bpe(islice(stories(0), 300), 600)
TOKENIZERS = {"bytes": BYTES, "bpe": BPE}
texts = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=texts)
@settings(deadline=None, max_examples=150)
def test_any_text_comes_back(kind, text):
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@given(text=texts)
@settings(deadline=None, max_examples=150)
def test_byte_tokens_are_the_bytes_by_both_ways(text):
    [fast] = encoder(TokenizerKind.BYTES, BYTES)([text])
    assert fast.tolist() == list(text.encode()) == BYTES.encode(text).ids


def test_sizes_and_end_of_text():
    assert (BYTES.get_vocab_size(), end_of_text_id(BYTES)) == (257, 256)
    assert (BPE.get_vocab_size(), end_of_text_id(BPE)) == (600, 599)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_text_cannot_inject_end_of_text(kind, tmp_path):
    text = f"one{END_OF_TEXT}two {END_OF_TEXT}"
    save_tokenizer(TOKENIZERS[kind], tmp_path / "tokenizer.json")
    for tokenizer in (TOKENIZERS[kind], load_tokenizer(tmp_path / "tokenizer.json")):
        [ids] = encoder(TokenizerKind(kind), tokenizer)([text])
        assert end_of_text_id(tokenizer) not in ids
        assert tokenizer.decode(ids.tolist(), skip_special_tokens=False) == text


def test_a_saved_tokenizer_encodes_the_same(tmp_path):
    save_tokenizer(BPE, tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    for text in islice(stories(9), 20):
        assert loaded.encode(text).ids == BPE.encode(text).ids
    assert len(BPE.encode(text).ids) < 0.6 * len(text)


def test_what_would_change_the_text_is_switched_off(tmp_path):
    text = next(stories(9))
    foreign = Tokenizer.from_str(BPE.to_str())
    foreign.enable_truncation(5)
    foreign.enable_padding(length=2000)
    foreign.model.dropout = 0.5
    end = (END_OF_TEXT, end_of_text_id(BPE))
    foreign.post_processor = processors.TemplateProcessing(single=f"{END_OF_TEXT} $A", special_tokens=[end])
    foreign.save(str(tmp_path / "tokenizer.json"))
    [cut] = foreign.encode_batch([text], add_special_tokens=False)
    assert len(cut.ids) == 2000 != len(BPE.encode(text).ids)  # or the test shows nothing
    [ids] = encoder(TokenizerKind.BPE, load_tokenizer(tmp_path / "tokenizer.json"))([text])
    assert ids.tolist() == BPE.encode(text).ids
    assert ignored_settings(tmp_path / "tokenizer.json") == ["truncation", "padding", "dropout"]
    save_tokenizer(load_tokenizer(tmp_path / "tokenizer.json"), tmp_path / "again.json")
    assert ignored_settings(tmp_path / "again.json") == []


@pytest.mark.slow
def test_training_is_the_same_in_every_process():
    code = (
        "from itertools import islice; from oelm.data.stories import stories; "
        "from oelm.data.tokenizer import train_bpe; import hashlib; "
        "print(hashlib.sha256(train_bpe(islice(stories(0), 300), 600).to_str(pretty=True).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "RAYON_NUM_THREADS": str(1 + seed)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in (0, 1)
    }  # fmt: skip
    assert len(digests) == 1
    assert digests.pop().strip() == hashlib.sha256(BPE.to_str(pretty=True).encode()).hexdigest()


def test_a_small_text_gives_a_small_vocabulary():
    tokenizer = train_bpe(iter(["ab ab"]), 5000)
    assert 257 < tokenizer.get_vocab_size() < 262
    assert end_of_text_id(tokenizer) == tokenizer.get_vocab_size() - 1


def test_encoding_in_batches_is_encoding_one_by_one():
    sample = list(islice(stories(3), 50))
    together = encoder(TokenizerKind.BPE, BPE)(sample)
    assert all(ids.dtype == np.uint32 for ids in together)
    assert [ids.tolist() for ids in together] == [BPE.encode(text).ids for text in sample]


def test_not_gpt2(tmp_path):
    save_tokenizer(BPE, tmp_path / "tokenizer.json")
    with pytest.raises(DataError, match=r"600 tokens with end-of-text 599.*50257"):
        gpt2_tokenizer([tmp_path / "tokenizer.json"])


def test_files_that_are_no_tokenizers(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(DataError, match="no tokenizer"):
        load_tokenizer(tmp_path / "absent.json")
    with pytest.raises(DataError, match=r"not a tokenizer\.json"):
        load_tokenizer(bad)
    with pytest.raises(DataError, match="not a BPE vocabulary"):
        gpt2_tokenizer([bad, bad])


@pytest.mark.slow
def test_gpt2_offline_fails_at_once_with_the_fix(tmp_path):
    code = "from oelm.data.tokenizer import gpt2_tokenizer; gpt2_tokenizer([])"
    began = time.monotonic()
    outcome = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert time.monotonic() - began < 5
    assert "oelm.base.errors.DataError" in outcome.stderr
    assert "machine with internet" in outcome.stderr


@pytest.mark.skipif(
    "OELM_GPT2_FILES" not in os.environ, reason="set OELM_GPT2_FILES to a folder with GPT-2's BPE files"
)
def test_gpt2_from_vocabulary_and_merges():
    folder = Path(os.environ["OELM_GPT2_FILES"])
    tokenizer = gpt2_tokenizer([folder / "encoder.json", folder / "vocab.bpe"])
    assert tokenizer.encode("Hello world").ids == [15496, 995]
    assert end_of_text_id(tokenizer) == 50256
