"""Models that are not made from scratch: a Hugging Face one, or our GPT from a finished run."""

from typing import Literal

from oelm.config.settings import Settings


class HuggingFaceModel(Settings):
    """A transformers model by its folder or its name on the Hub; `digest` is of config, weights and tokenizer."""

    kind: Literal["hugging-face"] = "hugging-face"
    source: str
    revision: str | None = None
    digest: str
    attention: tuple[str, ...] | None = None
    """Which kinds of attention the method is applied to: encoder, decoder, cross; None for all that there are."""
    train_biases: bool = False
    """Train the biases of Q and K instead of freezing them with their matrices."""


class GPTFromRun(Settings):
    """Our GPT as a run left it: with the run's size and method; `digest` is of settings, weights and tokenizer."""

    kind: Literal["gpt-run"] = "gpt-run"
    folder: str
    checkpoint: Literal["last", "best"] = "last"
    digest: str
