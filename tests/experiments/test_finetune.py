"""Fine-tuning from a folder and labelled files to a record: every kind of model, the same loop."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import transformers
import yaml
from rich.console import Console
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import oelm
from oelm.base.errors import CheckpointError, ConfigError, DataError
from oelm.base.files import read_json
from oelm.cli.main import command_line
from oelm.config.labelled_data import Answers, Columns, GeneratedTask, LabelledFile, LocalTables
from oelm.config.record import Record, ValidationEvent
from oelm.config.request import FinetuneRequest, TokenText
from oelm.config.run import RunConfig
from oelm.config.settings import parse
from oelm.data.labelled_sets import Encoded, TextTokenizer
from oelm.data.tokenizer import load_tokenizer
from oelm.experiments.assemble import run
from oelm.experiments.resolving import resolve_finetune, resolve_for_plan, resolve_on_data
from oelm.experiments.study import StudyFile
from oelm.experiments.study_plan import planned_counts
from oelm.experiments.subjects import subject_of
from oelm.experiments.trained_run import export_run
from oelm.method.cost import weight_counts
from oelm.report.groups import build_report
from oelm.report.reproduce import arguments_of
from oelm.report.sentences import footnotes
from oelm.report.texts import Language, Texts
from oelm.surgery import convert
from oelm.tasks.labelled_batches import LabelledBatches
from oelm.tasks.task import Batch
from oelm.train.folder import RunFolder
from oelm.train.run_record import read_events
from train.processes import parallel
from train.toys import tiny_config, tokens, trained, without_digests

PRAISE, BLAME = ["good", "great", "fine", "nice"], ["bad", "awful", "poor", "sad"]
WORDS = [*PRAISE, *BLAME, "film", "story", "actor", "plot", "the", "a", "is", "was"]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VOCABULARY = len(WORDS) + len(SPECIAL)
MODEL = "model.safetensors"
LETTERS = Path(__file__).resolve().parents[2] / "experiments" / "cpu" / "t5-letters" / "config.json"


def bert() -> transformers.PreTrainedModel:
    return transformers.BertModel(transformers.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=32, **SIZES))


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=16, n_layer=2, n_head=2, **IDS)
    return transformers.GPT2LMHeadModel(config)


def t5() -> transformers.PreTrainedModel:
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, **IDS)
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config)


def bart() -> transformers.PreTrainedModel:
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        max_position_embeddings=32,
        decoder_start_token_id=2,
        **layers,
        **heads,
        **IDS,
    )
    return transformers.BartForConditionalGeneration(config)


MODELS = {"bert": bert, "gpt2": gpt2, "t5": t5, "bart": bart}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate([*SPECIAL, *WORDS])}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", eos_token="[SEP]", cls_token="[CLS]", sep_token="[SEP]"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folders and tables: a sentence is positive if its word of praise is one."""
    path = tmp_path_factory.mktemp("finetune")
    transformers.logging.set_verbosity_error()
    for name, make in MODELS.items():
        transformers.set_seed(0)
        make().save_pretrained(path / name)
        tokenizer().save_pretrained(path / name)
    for split, count in (("train", 160), ("dev", 40)):
        draw = random.Random(split)
        rows = []
        for _ in range(count):
            label = draw.randrange(2)
            praise = draw.choice(PRAISE if label else BLAME)
            padding = " ".join(draw.choices(WORDS[8:], k=draw.randrange(1, 8)))
            rows.append(f"{padding} {praise}\t{'good' if label else 'bad'}")
        (path / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *rows]), encoding="utf-8")
    return path


def request(folder: Path, **changes: object) -> FinetuneRequest:
    source = LocalTables(
        name="praise",
        train=LabelledFile(path=str(folder / "train.tsv")),
        evaluate={"dev": LabelledFile(path=str(folder / "dev.tsv"))},
        columns=Columns(text="sentence"),
    )
    values = {
        "model": str(folder / "bert"),
        "source": source,
        "max_length": 24,
        "lr": 5e-3,
        "epochs": 2,
        "batch_size": 8,
        "tensorboard": False,
        **changes,
    }
    return FinetuneRequest.model_validate(values)


