"""Converted models in other people's loops: accelerate, alone and in two processes, and FSDP2 in two."""

import sys
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from tests.surgery.models import VOCABULARY, disagreement, expected_frozen, inputs, logits, tiny
from torch import nn

from oelm.surgery.conversion import check_frozen
from oelm.surgery.convert import convert
from oelm.surgery.storage import load, save
from train.processes import running, torchrun_environments

TOKENS = torch.randint(3, VOCABULARY, (16, 9), generator=torch.Generator().manual_seed(0))


EXTRAS = "keep+shift+gain+bias+core+rank=2"


def accelerated(folder: Path, steps: int, *, resume: bool = False, method: str = "keep") -> nn.Module:
    """The loop of accelerate's documentation; its state and the model are saved at the end."""
    accelerator = Accelerator(cpu=True)
    model = tiny("gpt2").float()
    convert(model, method)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    loader = torch.utils.data.DataLoader(TOKENS, batch_size=16 // accelerator.num_processes)
    model, optimiser, loader = accelerator.prepare(model, torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.1), loader)
    if resume:
        accelerator.load_state(str(folder / "state"))
    for _ in range(steps):
        for tokens in loader:
            optimiser.zero_grad()
            accelerator.backward(model(input_ids=tokens, labels=tokens).loss)
            optimiser.step()
    accelerator.save_state(str(folder / "state"))
    plain = accelerator.unwrap_model(model)
    check_frozen(plain)
    if accelerator.is_main_process:
        save(plain, folder / "model")
    accelerator.end_training()
    return plain


def accelerated_in_a_process(folder: Path, steps: int) -> None:
    accelerated(folder, steps, method=EXTRAS)


def test_accelerate_saves_resumes_and_reloads(tmp_path: Path) -> None:
    whole = accelerated(tmp_path / "whole", 4)
    accelerated(tmp_path / "cut", 2)
    resumed = accelerated(tmp_path / "cut", 2, resume=True)
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, resumed.get_parameter(name)), name
    again = load(tmp_path / "cut" / "model").eval()
    assert {n for n, p in again.named_parameters() if not p.requires_grad} == expected_frozen("gpt2")
    assert disagreement(logits(again, "gpt2"), logits(whole.eval(), "gpt2")) < 1e-5


@pytest.mark.slow
def test_accelerate_in_two_processes_is_one_with_the_whole_batch(tmp_path: Path) -> None:
    """DDP, with extras inside attention: their gradients are averaged like all others."""
    alone = accelerated(tmp_path / "one", 3, method=EXTRAS).eval()
    both = [
        running(accelerated_in_a_process, tmp_path / "two", 3, **environment)
        for environment in torchrun_environments(2)
    ]
    for process in both:
        ended = process.ended()
        assert ended.code == 0, ended.err
    together = load(tmp_path / "two" / "model").eval()
    assert disagreement(logits(together, "gpt2"), logits(alone, "gpt2")) < 1e-3
    fresh = tiny("gpt2").float()
    convert(fresh, EXTRAS)
    moved = [name for name, tensor in fresh.named_parameters() if ".oelm." in name]
    assert all(not torch.equal(together.get_parameter(name), fresh.get_parameter(name)) for name in moved)


def sharded(folder: Path) -> None:
    """As docs/finetuning.md says it: convert, shard, train, gather by the plain model's names."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    for name, method in (("bert", "keep"), ("gpt2", EXTRAS), ("gpt_neox", "keep"), ("phi3", EXTRAS)):
        model = tiny(name).float()
        convert(model, method)
        before = {tensor: model.get_parameter(tensor).detach().clone() for tensor in expected_frozen(name)}
        start = logits(model, name)
        for module in [m for m in model.modules() if type(m).__name__.endswith(("Layer", "Block"))]:
            fully_shard(module)
        fully_shard(model)
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            model(**inputs(name)).logits.square().mean().backward()
            optimiser.step()
        assert disagreement(logits(model, name), start) > 1e-3
        for tensor, value in before.items():
            assert torch.equal(model.get_parameter(tensor).full_tensor(), value), tensor
        expected = logits(model, name)
        state = {
            key: tensor.full_tensor() for key, tensor in model.state_dict().items() if hasattr(tensor, "full_tensor")
        }
        if dist.get_rank() == 0:
            model.save_pretrained(folder / name, state_dict=state)
            again = load(folder / name).eval()
            assert disagreement(logits(again, name), expected) < 1e-4
        dist.barrier()
    dist.destroy_process_group()
    sys.exit(0)


@pytest.mark.slow
def test_fsdp2_in_two_processes(tmp_path: Path) -> None:
    both = [running(sharded, tmp_path, **environment) for environment in torchrun_environments(2)]
    for process in both:
        ended = process.ended()
        assert ended.code == 0, ended.err[-3000:]
