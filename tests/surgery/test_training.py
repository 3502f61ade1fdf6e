"""Converted models under the real Trainer, under PEFT, and in oelm's own engine."""

import copy
import json
import warnings

import peft
import pytest
import torch
import transformers
from tests.surgery.models import VOCABULARY, disagreement, inputs, logits, tiny
from torch import nn

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.base.runtime import Runtime
from oelm.config.run import OptimConfig, Precision
from oelm.method.freezing import chosen, frozen_names
from oelm.surgery.causal_model import next_token_loss, next_token_losses
from oelm.surgery.conversion import check_frozen, weight_table
from oelm.surgery.convert import convert
from oelm.surgery.storage import load, save
from oelm.surgery.trainer import FreezeCallback
from oelm.train.engine import Engine


class Sentences(torch.utils.data.Dataset):
    def __init__(self, *, language: bool) -> None:
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(3, VOCABULARY, (16, 9), generator=generator)
        self.rows = [
            {"input_ids": row, "labels": row if language else torch.tensor(index % 2)}
            for index, row in enumerate(tokens)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.rows[index]


def trainer(model: nn.Module, folder, name: str, steps: int, *callbacks: FreezeCallback) -> transformers.Trainer:
    return transformers.Trainer(
        model,
        transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            save_steps=2,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            weight_decay=0.1,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        ),
        train_dataset=Sentences(language=name == "gpt2"),
        callbacks=list(callbacks),
    )