def finished(config_request: FinetuneRequest, out: Path) -> Record:
    record = run(resolve_finetune(config_request), out, resume=False, console=Console(quiet=True))
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("bert", "oelm-qr"),
        ("gpt2", "oelm"),
        pytest.param("t5", "oelm-polar+matched", marks=pytest.mark.slow),
        pytest.param("bart", "keep", marks=pytest.mark.slow),
        ("bert", "baseline"),
    ],
)
def test_every_architecture_trains_freezes_and_is_evaluated_once(
    folder: Path, tmp_path: Path, model: str, method: str
) -> None:
    record = finished(request(folder, model=str(folder / model), method=method), tmp_path)
    assert record.task == "classification"
    assert record.audit.unchanged is not False
    assert bool(record.audit.always_frozen) == (method != "baseline")
    assert [(row.name, row.checkpoint) for row in record.evaluations] == [("dev", "last"), ("dev", "best")]
    last = record.evaluations[0]
    right = [a == b for a, b in zip(last.predictions.split(), last.labels.split(), strict=True)]
    assert len(right) == 40
    assert last.measures["accuracy"] == pytest.approx(sum(right) / 40)
    assert record.flops.saved_share == 0 if method == "baseline" else record.flops.saved_share > 0
    assert record.geometry
    query_error = record.geometry[0].query_gram_error
    assert (query_error < 1e-5) == method.startswith("oelm")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "method"), [("gpt2", "lora+rank=2"), ("bert", "bitfit"), ("bert", "top-layers+top=1")]
)
def test_comparators_are_arms_like_others(folder: Path, tmp_path: Path, model: str, method: str) -> None:
    wanted = request(folder, model=str(folder / model), method=method, epochs=0.5)
    record = finished(wanted, tmp_path / "run")
    assert record.audit.unchanged
    assert record.counts.trained < record.counts.frozen * (1 if method.startswith("top") else 0.5)
    assert record.flops.saved_share > 0.1
    again = subject_of(resolve_finetune(wanted))
    assert weight_counts(None, again.table, 1) == record.counts
    export_run(tmp_path / "run", tmp_path / "out")
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    assert not any("lora" in name for name in plain.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize(("model", "method"), [("gpt2", "keep+shift+gain+rank=2+qk-lr=0.3"), ("bert", "oelm-core")])
def test_extras_are_counted_trained_and_exported(folder: Path, tmp_path: Path, model: str, method: str) -> None:
    config = resolve_finetune(request(folder, model=str(folder / model), method=method, epochs=0.5))
    record = run(config, tmp_path / "run", resume=False, console=Console(quiet=True))
    assert record is not None
    assert record.audit.unchanged
    counted = {row.role: row.trained for row in record.counts.roles}
    assert counted["key shift"] == counted["logit gain"] > 0
    assert planned_counts(config) == record.counts
    export_run(tmp_path / "run", tmp_path / "out")
    weights = load_file(max((tmp_path / "run" / "checkpoint").glob("step-*")) / MODEL)
    added = {name: p for name, p in oelm.load(tmp_path / "out").named_parameters() if ".oelm." in name}
    assert added
    assert all(parameter.equal(weights[name]) for name, parameter in added.items())


# --- labels that are numbers or texts ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(folder: Path) -> Path:
    """Tables beside the others: how much praise a sentence has, and the words of praise in it."""
    for split, count in (("train", 240), ("dev", 40)):
        draw = random.Random(split)
        rows = []
        for _ in range(count):
            words = draw.choices([*PRAISE, *WORDS[8:]], k=draw.randrange(2, 6))
            praise = [word for word in words if word in PRAISE]
            rows.append(f"{' '.join(words)}\t{len(praise) / 2}\t{' '.join(praise) or 'bad'}")
        (folder / f"{split}-answers.tsv").write_text("\n".join(["sentence\tshare\tpraise", *rows]), encoding="utf-8")
    return folder


def answers(folder: Path, kind: Answers, label: str, **changes: object) -> FinetuneRequest:
    source = LocalTables(
        name="praise",
        train=LabelledFile(path=str(folder / "train-answers.tsv")),
        evaluate={"dev": LabelledFile(path=str(folder / "dev-answers.tsv"))},
        columns=Columns(text="sentence", label=label),
        answers=kind,
    )
    return request(folder, source=source, max_target_length=8, **changes)


@pytest.mark.slow
def test_numbers_are_learnt_and_exported(answered: Path, tmp_path: Path) -> None:
    wanted = answers(answered, Answers.NUMBERS, "share", method="oelm", epochs=6)
    record = finished(wanted, tmp_path / "run")
    assert (record.task, record.declared[0].name) == ("regression", "pearson")
    assert record.result.loss < 0.3 * record.answer_entropy
    last = record.evaluations[0]
    assert last.measures["pearson"] > 0.8
    errors = [float(a) - float(b) for a, b in zip(last.predictions.split(), last.labels.split(), strict=True)]
    assert last.measures["loss"] == pytest.approx(sum(error**2 for error in errors) / 40, rel=1e-3)
    export_run(tmp_path / "run", tmp_path / "out")
    exported = oelm.load(tmp_path / "out")
    assert (exported.config.num_labels, exported.config.problem_type) == (1, "regression")
    assert planned_counts(resolve_finetune(wanted)) == record.counts
    ours = answers(answered, Answers.NUMBERS, "share", model="gpt", size="tiny", epochs=0.1)
    ours = ours.changed(tokenizer=str(tokens() / "tokenizer.json"))
    assert "spearman" in finished(ours, tmp_path / "gpt").evaluations[0].measures
    with pytest.raises(DataError, match=r"train, example 1: the label '.*' is not a number"):
        subject_of(resolve_finetune(answers(answered, Answers.NUMBERS, "praise")))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["t5", "bart"])
