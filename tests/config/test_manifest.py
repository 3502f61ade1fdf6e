from typing import Any

import pytest

from oelm.config.manifest import DataManifest, Split, TokenizerInfo, TokenizerKind


def split(file: str, sha256: str) -> Split:
    return Split(file=file, tokens=100, documents=3, text_bytes=300, sha256=sha256)


MANIFEST = DataManifest(
    name="stories",
    tokenizer=TokenizerInfo(kind=TokenizerKind.BYTES, vocabulary=257, end_of_text=256, sha256="t"),
    dtype="uint16",
    train=split("train.bin", "a"),
    valid=split("valid.bin", "b"),
    sources=(),
    holdout="last documents",
)


def test_it_survives_json() -> None:
    assert DataManifest.model_validate_json(MANIFEST.model_dump_json()) == MANIFEST


@pytest.mark.parametrize(
    ("change", "same_tokens"),
    [
        ({"name": "other"}, True),
        ({"holdout": "other"}, True),
        ({"train": split("renamed.bin", "a")}, True),
        ({"train": split("train.bin", "c")}, False),
        ({"valid": split("valid.bin", "c")}, False),
        ({"dtype": "uint32"}, False),
        ({"tokenizer": MANIFEST.tokenizer.model_copy(update={"sha256": "u"})}, False),
        ({"train": split("train.bin", "b"), "valid": split("valid.bin", "a")}, False),
    ],
)
def test_the_digest_is_of_the_tokens(change: dict[str, Any], same_tokens: bool) -> None:
    assert (MANIFEST.model_copy(update=change).digest == MANIFEST.digest) is same_tokens