def snapshot(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", ["bert", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_under_the_trainer(name: str, tmp_path) -> None:
    model = tiny(name).float()
    audit = convert(model, "oelm")
    before = snapshot(model)
    run = trainer(model, tmp_path, name, steps=4)
    run.train()
    after = snapshot(model)
    moved = {tensor for tensor in after if not torch.equal(after[tensor], before[tensor])}
    assert moved.isdisjoint(audit.frozen_names)
    assert len(moved) >= len(before) - len(audit.frozen_names) - 4  # embeddings of unused kinds have no gradient
    held = {id(parameter) for group in run.optimizer.param_groups for parameter in group["params"]}
    assert held.isdisjoint(id(model.get_parameter(tensor)) for tensor in audit.frozen_names)
    check_frozen(model)

    # What the Trainer saved is plain: no trace of the split.
    run.save_model(str(tmp_path / "out"))
    plain = type(model).from_pretrained(tmp_path / "out").eval()
    model.eval()
    assert disagreement(logits(plain, name), logits(model, name)) < 1e-5
    save(model, tmp_path / "ours")
    assert disagreement(logits(load(tmp_path / "ours").eval(), name), logits(model, name)) < 1e-5

    # And a converted model resumes from the Trainer's checkpoint, whatever was drawn for it.
    other = tiny(name).float()
    convert(other, "oelm", seed=1)
    resumed = trainer(other, tmp_path, name, steps=6)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    for tensor in audit.frozen_names:
        assert torch.equal(other.get_parameter(tensor), before[tensor])


@pytest.mark.slow
@pytest.mark.parametrize("converted_first", [True, False])
def test_a_checkpoint_of_another_model_is_refused_before_memory_is_touched(converted_first: bool, tmp_path) -> None:
    """Split GPT-2 trains as many tensors as plain GPT-2, and torch loads moments by position: no shape is checked."""
    one, other = tiny("gpt2").float(), tiny("gpt2").float()
    convert(one if converted_first else other, "keep")
    trainer(one, tmp_path, "gpt2", steps=2).train()
    resumed = trainer(other, tmp_path, "gpt2", steps=4)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_callback_checks_resumes_and_audits(name: str, tmp_path) -> None:
    model = tiny(name).float()
    audit = convert(model, "oelm")
    trainer(model, tmp_path, name, 2, FreezeCallback()).train()
    written = json.loads((tmp_path / "freeze_audit.json").read_text())
    assert (written["method"], written["moved"]) == ("oelm", [])
    assert set(written["frozen_before"]) == set(audit.frozen_names)
    assert written["frozen_before"] == written["frozen_after"]

    checkpoint = tmp_path / "checkpoint-2"
    again = load(checkpoint)  # a Trainer's checkpoint says by itself what was frozen
    trainer(again, tmp_path, name, 4, FreezeCallback()).train(resume_from_checkpoint=str(checkpoint))
    check_frozen(again)

    drawn = tiny(name).float()
    convert(drawn, "oelm", seed=1)  # the checkpoint's matrices replace these
    trainer(drawn, tmp_path, name, 4, FreezeCallback()).train(resume_from_checkpoint=str(checkpoint))
    save(drawn, tmp_path / "drawn")
    assert all(torch.equal(drawn.get_parameter(t), model.get_parameter(t)) for t in audit.frozen_names)

    other = tiny(name).float()
    convert(other, "oelm-random-matched")
    with pytest.raises(CheckpointError, match="trained as oelm, and this model is converted as oelm-random-matched"):
        trainer(other, tmp_path, name, 4, FreezeCallback()).train(resume_from_checkpoint=str(checkpoint))
    with pytest.raises(ConfigError, match="is not converted"):
        trainer(tiny(name).float(), tmp_path, name, 4, FreezeCallback())


def test_the_callback_notices_what_moves(tmp_path) -> None:
    model = tiny("bert").float()
    convert(model, "keep")
    run = trainer(model, tmp_path, "bert", 2, FreezeCallback())
    moved = model.bert.encoder.layer[1].attention.self.key.weight
    run.create_optimizer().register_step_post_hook(lambda *_: moved.data.mul_(1.01))
    with pytest.raises(FreezeError, match=r"layer\.1\.attention\.self\.key\.weight has moved"):
        run.train()
    assert json.loads((tmp_path / "freeze_audit.json").read_text())["moved"]


@pytest.mark.parametrize(
    ("how", "method"),
    [
        ("added later", "keep+until=2"),
        ("added later", "keep+from=2"),
        ("own optimiser", "keep+until=2"),
        ("own optimiser", "keep+from=2"),
        ("model_init", "keep+until=2"),
    ],
)
def test_a_calendar_that_would_not_be_kept_is_refused(how: str, method: str, tmp_path) -> None:
    model = tiny("bert").float()
    convert(model, method)
    callbacks = () if how == "added later" else (FreezeCallback(),)
    run = trainer(model, tmp_path, "bert", 4, *callbacks)
    if how == "added later":
        run.add_callback(FreezeCallback())
    elif how == "own optimiser":
        others = [tensor for name, tensor in model.named_parameters() if "query" not in name]
        run.optimizer = torch.optim.AdamW(others, lr=1e-2)
    else:
        run.model_init = lambda: converted_bert(method)
    with pytest.raises(ConfigError, match=r"not in the optimiser.*callbacks=\[oelm.FreezeCallback\(\)\]"):
        run.train()


def converted_bert(method: str) -> nn.Module:
    model = tiny("bert").float()
    convert(model, method)
    return model


def test_a_calendar_under_peft_is_refused(tmp_path) -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(converted_bert("keep+until=2"), peft.LoraConfig(target_modules=["value"]))
    with pytest.raises(ConfigError, match="which an adapter does not hold"):
        trainer(adapted, tmp_path, "bert", 2, FreezeCallback())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["keep+until=2", "oelm+from=2", "keep+every=2", "keep+thaw=1..3"])
