"""Models to evaluate: a run, a folder of a transformers model, or a name on the Hub; and where their answers go."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torch import nn

from oelm.base.errors import ConfigError
from oelm.base.files import make_folder, read_json, write_text
from oelm.base.runtime import Runtime
from oelm.config.evaluated import EVALUATION_FILE, EvaluationFile, EvaluationRequest, Suite
from oelm.config.model import HuggingFaceModel
from oelm.config.run import DataConfig, RunConfig
from oelm.config.settings import fingerprint, parse, unplaced
from oelm.data.tokenizer import end_of_text_id, load_tokenizer
from oelm.data.tokens import file_sha256
from oelm.evaluate.answer import Answer
from oelm.evaluate.language_model import LanguageModel
from oelm.evaluate.suites import compare_answers, evaluate
from oelm.experiments.subjects import open_tokens, with_found_data
from oelm.experiments.trained_run import checkpoint_folder_of, load_finetuned, load_run, trained_digest
from oelm.train.folder import RunFolder
from oelm.train.provenance import environment

Which = Literal["last", "best"]
_NAMED = 8
"""How many runs an error names."""


@dataclass(frozen=True)
class OpenedModel:
    """A model, what tells it from others, the folder it lies in, and the run that it comes from, if it does."""

    model: LanguageModel
    digest: str
    folder: Path | None
    run: RunConfig | None = None


def open_model(source: str, which: Which = "last") -> OpenedModel:
    """A run folder, another folder, or a name on the Hub, in this order."""
    files = RunFolder(Path(source))
    if not files.config_file.is_file():
        _refuse_folder_of_runs(Path(source))
        return _open_transformers(source)
    config = files.config()
    if isinstance(config.model, HuggingFaceModel) and isinstance(config.data, DataConfig):
        return _open_finetuned(source, files, which)
    module, _ = load_run(source, which)
    assert isinstance(config.data, DataConfig), "load_run refuses others"
    tokenizer = load_tokenizer(files.tokenizer_file)
    model = LanguageModel(
        name=source,
        module=module,
        tokenizer=tokenizer,
        context=module.config.context,
        end_of_text=end_of_text_id(tokenizer),
        checkpoint=which,
        step=_step(files, which),
    )
    return OpenedModel(model, trained_digest(files, "last"), files.path, config)


def _refuse_folder_of_runs(folder: Path) -> None:
    runs = sorted(each.name for each in folder.glob("*/") if RunFolder(each).config_file.is_file())
    if runs and not (folder / "config.json").is_file():
        named = ", ".join(runs[:_NAMED]) + (", ..." if runs[_NAMED:] else "")
        raise ConfigError(f"{folder} holds {len(runs)} runs, not a model", f"give one of them: {named}")


def _open_transformers(source: str) -> OpenedModel:
    from oelm.surgery.causal_model import load_causal
    from oelm.surgery.model_folder import model_digest, model_folder

    folder = model_folder(source, None)
    model = _with_tokenizer(source, load_causal(folder), folder)
    return OpenedModel(model, model_digest(folder), folder if Path(source).is_dir() else None)


def _open_finetuned(source: str, files: RunFolder, which: Which) -> OpenedModel:
    config, weights = files.config(), checkpoint_folder_of(files, which)
    assert isinstance(config.model, HuggingFaceModel)
    assert isinstance(config.data, DataConfig)
    module, origin = load_finetuned(config, config.model, weights)
    model = replace(_with_tokenizer(source, module, origin), checkpoint=which, step=_step(files, which))
    last = checkpoint_folder_of(files, "last") / "model.safetensors"
    return OpenedModel(model, fingerprint([config.fingerprint, file_sha256(last)]), files.path, config)


def _with_tokenizer(name: str, module: nn.Module, folder: Path) -> LanguageModel:
    from oelm.surgery.causal_model import causal_config, causal_tokenizer

    tokenizer, begin, end = causal_tokenizer(folder)
    context = getattr(causal_config(folder), "max_position_embeddings", None)
    if not isinstance(context, int):
        raise ConfigError(f"{name} does not say how many tokens it reads", "set max_position_embeddings in its config")
    return LanguageModel(
        name=name, module=module, tokenizer=tokenizer, context=context, end_of_text=end, begin_of_text=begin
    )


def _step(files: RunFolder, which: Which) -> int:
    """After how many steps the weights were saved; the best ones of an unfinished run, at most."""
    if not files.finished:
        return files.saved_step
    best = files.record().result.best_step
    return files.config().train.steps if which == "last" or best is None else best


def evaluate_models(
    sources: Sequence[str], request: EvaluationRequest, runtime: Runtime, out: Path | None = None
) -> Iterator[tuple[EvaluationFile, Path]]:
    """Ask every model, pair each with the first, and write its `eval.json`: in its own folder, or below `out`."""
    first: tuple[str, list[Answer]] | None = None
    judge, asked_in = open_model(request.judge).model if request.judge else None, environment(runtime)
    if judge is not None:
        nn.Module.to(judge.module, runtime.device).eval()
    for source in sources:
        opened = open_model(source, request.checkpoint)
        target = _target(opened, out, several=len(sources) > 1)
        nn.Module.to(opened.model.module, runtime.device)
        asked = _with_text(request, source, opened.run)
        answers = evaluate(opened.model, asked, judge)
        pairs = compare_answers(answers, first[1], unplaced(first[0])) if first else []
        first = first or (source, answers)
        found = EvaluationFile(
            model=unplaced(source),
            digest=opened.digest,
            fingerprint=opened.run.fingerprint if opened.run else None,
            requests=(asked.without_places(),),
            results=tuple(answer.result.model_copy(update={"environment": asked_in}) for answer in answers),
            paired=tuple(pairs),
        )
        make_folder(target.parent)
        write_text(target, found.taking_up(_earlier(target)).model_dump_json(indent=2) + "\n")
        yield found, target


def unfinished_steps(file: Path) -> str | None:
    """`step 4 of 200`, where answers lie in the folder of a run that has not ended; else None."""
    files = RunFolder(file.parent)
    if files.finished or not files.config_file.is_file():
        return None
    return f"step {files.saved_step:,} of {files.config().train.steps:,}"


def is_answered(run: Path, request: EvaluationRequest) -> bool:
    """Whether the model of a finished run has been asked exactly this."""
    config, found = RunFolder(run).config(), _earlier(run / EVALUATION_FILE)
    assert isinstance(config.data, DataConfig), "a study asks language models only"
    if found is None or found.fingerprint != config.fingerprint:
        return False
    asked = _with_text(request, str(run), config)
    is_of_its_end = all(result.is_of_step(config.train.steps) for result in found.results)
    return is_of_its_end and asked.without_places() in found.requests


def _with_text(request: EvaluationRequest, model: str, run: RunConfig | None) -> EvaluationRequest:
    """Without a text, the one that the run itself was validated on: not the half that chose its learning rate."""
    if request.texts or Suite.LIKELIHOOD not in request.suites:
        return request
    if run is None:
        raise ConfigError(f"{model} is no run and has no text of its own", "give one: --text FILE")
    data = with_found_data(run, Path(model)).data
    assert isinstance(data, DataConfig), "a language model"
    open_tokens(data)  # refused if they are others by now
    return request.model_copy(update={"texts": (data.folder,), "half": request.half or run.train.validation_half})


def _target(opened: OpenedModel, out: Path | None, *, several: bool) -> Path:
    if out is not None:
        return (out / Path(opened.model.name).name if several else out) / EVALUATION_FILE
    if opened.folder is None:
        raise ConfigError(f"{opened.model.name} lies in no folder of yours", "say where its answers go: --out FOLDER")
    return opened.folder / EVALUATION_FILE


def _earlier(path: Path) -> EvaluationFile | None:
    return parse(EvaluationFile, read_json(path), str(path)) if path.is_file() else None
