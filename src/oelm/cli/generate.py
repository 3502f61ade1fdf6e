"""`oelm generate`: text from a trained model."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated

from typer import Argument, Option

from oelm.cli.options import Checkpoint

_UNFINISHED = "\ufffd"
"""What a decoder shows for the first bytes of a character whose others are still to come."""


def generate(
    model: Annotated[str, Argument(help="A run folder, the folder of a transformers model, or a name on the Hub.")],
    prompt: Annotated[
        list[str] | None, Option(help="How a text begins; again for more. \\[default: Once upon a time]")
    ] = None,
    tokens: Annotated[int, Option(min=1, max=10_000_000, help="At most this many tokens.")] = 200,
    temperature: Annotated[float, Option(help="0 takes the likeliest token.")] = 0.8,
    top_k: Annotated[int, Option(help="Draw from this many likeliest tokens; 0 for all.")] = 50,
    top_p: Annotated[float, Option(help="Draw from the fewest tokens with this probability.")] = 1.0,
    repetition_penalty: Annotated[float, Option(help="Above 1: against tokens that were there already.")] = 1.0,
    seed: Annotated[int, Option(help="Text i draws with seed + i.")] = 0,
    samples: Annotated[int, Option(min=1, max=100_000, help="How many texts of each prompt.")] = 1,
    batch_size: Annotated[int, Option(min=1, help="Texts at a time; changes none of them.")] = 16,
    checkpoint: Annotated[Checkpoint, Option(help="The last step or the best validation.")] = Checkpoint.LAST,
    device: Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Continue prompts with a trained model; a single text appears as it is written."""
    from oelm.base.runtime import choose_runtime
    from oelm.evaluate.generation import Sampling, generate_all, stream
    from oelm.experiments.evaluated_model import open_model

    sampling = Sampling(temperature, top_k, top_p, repetition_penalty, seed)
    opened = open_model(model, checkpoint.value).model
    opened.module.to(choose_runtime(device).device)
    prompts = [each for each in prompt or ["Once upon a time"] for _ in range(samples)]
    encoded = [opened.encode(each) for each in prompts]
    if len(prompts) == 1:
        sys.stdout.write(prompts[0])
        _show(stream(opened, encoded[0], tokens=tokens, sampling=sampling), opened.tokenizer.decode)
        return
    written = generate_all(opened, encoded, tokens=tokens, sampling=sampling, batch_size=batch_size)
    print("\n---\n".join(begin + opened.tokenizer.decode(text) for begin, text in zip(prompts, written, strict=True)))


def _show(tokens: Iterable[int], decode: Callable[[list[int]], str]) -> None:
    """Write what is new of the text after every token; half a character waits for its other half."""
    seen: list[int] = []
    shown = ""
    for token in tokens:
        seen.append(token)
        text = decode(seen).rstrip(_UNFINISHED)
        if text.startswith(shown):
            sys.stdout.write(text[len(shown) :])
            sys.stdout.flush()
            shown = text
    print(decode(seen)[len(shown) :])
