"""What is asked for becomes complete specs, or an error that names the fix."""

import pytest

from oelm.base.errors import ConfigError
from oelm.bench.spec import BenchRequest, Peer, What, chosen, specs_of

from .specs import TINY


def test_every_question_for_every_size_and_one_bert():
    request = BenchRequest(what=(What.TRAIN, What.FINETUNE), sizes=("tiny", "small"))
    assert [(spec.what, spec.size) for spec in specs_of(request)] == [
        (What.TRAIN, "tiny"),
        (What.TRAIN, "small"),
        (What.FINETUNE, "bert-base"),
    ]
    bert = specs_of(request)[-1].shape
    assert (bert.layers, bert.width, bert.heads, bert.ffn_width, bert.vocabulary) == (12, 768, 12, 3072, 30522)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reference": "keep"}, "does not take part"),
        ({"methods": ("nonsense",)}, "unknown method"),
        ({"heads": 3}, "not divisible"),
        ({"sizes": ("huge",)}, "unknown size"),
        ({"what": (What.FINETUNE,), "compile": True}, "leave --compile out"),
        ({"what": (What.FINETUNE,), "style": "llama"}, "leave --style out"),
        ({"style": "llama", "peers": ("plain",)}, "leave it out of --peers"),
    ],
)
def test_the_impossible_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        specs_of(BenchRequest.model_validate({**TINY.model_dump(), **changes}))


def test_the_reference_is_the_baseline_or_the_first_or_a_peer():
    for changes, reference in (
        ({}, "baseline"),
        ({"methods": ("oelm", "oelm-frame")}, "oelm"),
        ({"reference": "plain"}, "plain"),
    ):
        (spec,) = specs_of(TINY.model_copy(update=changes))
        assert spec.reference == reference


def test_llama_style_beside_the_peer_that_has_it():
    (spec,) = specs_of(BenchRequest(style="llama", sizes=("small",)))
    assert (spec.shape.style, spec.shape.ffn_width, spec.peers) == ("llama", 672, (Peer.HUGGING_FACE,))
    (spec,) = specs_of(BenchRequest(sizes=("small",)))
    assert (spec.shape.ffn_width, spec.peers) == (1024, tuple(Peer))


def test_lists_of_names():
    assert chosen(Peer, "plain, hugging-face", "--peers") == ["plain", "hugging-face"]
    assert chosen(Peer, "none", "--peers") == []
    with pytest.raises(ConfigError, match="--what does not know 'fly'"):
        chosen(What, "train,fly", "--what")
