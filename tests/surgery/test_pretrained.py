"""Model folders: what is taken, what is noticed, what is refused before anything is loaded."""

import json

import huggingface_hub
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from oelm.base.errors import ConfigError, DataError
from oelm.surgery import model_folder as folders
from oelm.surgery.convert import convert
from oelm.surgery.model_folder import copy_tokenizer, model_digest, model_folder
from oelm.surgery.pretrained import check_classifier, load_classifier
from oelm.surgery.storage import save
from surgery.models import MODELS, VOCABULARY

LABELS = ("no", "yes")
TEXTUAL = sorted(MODELS.keys() - {"vit", "deit", "dinov2", "clip", "whisper"})


def tokenizer(**special):
    words = {name: index for index, name in enumerate(["[PAD]", "[END]", "[UNK]", *"abcdefgh"])}
    built = Tokenizer(models.WordLevel(words, "[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=built, **special)


def saved(folder, name, *, make=None, special=None):
    model = (make or MODELS[name])()
    model.save_pretrained(folder)
    tokenizer(**({"pad_token": "[PAD]", "eos_token": "[END]"} if special is None else special)).save_pretrained(folder)
    return folder


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", TEXTUAL)
def test_every_architecture_is_loaded_whole_with_a_new_head(tmp_path, name):
    folder = saved(tmp_path, name)
    check_classifier(folder, 16)
    model = load_classifier(folder, LABELS, seed=0)
    assert model.config.id2label == {0: "no", 1: "yes"}
    stored = type(MODELS[name]()).from_pretrained(folder).get_input_embeddings().weight
    assert model.get_input_embeddings().weight.equal(stored)


@pytest.mark.parametrize(
    ("changes", "tensor"),
    [
        ({"num_hidden_layers": 4}, r"bert\.encoder\.layer\.3\."),
        ({"vocab_size": VOCABULARY + 1}, r"bert\.embeddings\.word_embeddings\.weight"),
    ],
)
def test_weights_that_are_not_the_configs_are_refused(tmp_path, changes, tensor):
    change_config(saved(tmp_path, "bert"), **changes)
    with pytest.raises(DataError, match=f"{tensor}.* is missing or of another shape"):
        load_classifier(tmp_path, LABELS, seed=0)


@pytest.mark.parametrize(
    ("name", "special", "padding"),
    [
        ("gpt2", {"pad_token": "[UNK]"}, 2),
        ("llama", {"eos_token": "[END]"}, 1),
        ("gpt2", {"pad_token": "[PAD]", "eos_token": "[END]"}, 0),
    ],
)
def test_the_head_of_a_decoder_looks_for_the_padding_that_batches_have(tmp_path, name, special, padding):
    folder = saved(tmp_path, name, special=special)
    change_config(folder, pad_token_id=5)
    model = load_classifier(folder, LABELS, seed=0).eval()
    assert model.config.pad_token_id == padding
    text = torch.tensor([[3, 5, 7]])
    padded = torch.tensor([[3, 5, 7, padding, padding]])
    torch.testing.assert_close(model(text).logits, model(padded, attention_mask=(padded != padding).long()).logits)


def test_neither_padding_nor_end_of_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="neither a padding token nor an end-of-text token"):
        check_classifier(saved(tmp_path, "gpt2", special={}), 16)


@pytest.mark.parametrize(
    ("name", "longest"),
    [
        ("gpt2", 32),
        ("roberta", 38),
        ("xlm-roberta", 38),
        ("camembert", 38),
        ("mpnet", 510),
        ("bert", 512),
        ("t5", None),
    ],
)
def test_no_text_is_longer_than_the_model_can_read(tmp_path, name, longest):
    folder = saved(tmp_path, name)
    if longest is None:
        check_classifier(folder, 100_000)
        return
    check_classifier(folder, longest)
    with pytest.raises(ConfigError, match=rf"more than .* can read \({longest}\)"):
        check_classifier(folder, longest + 1)
    model = load_classifier(folder, LABELS, seed=0)
    model(torch.full((1, longest), 7))
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, longest + 1), 7))


def test_what_is_missing_is_named(tmp_path):
    without = tmp_path / "without"
    MODELS["bert"]().save_pretrained(without)
    with pytest.raises(DataError, match="without has no tokenizer"):
        check_classifier(without, 16)
    with pytest.raises(DataError, match="vit model, and transformers has no sequence-classification head"):
        check_classifier(saved(tmp_path / "vit", "vit"), 16)
    change_config(without, model_type="no-such-thing")
    with pytest.raises(DataError, match=r"transformers cannot read .*config\.json"):
        check_classifier(without, 16)
    (without / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"it has no weights \(model\.safetensors or pytorch_model\.bin\)"):
        model_digest(without)


def test_the_digest_covers_config_weights_and_tokenizer(tmp_path):
    folder = saved(tmp_path, "bert")
    digests = [model_digest(folder)]
    change_config(folder, hidden_dropout_prob=0.5)
    digests.append(model_digest(folder))
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")
    digests.append(model_digest(folder))
    transformers.set_seed(1)
    MODELS["bert"]().save_pretrained(folder)
    change_config(folder, hidden_dropout_prob=0.5)
    digests.append(model_digest(folder))
    (folder / "README.md").write_text("of no account")
    assert len(set(digests)) == 4
    assert model_digest(folder) == digests[-1]


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_model_that_is_cached_in_part_is_asked_of_the_hub(tmp_path, monkeypatch, lost):
    folder = saved(tmp_path / "cached", "bert")
    asked = []

    def information(_api, source, **_named):
        asked.append(source)
        raise ConnectionError("no network")

    monkeypatch.setattr(folders, "_cached", lambda *_: folder)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", information)
    assert model_folder("some/bert", None) == folder
    assert asked == []
    (folder / lost).unlink()
    with pytest.raises(DataError, match="the Hub cannot give that model: no network"):
        model_folder("some/bert", None)
    assert asked == ["some/bert"]


def test_a_missing_shard_is_noticed(tmp_path):
    MODELS["bert"]().save_pretrained(tmp_path, max_shard_size="20KB")
    model_digest(tmp_path)
    shard = min(tmp_path.glob("model-*.safetensors"))
    shard.unlink()
    with pytest.raises(DataError, match=f"it has no {shard.name}"):
        model_digest(tmp_path)


def test_weights_as_bin_are_taken(tmp_path):
    model = MODELS["bert"]()
    saved(tmp_path, "bert", make=lambda: model)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    model_digest(tmp_path)
    loaded = load_classifier(tmp_path, LABELS, seed=0)
    assert loaded.get_input_embeddings().weight.equal(model.get_input_embeddings().weight)


def test_a_tokenizer_is_copied_as_it_is(tmp_path):
    source, target = saved(tmp_path / "source", "bert"), tmp_path / "target"
    target.mkdir()
    copy_tokenizer(source, target)
    assert {file.name for file in target.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    assert (target / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()


def test_a_tokenizer_is_saved_with_its_model(tmp_path):
    model = MODELS["bert"]()
    convert(model, "keep")
    save(model, tmp_path, tokenizer(pad_token="[PAD]"))
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)("a b")["input_ids"] == [3, 4]
