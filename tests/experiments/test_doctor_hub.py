"""What the studies read from the Hub is asked for, each once; nobody has to be there."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub.errors import RevisionNotFoundError

from data.hub_cache import cache_split
from oelm.base.errors import DataError
from oelm.config.doctor_record import Outcome
from oelm.config.labelled_data import HubTask
from oelm.data import hub
from oelm.data.hub import GPT2_REVISION, HubCorpus
from oelm.data.sources import Hub
from oelm.experiments.doctor import _checked
from oelm.experiments.doctor_hub import PublishedModel, fetched_tokenizer, hub_needs, named, seen_of
from oelm.experiments.shipped import shipped_studies

TINY = Hub(corpus=HubCorpus.TINYSTORIES)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))


def answers(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> list[tuple[str, str, str]]:
    """The Hub as it answers every question, and what it was asked."""
    asked = []

    def repo_info(_api: object, repository: str, revision: str, repo_type: str, timeout: float) -> SimpleNamespace:
        asked.append((repository, revision, repo_type))
        if error:
            raise error
        return SimpleNamespace(sha="0" * 40)

    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", repo_info)
    return asked


class Gone(RevisionNotFoundError):
    """As the Hub says it, without its answer."""

    def __init__(self) -> None:
        Exception.__init__(self, "404")


def test_all_that_the_shipped_studies_read_and_no_folder_of_ours(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("title: [\n")
    needs = hub_needs([broken, *shipped_studies().values()])
    names = {"tinystories", "openwebtext", "wikitext-103", "sst2", "mnli", "xnli", "xsum"}
    assert {named(need) for need in needs} == names | {"bert-base-uncased", "t5-small", "facebook/bart-base"}
    assert len(needs) == len(set(needs)) == 10


def test_each_at_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, None)
    for need in (TINY, HubTask(name="sst2"), PublishedModel("t5-small", "v1")):
        assert seen_of(need) == "reachable"
    tiny = hub.HUB_DATASETS[HubCorpus.TINYSTORIES]
    glue = ("nyu-mll/glue", "main", "dataset")
    assert asked == [(tiny.repository, tiny.revision, "dataset"), glue, ("t5-small", "v1", "model")]


def test_without_a_network_what_is_cached_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, OSError("no route"))
    absent = _checked("Hub", lambda: seen_of(TINY))
    assert absent.outcome is Outcome.ABSENT
    assert absent.note.startswith("neither reachable nor cached: cannot fetch")
    for split in ("train", "validation"):
        assert _checked("Hub", lambda: seen_of(TINY)).outcome is Outcome.ABSENT
        cache_split(tmp_path, HubCorpus.TINYSTORIES, ["a"], split)
    assert seen_of(TINY) == "cached; the Hub cannot be reached"
    answers(monkeypatch, None)
    assert seen_of(TINY) == "reachable, cached"


def test_a_revision_that_is_gone_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, Gone())
    found = _checked("Hub", lambda: seen_of(TINY))
    assert (found.outcome, "has no revision" in found.note) == (Outcome.FAILED, True)
    assert _checked("Hub", fetched_tokenizer).outcome is Outcome.FAILED


def test_the_tokenizer_is_really_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oelm.data.tokenizer import byte_tokenizer

    answers(monkeypatch, None)
    fetched = []

    def download(_repository: str, name: str, revision: str, *, local_files_only: bool = False) -> str:
        if local_files_only:
            from huggingface_hub.errors import LocalEntryNotFoundError

            raise LocalEntryNotFoundError("not here")
        fetched.append((name, revision))
        byte_tokenizer().save(str(tmp_path / name))
        return str(tmp_path / name)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert fetched_tokenizer() == "257 tokens"
    assert fetched == [("tokenizer.json", GPT2_REVISION)]


def test_the_tokenizer_may_be_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, OSError("no route"))
    assert _checked("Hub", fetched_tokenizer).outcome is Outcome.ABSENT
    with pytest.raises(DataError):
        hub.gpt2_tokenizer_file()