def test_the_callback_keeps_calendars(method: str, tmp_path) -> None:
    """What moves in which step is what the calendar says, also after a resume."""

    def moves(folder, stop: int, checkpoint: str | None = None) -> list[frozenset[str]]:
        model = tiny("gpt2").float()
        audit = convert(model, method)
        plan, table = audit.operation.method.plan, weight_table(model)
        covered = {weight.name for weight in chosen(plan, table)}
        run = trainer(model, folder, "gpt2", 4, FreezeCallback())
        seen: list[frozenset[str]] = []

        class Watch(transformers.TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs) -> None:
                self.before = snapshot(model)

            def on_step_end(self, args, state, control, **kwargs) -> None:
                after = snapshot(model)
                seen.append(frozenset(t for t in covered if torch.equal(after[t], self.before[t])))
                expected = frozen_names(plan, table, state.global_step - 1, 4)
                assert seen[-1] == expected
                control.should_training_stop = state.global_step == stop

        run.add_callback(Watch())
        run.train(resume_from_checkpoint=checkpoint)
        return seen

    whole = moves(tmp_path / "whole", 4)
    assert len(set(whole)) > 1
    assert moves(tmp_path / "cut", 2) == whole[:2]
    assert moves(tmp_path / "cut", 4, str(tmp_path / "cut" / "checkpoint-2")) == whole[2:]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("bert", ["value", "attention.output.dense"]),
        ("gpt2", ["c_attn.v", "attn.c_proj"]),
        ("gpt_neox", ["v", "dense"]),
    ],
)
# PEFT tells that it sets fan_in_fan_out by the kind of layer: GPT-2's c_proj is a Conv1D, its split V a Linear.
# And it warns when it cannot ask the Hub whether the vocabulary was resized.
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to (False|True):UserWarning")
@pytest.mark.filterwarnings("ignore:Could not find a config file:UserWarning")
def test_under_peft(name: str, targets: list[str], tmp_path) -> None:
    model = tiny(name)
    audit = convert(model, "oelm-qr")
    before, untrained = snapshot(model), logits(model, name)
    save(model, tmp_path / "base")
    adapted = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(r=2, lora_alpha=3, target_modules=targets))
    optimiser = torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad], lr=0.05, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        adapted(**inputs(name)).logits.square().mean().backward()
        optimiser.step()
    adapted.eval()
    trained = logits(adapted, name)
    assert disagreement(trained, untrained) > 1e-3
    for tensor in audit.frozen_names:
        assert torch.equal(adapted.base_model.model.get_parameter(tensor), before[tensor])

    # The adapter is written for the plain base, where V is a part of a fused weight.
    save(adapted, tmp_path / "adapter")
    plain = type(model).from_pretrained(tmp_path / "base")
    again = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter").eval()
    assert disagreement(logits(again, name), trained) < 1e-9
    if name != "bert":
        with pytest.warns(UserWarning, match=r"is a part of a fused weight.*oelm\.save"):
            adapted.save_pretrained(tmp_path / "split")
        base = load(tmp_path / "base")
        with pytest.warns(UserWarning, match="is a part of a fused weight"):
            converted = peft.PeftModel.from_pretrained(base, tmp_path / "split").eval()
        assert disagreement(logits(converted, name), trained) < 1e-9
    merged = adapted.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    plain = type(model).from_pretrained(tmp_path / "merged").eval()
    assert disagreement(logits(plain, name), trained) < 1e-9


