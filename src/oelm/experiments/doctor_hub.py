"""What the studies read from the Hub: can it be fetched, is it here already?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from oelm.base.errors import DataError, OelmError
from oelm.config.labelled_data import HubTask
from oelm.config.request import FinetuneRequest
from oelm.data import hub, labelled_hub
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Hub
from oelm.data.tokenizer import load_tokenizer
from oelm.experiments.doctor_bench import NotHere
from oelm.experiments.study import Study, StudyFile

_NEWEST = "main"


@dataclass(frozen=True)
class PublishedModel:
    """A pre-trained model by its name on the Hub."""

    source: str
    revision: str | None


HubNeed = Hub | HubTask | PublishedModel


def hub_needs(studies: Sequence[Path]) -> tuple[HubNeed, ...]:
    """Everything that these studies read from the Hub, each once."""
    return tuple(dict.fromkeys(need for path in studies for need in _needs(path)))


def _needs(path: Path) -> Iterator[HubNeed]:
    try:
        study = StudyFile.read(path).study
    except OelmError:  # its row among the hours says what is wrong with it
        return
    for data in study.data.values():
        if isinstance(data, PrepareRequest):
            yield from (source for source in (data.source, data.valid) if isinstance(source, Hub))
        elif isinstance(data, HubTask):
            yield data
    yield from _models(study)


def _models(study: Study) -> Iterator[PublishedModel]:
    from oelm.surgery.outline import is_published

    for cell in study.cells:
        request = cell.request
        if isinstance(request, FinetuneRequest) and is_published(request.own_model):
            yield PublishedModel(request.own_model, request.revision)


def named(need: HubNeed) -> str:
    """By the name that the study uses."""
    match need:
        case Hub(corpus=corpus):
            return corpus.value
        case HubTask(name=name):
            return name
        case PublishedModel(source=source):
            return source
        case _:
            assert_never(need)


def seen_of(need: HubNeed) -> str:
    """Whether it can be fetched, and whether it is here. What the Hub does not have at all is an error."""
    repository, revision, kind = _place(need)
    cached = _is_cached(need)
    try:
        hub.require_hub(repository, revision, repository, kind=kind)
    except DataError as error:
        _absent_unless_refused(error, cached=cached)
        return "cached; the Hub cannot be reached"
    return "reachable, cached" if cached else "reachable"


def fetched_tokenizer() -> str:
    """The one thing that is really fetched, unless it is here: 1.4 MB."""
    try:
        file = hub.gpt2_tokenizer_file()
    except DataError as error:
        _absent_unless_refused(error, cached=False)
        raise
    return f"{load_tokenizer(file).get_vocab_size():,} tokens"


def _absent_unless_refused(error: DataError, *, cached: bool) -> None:
    """No network is no fault of ours; an answer that there is no such thing is one."""
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error.__cause__, RepositoryNotFoundError | RevisionNotFoundError):
        raise error
    if not cached:
        raise NotHere(f"neither reachable nor cached: {error.problem}") from error


def _place(need: HubNeed) -> tuple[str, str, Literal["dataset", "model"]]:
    match need:
        case Hub(corpus=corpus, revision=revision):
            dataset = hub.HUB_DATASETS[corpus]
            return dataset.repository, revision or dataset.revision, "dataset"
        case HubTask(revision=revision):
            return labelled_hub.known_set(need).repository, revision or _NEWEST, "dataset"
        case PublishedModel(source=source, revision=revision):
            return source, revision or _NEWEST, "model"
        case _:
            assert_never(need)


def _is_cached(need: HubNeed) -> bool:
    match need:
        case Hub(corpus=corpus, revision=revision):
            return hub.is_cached(corpus, revision)
        case HubTask():
            return labelled_hub.is_cached(need)
        case PublishedModel(source=source, revision=revision):
            from oelm.surgery.model_folder import cached_model

            return cached_model(source, revision) is not None
        case _:
            assert_never(need)