def test_texts_are_written_by_encoder_decoders(answered: Path, tmp_path: Path, model: str) -> None:
    wanted = answers(answered, Answers.TEXTS, "praise", model=str(answered / model), method="keep", epochs=0.5)
    record = finished(wanted, tmp_path / "run")
    assert (record.task, record.declared[0].name) == ("seq2seq", "rouge_l")
    assert record.audit.unchanged
    assert record.flops.saved_share > 0
    last = record.evaluations[0]
    assert last.measures["exact_match"] == pytest.approx(last.predictions.split().count("1") / 40)
    assert planned_counts(resolve_finetune(wanted)) == record.counts
    export_run(tmp_path / "run", tmp_path / "out")
    exported = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    subject = subject_of(resolve_finetune(wanted))
    batch = next(iter(subject.task.batches_of(subject.evaluation_sets["dev"])))
    assert torch.isfinite(subject.task.loss(exported, batch).total)


@pytest.mark.slow
def test_a_t5_is_drawn_from_its_config(tmp_path: Path) -> None:
    """The model of `experiments/cpu/seq2seq.yaml`: arms of one seed share what the method does not touch."""
    source = GeneratedTask(name="copy")
    wanted = FinetuneRequest(
        model=str(LETTERS), source=source, method="oelm", max_length=16, max_target_length=16, tensorboard=False
    )
    wanted = wanted.changed(lr=3e-3, train_examples=480, holdout_examples=16, epochs=1)
    one, other = (subject_of(resolve_finetune(wanted.changed(seed=seed))) for seed in (0, 1))
    again = subject_of(resolve_finetune(wanted.changed(method="baseline")))
    assert torch.equal(one.model.shared.weight, again.model.shared.weight)
    assert not torch.equal(one.model.shared.weight, other.model.shared.weight)
    record = finished(wanted, tmp_path)
    assert record.result.loss < record.answer_entropy
    with pytest.raises(ConfigError, match="a config without weights"):
        resolve_finetune(request(tmp_path, model=str(LETTERS)))


def test_texts_need_an_encoder_decoder(answered: Path) -> None:
    with pytest.raises(DataError, match="no encoder-decoder"):
        resolve_finetune(answers(answered, Answers.TEXTS, "praise"))
    ours = answers(answered, Answers.TEXTS, "praise", model="gpt", size="tiny")
    with pytest.raises(ConfigError, match="need an encoder-decoder"):
        resolve_finetune(ours.changed(tokenizer=str(tokens() / "tokenizer.json")))