@pytest.mark.parametrize(
    "change",
    [
        {"alpha_pattern": {"c_attn.v": 32}},
        {"rank_pattern": {"c_attn.v": 4}},
        {"bias": "lora_only"},
        {"lora_bias": True},
        {"use_rslora": True},
        {"init_lora_weights": "pissa"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_adapter_that_cannot_be_written_for_the_whole_layer_is_refused(change: dict[str, object], tmp_path) -> None:
    """All of these but for the refusal load on the plain base without a word, and compute something else there."""
    model = tiny("gpt2").float()
    convert(model, "keep")
    config = peft.LoraConfig(**{"r": 2, "lora_alpha": 3, "target_modules": ["c_attn.v"], **change})
    with pytest.raises(ConfigError, match="only plain LoRA"):
        save(peft.get_peft_model(model, config), tmp_path)
    assert not list(tmp_path.iterdir())


def test_adapters_of_transformers_itself_are_warned_of_or_saved(tmp_path) -> None:
    """`add_adapter` on V: with other targets that the plain model has, PEFT leaves V out there without a word."""
    lora = peft.LoraConfig(r=2, target_modules=["c_attn.v", "c_fc"], fan_in_fan_out=True)
    model = tiny("gpt2")
    convert(model, "keep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT sets fan_in_fan_out by the kind of layer
        model.add_adapter(lora)
    with pytest.warns(UserWarning, match="is a part of a fused weight"):
        model.save_pretrained(tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"c_attn\.v is a part of a fused weight.*peft\.get_peft_model"):
        save(model, tmp_path / "ours")
    equipped = tiny("bert")
    convert(equipped, "keep+gain")
    equipped.add_adapter(peft.LoraConfig(r=2, target_modules=["value"]))
    with pytest.raises(CheckpointError, match="extras inside this model's attention would be lost"):
        save(equipped, tmp_path / "ours")

    plain = tiny("bert")
    plain.save_pretrained(tmp_path / "base")
    convert(plain, "keep")
    plain.add_adapter(peft.LoraConfig(r=2, target_modules=["value"], init_lora_weights=False))
    save(plain, tmp_path / "adapter")
    again = type(plain).from_pretrained(tmp_path / "base")
    again.load_adapter(str(tmp_path / "adapter"))
    assert disagreement(logits(again.eval(), "bert"), logits(plain.eval(), "bert")) < 1e-9
    assert disagreement(logits(again, "bert"), logits(tiny("bert"), "bert")) > 1e-3


@pytest.mark.filterwarnings("ignore:Could not find a config file:UserWarning")
def test_an_adapter_on_frozen_queries_is_refused_at_the_start(tmp_path) -> None:
    model = tiny("bert").float()
    convert(model, "keep")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["query", "value"]))
    with pytest.raises(FreezeError, match="query is frozen, and an adapter trains an update of it"):
        trainer(adapted, tmp_path, "bert", 2, FreezeCallback()).train()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Could not find a config file:UserWarning")
def test_peft_under_the_trainer_is_saved_resumed_and_reloaded(tmp_path) -> None:
    def adapted(seed: int = 0) -> nn.Module:
        model = tiny("bert").float()
        convert(model, "oelm", seed=seed)
        torch.manual_seed(0)
        return peft.get_peft_model(
            model, peft.LoraConfig(r=2, target_modules=["value"], modules_to_save=["classifier"])
        )

    model = adapted()
    trainer(model, tmp_path, "bert", 4, FreezeCallback()).train()
    resumed = adapted()
    trainer(resumed, tmp_path, "bert", 4, FreezeCallback()).train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    after, again = snapshot(model), snapshot(resumed)
    assert all(torch.equal(after[tensor], again[tensor]) for tensor in after)
    with pytest.raises(CheckpointError, match="is not the one that the checkpoint was trained with"):
        trainer(adapted(seed=1), tmp_path, "bert", 4, FreezeCallback()).train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-2")
        )
    save(resumed, tmp_path / "adapter")
    base = tiny("bert").float()
    convert(base, "oelm")
    plain = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    assert disagreement(logits(plain, "bert"), logits(model.eval(), "bert")) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_losses_of_tokens_are_those_whose_sum_is_trained_on(dtype: torch.dtype) -> None:
    """To the bit: a validation that keeps them apart reports the same loss."""
    model, tokens_BT = tiny("gpt2").to(dtype), torch.arange(4 * 17).view(4, 17) * 5 % VOCABULARY
    total, losses_N = next_token_losses(model, tokens_BT[:, :-1], tokens_BT[:, 1:])
    assert torch.equal(total, next_token_loss(model, tokens_BT[:, :-1], tokens_BT[:, 1:]))
    assert losses_N.shape == (64,)
    assert losses_N.sum().item() == pytest.approx(total.item(), rel=1e-5)
    assert losses_N.std() > 0.1


def test_in_the_engine() -> None:
    """The one training loop freezes and thaws a converted model by its table."""
    model = tiny("gpt2")
    audit = convert(model, "oelm+until=0.5")
    plan, table = audit.operation.method.plan, weight_table(model)
    engine = Engine(
        model,
        table,
        OptimConfig(lr=1e-3, warmup_steps=1),
        Runtime(torch.device("cpu")),
        precision=Precision.FLOAT64,
        accumulate=1,
        seed=0,
    )
    engine.ensure_frozen(frozen_names(plan, table, 0, 10))
    assert engine.optimised_names.isdisjoint(audit.frozen_names)
    engine.ensure_frozen(frozen_names(plan, table, 5, 10))
    assert engine.optimised_names == {name for name, _ in model.named_parameters()}


def test_a_trained_start_freezes_nothing_yet_and_says_who_will() -> None:
    model = tiny("gpt2")
    audit = convert(model, "oelm+from=0.1")
    assert (audit.frozen, audit.frozen_names) == (0, ())
    assert all(site.query.written and not site.query.frozen for site in audit.sites)
    assert "FreezeCallback()]; any other loop trains them to the end" in str(audit)
    plan, table = audit.operation.method.plan, weight_table(model)
    assert frozen_names(plan, table, 0, 10) == frozenset()
    assert frozen_names(plan, table, 1, 10)
