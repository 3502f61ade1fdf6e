"""Our GPT as a Hugging Face folder that `AutoModelForCausalLM` and `AutoTokenizer` load.

Without a key shift it is plain GPT-2 or, in Llama style, plain Llama, which load everywhere; with one it is a model of
`shifted.py`, which loads after `import oelm`, and elsewhere with `trust_remote_code=True`. The model is read by the
names of its weights, the same that checkpoints hold.
"""

# mypy: disable-error-code=no-untyped-call
# (transformers leaves its constructors untyped)

from pathlib import Path

from tokenizers import Tokenizer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from oelm.base.errors import ConfigError, DataError
from oelm.base.files import writing_folder
from oelm.config.model import Style
from oelm.exports.as_gpt2 import empty_gpt2, gpt2_weights
from oelm.exports.as_llama import empty_llama, llama_weights
from oelm.exports.folding import refuse_unfoldable
from oelm.model.gpt import GPT

END_OF_TEXT = "<|endoftext|>"


def export(model: GPT, tokenizer_file: Path | str, folder: Path | str) -> None:
    """Write model, generation config and tokenizer into a new folder, which appears when it is whole."""
    folder = Path(folder)
    refuse_existing(folder)
    tokenizer = _tokenizer(Path(tokenizer_file), model.config.context)
    exported = as_transformers(model, end_of_text=tokenizer.eos_token_id)
    with writing_folder(folder) as partial:
        exported.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def refuse_existing(folder: Path) -> None:
    """Nothing is overwritten; an empty folder may be filled."""
    if folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        raise ConfigError(f"{folder} exists already and is not an empty folder", "choose another folder, or remove it")


def as_transformers(model: GPT, end_of_text: int | None = None) -> PreTrainedModel:
    """The same function as a transformers model, in the same dtype."""
    config, method, weights = model.config, model.method, model.state_dict()
    refuse_unfoldable(config, method)
    exported: PreTrainedModel
    if config.style is Style.LLAMA:
        exported, translated = empty_llama(config, method, end_of_text), llama_weights(config, method, weights)
    else:
        exported, translated = empty_gpt2(config, method, end_of_text), gpt2_weights(config, method, weights)
    nn.Module.to(exported, weights["token_embedding.weight"].dtype)
    exported.load_state_dict(dict(translated))
    exported.train(False)
    return exported


def _tokenizer(path: Path, context: int) -> PreTrainedTokenizerFast:
    if not path.is_file():
        raise DataError(f"there is no tokenizer {path}", "give the tokenizer.json of the run or its data folder")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise DataError(f"{path} is not a tokenizer.json: {error}", "put it back from the data folder") from error
    return wrapped_tokenizer(tokenizer, END_OF_TEXT, END_OF_TEXT, context)


def wrapped_tokenizer(tokenizer: Tokenizer, begin: str, end: str, context: int) -> PreTrainedTokenizerFast:
    """A tokenizer in transformers' hands; what ends a text also fills up."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=begin,
        eos_token=end,
        pad_token=end,
        padding_side="left",  # to generate for several prompts at once
        model_max_length=context,
        split_special_tokens=True,  # as in training: text never becomes a special token
    )