@pytest.mark.parametrize(("model", "head"), [("bert", ("classifier", "bert.pooler")), ("gpt2", ("score",))])
def test_the_head_alone(folder: Path, tmp_path: Path, model: str, head: tuple[str, ...]) -> None:
    wanted = request(folder, model=str(folder / model), method="keep", head_only=True, epochs=0.5)
    record = finished(wanted, tmp_path)
    assert all(name.startswith(head) for name in record.audit.trained)
    assert record.audit.unchanged
    assert planned_counts(resolve_finetune(wanted)) == record.counts
    with pytest.raises(ConfigError, match="a GPT from scratch has learnt nothing"):
        resolve_finetune(wanted.changed(model="gpt"))


def test_a_pretrained_model_is_kept_by_default(folder: Path) -> None:
    assert resolve_finetune(request(folder)).method.name == "keep"
    scratch = request(folder, model="gpt", size="tiny", tokenizer=str(tokens() / "tokenizer.json"))
    assert resolve_finetune(scratch).method.name == "oelm"


@pytest.mark.slow
def test_it_learns(folder: Path, tmp_path: Path) -> None:
    record = finished(request(folder, method="oelm", epochs=6), tmp_path)
    assert record.evaluations[0].measures["accuracy"] > 0.9
    assert record.result.measures["f1"] > 0.9


def test_arms_of_one_seed_share_the_head_and_the_batches(folder: Path) -> None:
    one, other = (subject_of(resolve_finetune(request(folder, method=method))) for method in ("baseline", "oelm"))
    third = subject_of(resolve_finetune(request(folder, method="baseline", seed=1)))
    weights = [subject.model.get_parameter("classifier.weight") for subject in (one, other, third)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])
    places = [subject.task.training_batch(3, 0, 1)["places"].tolist() for subject in (one, other, third)]
    assert places[0] == places[1] != places[2]


@pytest.mark.slow
def test_killed_and_resumed_it_ends_the_same(folder: Path, tmp_path: Path) -> None:
    """A run cut off behind a checkpoint is what a kill leaves; the rest is the loop's own, tested with real kills."""
    config = resolve_finetune(request(folder, method="oelm", save_every=5))
    whole = run(config, tmp_path / "whole", resume=False, console=Console(quiet=True))
    run(config, tmp_path / "cut", resume=False, console=Console(quiet=True))
    cut = RunFolder(tmp_path / "cut")
    cut.record_file.unlink()
    newest = max(cut.checkpoint_folder.glob("step-*"))
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    resumed = run(config, tmp_path / "cut", resume=True, console=Console(quiet=True))
    assert whole is not None
    assert resumed is not None
    assert resumed.result == whole.result
    assert resumed.evaluations == whole.evaluations


def gone_back(config: RunConfig, out: Path) -> RunFolder:
    """A run as a kill leaves it behind its checkpoint of step 5."""
    run(config, out, resume=False, console=Console(quiet=True))
    files = RunFolder(out)
    files.record_file.unlink()
    shutil.rmtree(max(files.checkpoint_folder.glob("step-*")))
    return files


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_lost_best_checkpoint_is_refused_before_any_work(folder: Path, tmp_path: Path, damage: str) -> None:
    """The run could train to its end, and then never get its record."""
    config = resolve_finetune(request(folder, method="oelm", epochs=0.5, save_every=5, validate_every=2))
    files = gone_back(config, tmp_path / "run")
    last = files.checkpoint_folder / "step-00000005"
    before = read_json(last / "training.json")["progress"]
    for best in files.checkpoint_folder.glob("best-*"):
        shutil.rmtree(best)
    if damage == "flipped":
        best = shutil.copytree(last, files.checkpoint_folder / f"best-{before['best_step']:08d}")
        (best / MODEL).write_bytes(b"x" + (best / MODEL).read_bytes()[1:])
    with pytest.raises(CheckpointError, match=r"best-\d+ is missing or damaged.*will be evaluated with it"):
        run(config, tmp_path / "run", resume=True, console=Console(quiet=True))
    assert read_json(last / "training.json")["progress"] == before


