"""`oelm generate`: text from a trained run."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from oelm.cli.options import Checkpoint


def generate(
    run: Annotated[Path, Argument(help="A run folder.")],
    prompt: Annotated[str, Option(help="How the text begins.")] = "Once upon a time",
    tokens: Annotated[int, Option(min=1, help="At most this many tokens.")] = 200,
    temperature: Annotated[float, Option(help="0 takes the likeliest token.")] = 0.8,
    top_k: Annotated[int, Option(help="Draw from this many likeliest tokens; 0 for all.")] = 50,
    seed: Annotated[int, Option()] = 0,
    samples: Annotated[int, Option(min=1, help="How many texts.")] = 1,
    checkpoint: Annotated[Checkpoint, Option(help="The last step or the best validation.")] = Checkpoint.LAST,
) -> None:
    """Continue a prompt with a trained model."""
    from oelm.data.tokenizer import end_of_text_id, load_tokenizer
    from oelm.evaluate.generation import Sampling
    from oelm.evaluate.generation import generate as continue_prompt
    from oelm.experiments.trained_run import load_run

    model, files = load_run(run, checkpoint.value)
    tokenizer = load_tokenizer(files.tokenizer_file)
    encoded = tokenizer.encode(prompt, add_special_tokens=False).ids
    for sample in range(samples):
        sampling = Sampling(temperature=temperature, top_k=top_k, seed=seed + sample)
        ended = end_of_text_id(tokenizer)
        written = list(continue_prompt(model, encoded, tokens=tokens, sampling=sampling, end_of_text=ended))
        if sample:
            print("---")
        print(prompt + tokenizer.decode(written))