def test_a_best_checkpoint_that_will_be_made_again_may_be_missing(folder: Path, tmp_path: Path) -> None:
    config = resolve_finetune(request(folder, method="oelm", epochs=0.5, save_every=5, validate_every=2))
    files = gone_back(config, tmp_path / "run")
    for best in files.checkpoint_folder.glob("best-*"):
        shutil.rmtree(best)
    (files.checkpoint_folder / "best-00000008").mkdir()  # of a step behind which the run went back
    record = run(config, tmp_path / "run", resume=True, console=Console(quiet=True))
    assert record is not None
    assert len(record.evaluations) == 2


def test_the_best_checkpoint_can_be_chosen_by_accuracy_on_an_evaluation_set(folder: Path, tmp_path: Path) -> None:
    """As in the original's BERT: nothing is held out, and a lower loss later on does not count."""
    model = str(folder / "gpt2")
    wanted = request(folder, model=model, method="oelm", validate_every=2, validate_on="dev", epochs=3)
    record = finished(wanted, tmp_path / "run")
    data, train = record.config.data, record.config.train
    assert (data.train_examples, data.holdout_examples, train.steps, train.validation_sequences) == (160, 0, 60, 40)
    events = read_events(RunFolder(tmp_path / "run").events_file)
    curve = {event.step: event.measures for event in events if isinstance(event, ValidationEvent)}
    most = max(measures["accuracy"] for measures in curve.values())
    first = next(step for step, measures in curve.items() if measures["accuracy"] == most)
    assert record.result.best_step == first
    assert first != min(curve, key=lambda step: curve[step]["loss"]), "by loss it would be another one"
    last, best = record.evaluations
    assert last.measures == pytest.approx(curve[60])
    assert (best.checkpoint, best.step, best.measures) == ("best", first, pytest.approx(curve[first]))
    (note,) = (line for line in footnotes(build_report([record]), Texts(Language.ENGLISH)) if "best checkpoint" in line)
    assert note.endswith("was chosen by accuracy on dev itself, so that its value there is a little too good.")
    command = [*arguments_of(resolve_finetune(wanted))[1:], f"--out-dir={tmp_path / 'again'}", "--no-tensorboard"]
    command_line(command)(args=command, standalone_mode=False)
    assert RunFolder(tmp_path / "again").record().fingerprint == record.fingerprint


def test_a_set_to_validate_on_is_refused_where_it_is_none(folder: Path, decoder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no evaluation set 'test'.*choose one of: dev"):
        resolve_finetune(request(folder, validate_on="test"))
    with pytest.raises(ConfigError, match=r"takes the place of the hold-out.*leave holdout_examples out"):
        resolve_finetune(request(folder, validate_on="dev", holdout_examples=8))
    with pytest.raises(ConfigError, match="token text has none; leave validate_on out"):
        resolve_finetune(next_tokens(decoder, holdout_examples=None, validate_on="dev"))


def test_no_rates_are_chosen_on_a_set_that_judges(tmp_path: Path) -> None:
    study = {
        "title": "praise",
        "data": {"sst2": {"kind": "hub"}},
        "finetune": {"model": "bert-base-uncased", "validate_on": "dev"},
        "arms": ["baseline", "keep"],
        "primary": "keep",
    }
    StudyFile.read(written(tmp_path, study))
    tuned = study | {"tuning": {"grid": [1e-5, 1e-4], "seed": 9}}
    with pytest.raises(ConfigError, match=r"finetune\.validate_on.*chosen on a set that judges"):
        StudyFile.read(written(tmp_path, tuned))


def written(folder: Path, study: dict[str, object]) -> Path:
    (folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    return folder / "study.yaml"


@pytest.mark.slow
def test_our_gpt_from_a_run_and_from_scratch(folder: Path, tmp_path: Path) -> None:
    pretrained = trained(tiny_config("oelm-core"), tmp_path / "gpt")
    from_run = finished(request(folder, model=str(tmp_path / "gpt"), max_length=16), tmp_path / "from-run")
    assert from_run.method == "oelm-core"
    assert from_run.audit.unchanged
    assert set(from_run.audit.always_frozen) == {f"gpt.{name}" for name in pretrained.audit.always_frozen}
    named = request(folder, model=f"{tmp_path}/{{method}}-seed{{seed}}", method="oelm-core", seed=7, max_length=16)
    (tmp_path / "gpt").rename(tmp_path / "oelm-core-seed7")
    probed = finished(named.changed(head_only=True, epochs=0.5), tmp_path / "head")
    assert set(probed.audit.trained) == {"head.weight", "head.bias"}
    assert probed.counts.trained == 2 * 16 + 2
    assert probed.flops.saved_share > 0.6 > from_run.flops.saved_share
    scratch = finished(
        request(
            folder, model="gpt", size="tiny", method="oelm", tokenizer=str(tokens() / "tokenizer.json"), epochs=0.2
        ),
        tmp_path / "scratch",
    )
    assert scratch.counts.frozen == 2 * 2 * 128**2
    assert scratch.evaluations


def test_refusals_name_the_fix(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Q/K width of its own"):
        finished(request(folder, method="oelm+thin=4"), tmp_path / "a")
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        resolve_finetune(request(folder, model="gpt"))
    with pytest.raises(DataError, match="the Hub cannot give that model"):
        resolve_finetune(request(folder, model="no-such/model"))
    with pytest.raises(DataError, match="too few"):
        resolve_finetune(request(folder, train_examples=1000))
    config = resolve_finetune(request(folder))
    (folder / "dev.tsv").write_text((folder / "dev.tsv").read_text().replace("bad", "good", 1), encoding="utf-8")
    with pytest.raises(DataError, match="has changed since"):
        run(config, tmp_path / "b", resume=False, console=Console(quiet=True))


def test_a_changed_tokenizer_or_run_is_noticed(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "tokenizer.json"
    shutil.copy(tokens() / "tokenizer.json", own)
    scratch = resolve_finetune(request(folder, model="gpt", size="tiny", tokenizer=str(own)))
    own.write_text(own.read_text() + "\n")
    with pytest.raises(DataError, match="or its tokenizer has changed since"):
        subject_of(scratch)
    trained(tiny_config(), tmp_path / "gpt")
    from_run = resolve_finetune(request(folder, model=str(tmp_path / "gpt"), max_length=16))
    subject_of(from_run)
    weights = max((tmp_path / "gpt" / "checkpoint").glob("step-*")) / "model.safetensors"
    moved = load_file(weights)
    moved["token_embedding.weight"][0] += 1
    save_file(moved, weights)
    with pytest.raises(CheckpointError, match=r"model\.safetensors does not have its digest"):
        subject_of(from_run)
    without_digests(weights.parent)  # whole, for all that it says of itself
    with pytest.raises(DataError, match="gpt has changed since"):
        subject_of(from_run)


def test_a_gpt_from_scratch_without_a_tokenizer_is_no_config(folder: Path) -> None:
    config = resolve_finetune(
        request(folder, model="gpt", size="tiny", tokenizer=str(tokens() / "tokenizer.json"))
    ).model_dump()
    config["data"]["tokenizer"] = None
    with pytest.raises(ConfigError, match=r"needs data\.tokenizer"):
        parse(RunConfig, config, "config.yaml")


def test_evaluation_passes_once_over_each_set(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    batches_of = LabelledBatches.batches_of

    def counted(batches: LabelledBatches, examples: Encoded, part: int = 0, parts: int = 1) -> Iterator[Batch]:
        passes.append(len(examples))
        return batches_of(batches, examples, part, parts)

    monkeypatch.setattr(LabelledBatches, "batches_of", counted)
    record = finished(request(folder, epochs=0.5, validate_every=9), tmp_path)
    assert [row.step for row in record.evaluations] == [9, 9]
    assert passes.count(40) == 1


@pytest.mark.parametrize("checkpoint", ["last", "best"])
def test_a_finetuned_run_is_exported_without_its_data(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: str
) -> None:
    config = resolve_finetune(request(folder, model=str(folder / "gpt2"), epochs=0.3))
    run(config, tmp_path / "run", resume=False, console=Console(quiet=True))
    monkeypatch.setattr("oelm.experiments.subjects.read_labelled", None)
    export_run(str(tmp_path / "run"), tmp_path / "out", checkpoint)
    exported = oelm.load(tmp_path / "out")
    weights = load_file(
        max((tmp_path / "run" / "checkpoint").glob("best-*" if checkpoint == "best" else "step-*")) / MODEL
    )
    assert exported.config.id2label == {0: "bad", 1: "good"}
    assert exported.get_parameter("score.weight").equal(weights["score.weight"])
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("good film")["input_ids"] == [1, 4, 12, 2]
    with pytest.raises(ConfigError, match="exists already"):
        export_run(tmp_path / "run", tmp_path / "out", checkpoint)
    with pytest.raises(CheckpointError, match="holds no language model"):
        resolve_finetune(request(folder, model=str(tmp_path / "run")))
    shutil.rmtree(max((tmp_path / "run" / "checkpoint").glob("best-*")))
    with pytest.raises(CheckpointError, match="no best checkpoint"):
        export_run(tmp_path / "run", tmp_path / "other", "best")


def test_frozen_bits_of_another_machine_are_exported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint's matrices are the run's, however this machine would draw them."""
    config = resolve_finetune(request(folder, method="oelm", epochs=0.1))
    run(config, tmp_path / "run", resume=False, console=Console(quiet=True))
    monkeypatch.setattr("oelm.surgery.convert.new_matrices", _another_machine(convert.new_matrices))
    export_run(tmp_path / "run", tmp_path / "out")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    weights = load_file(max((tmp_path / "run" / "checkpoint").glob("step-*")) / MODEL)
    assert oelm.load(tmp_path / "out").get_parameter(name).equal(weights[name])


def _another_machine(draw: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *arguments: tuple(matrix * (1 + 1e-6) for matrix in draw(*arguments))


def test_both_texts_of_a_pair_are_read() -> None:
    reader = TextTokenizer(load_tokenizer(tokens() / "tokenizer.json"), context=12)
    end = reader.padding

    def read(first: str, second: str) -> list[int]:
        ids, _ = reader.encode([first], [second], 12)
        return [int(token) for token in ids[0]]

    a, b = list(b"a"), list(b"b")
    assert read("a" * 30, "b" * 30) == [*a * 5, end, *b * 5, end]
    assert read("a" * 30, "bb") == [*a * 8, end, *b * 2, end]
    assert read("aa", "b" * 30) == [*a * 2, end, *b * 8, end]
    assert read("aa", "bb") == [*a * 2, end, *b * 2, end]
    with pytest.raises(ConfigError, match=r"more than this GPT can read \(12\)"):
        reader.encode(["a"], None, 13)


@pytest.mark.slow
def test_two_processes_are_one_that_accumulates(folder: Path, tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **SIZES,
    )
    transformers.set_seed(0)
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    tokenizer().save_pretrained(tmp_path / "bert")
    same = {"model": str(tmp_path / "bert"), "method": "oelm-qr", "batch_size": 4, "log_every": 1}
    alone = finished(request(folder, **same, accumulate=2, device="cpu"), tmp_path / "one")
    settings = {**same, "max_length": 24, "lr": 5e-3, "epochs": 2, "device": "cpu", "text_column": "sentence"}
    settings |= {"train": folder / "train.tsv", "evaluate": folder / "dev.tsv", "out_dir": tmp_path / "two"}
    flags = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    for process in parallel(["finetune", *flags, "--no-tensorboard"]):
        ended = process.ended()
        assert ended.code == 0, ended.err
    together = RunFolder(tmp_path / "two").record()
    assert together.fingerprint == alone.fingerprint
    losses = [[point.train_loss for point in record.curve] for record in (together, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert together.result.loss == pytest.approx(alone.result.loss, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_plan_counts_what_the_run_will_count(folder: Path, tmp_path: Path, model: str) -> None:
    """The data and the model are here, so that the plan and the run can be compared; the plan only reads shapes."""
    study = {
        "title": "praise",
        "data": {
            "praise": {
                "kind": "files",
                "train": {"path": str(folder / "train.tsv")},
                "evaluate": {"dev": {"path": str(folder / "dev.tsv")}},
                "columns": {"text": "sentence"},
            }
        },
        "finetune": {"model": str(folder / model), "max_length": 24, "batch_size": 8, "warmup_share": 0.25},
        "arms": ["baseline", "oelm", "oelm+until=0.5", "lora"],
        "primary": "oelm",
    }
    study["arms"].append({"method": "keep", "settings": {"validate_on": "dev"}})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    read = StudyFile.read(tmp_path / "study.yaml").study
    plan, real = resolve_for_plan(read, tmp_path), resolve_on_data(read, tmp_path, Console(quiet=True))
    for cell in read.cells:
        ahead, config = plan(cell), real(cell)
        seen = {"digest": config.data.digest}
        ahead = ahead.model_copy(
            update={
                "data": ahead.data.model_copy(update=seen),
                "model": ahead.model.model_copy(update={"digest": config.model.digest}),
            }
        )
        assert ahead == config
        assert planned_counts(ahead) == weight_counts(config.method.plan, subject_of(config).table, config.train.steps)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 that reads bytes, with the tokenizer of the toy tokens."""
    path = tmp_path_factory.mktemp("decoder") / "bytes-gpt2"
    config = transformers.GPT2Config(vocab_size=257, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    transformers.set_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    shutil.copy(tokens() / "tokenizer.json", path)
    return path


def next_tokens(decoder: Path, **changes: object) -> FinetuneRequest:
    source = TokenText(folder=str(tokens()))
    values = {"model": str(decoder), "source": source, "max_length": 16, "train_examples": 48, "holdout_examples": 8}
    short = {"epochs": 1, "batch_size": 8, "lr": 5e-3, "tensorboard": False}
    return FinetuneRequest.model_validate({**values, **short, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["keep", "lora", "baseline"])
def test_a_language_model_is_finetuned_on_tokens(decoder: Path, tmp_path: Path, method: str) -> None:
    record = finished(next_tokens(decoder, method=method, holdout_examples=120), tmp_path / "run")
    assert (record.task, record.config.train.steps) == ("language-modelling", 6)
    assert record.result.text.loss == pytest.approx(record.loss, rel=1e-9)
    assert record.audit.unchanged is not False
    assert record.result.measures["perplexity"] < 257
    assert record.result.loss < record.curve[0].loss
    assert (record.flops.saved_share > 0) == (method != "baseline")
    export_run(tmp_path / "run", tmp_path / "out")
    plain = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert sum(parameter.numel() for parameter in plain.parameters()) == 16 * (257 + 32) + 2 * 3280 + 32


def test_a_language_model_and_its_text_fit(folder: Path, decoder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not made with the tokenizer.*oelm prepare TEXT --tokenizer-file"):
        resolve_finetune(next_tokens(folder / "gpt2"))
    with pytest.raises(DataError, match="no causal language model"):
        resolve_finetune(next_tokens(folder / "t5"))
    with pytest.raises(ConfigError, match=r"can read \(32\)"):
        resolve_finetune(next_tokens(decoder, max_length=33))
    trained(tiny_config(), tmp_path / "gpt")
    with pytest.raises(ConfigError, match="oelm export RUN"):
        resolve_finetune(next_tokens(tmp_path / "gpt"))


def test_text_is_prepared_with_the_models_tokenizer(
    decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("\n<|endoftext|>\n".join(f"the cat number {i} sat" for i in range(200)))
    arguments = ["finetune", f"--model={decoder}", "--task=lm", "--data=my.txt", "--max-length=16", "--device=cpu"]
    arguments += ["--train-examples=16", "--holdout-examples=4", "--epochs=1", "--batch-size=8", "--no-tensorboard"]
    command_line(arguments)(args=arguments, standalone_mode=False)
    assert RunFolder(Path("runs/my/bytes-gpt2/keep-seed0")).finished
    assert Path("tokens/my-bytes-gpt2/manifest.json").is_file()
