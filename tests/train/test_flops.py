import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from oelm.config.methods import parse_method
from oelm.data.labelled_sets import Encoded
from oelm.method.freezing import frozen_names
from oelm.surgery.conversion import weight_table
from oelm.surgery.convert import convert
from oelm.tasks.classification import Classification
from oelm.tasks.labelled_batches import LabelledBatches
from oelm.train.flops import measure_flops
from surgery.models import VOCABULARY, bert


def counted(model, task):
    batch = task.training_batch(0, 0, 4)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = task.loss(model, batch)
        with FlopCounterMode(display=False) as backward:
            loss.total.backward()
    return forward.get_total_flops(), backward.get_total_flops(), task.tokens(batch)


@pytest.mark.parametrize("method", ["baseline", "oelm", "oelm+freeze=q", "oelm+all-but-last=1", "oelm-ffn"])
def test_what_freezing_saves_is_what_torch_counts(method):
    model = bert()
    ids = tuple(torch.randint(5, VOCABULARY, (7,)).numpy() for _ in range(8))
    examples = Encoded(ids, torch.randint(2, (8,)).numpy())
    batches = LabelledBatches(examples, examples, padding=0, examples_per_step=4, evaluation_batch=4, seed=0)
    task = Classification(batches, classes=2)
    convert(model, method)
    table, plan = weight_table(model), parse_method(method).plan
    frozen = frozen_names(plan, table, 0, 10)
    rates = measure_flops(model, task, plan, table, total_steps=10, parts=4)
    assert {name for name, parameter in model.named_parameters() if not parameter.requires_grad} == frozen
    assert all(parameter.grad is None for parameter in model.parameters())
    flops = rates.of(7)
    forward, backward, tokens = counted(model, task)
    assert flops.forward_per_token == forward / tokens
    assert flops.backward_per_token == pytest.approx(backward / tokens)
    assert flops.run == pytest.approx(forward + backward), "one example is 7 tokens"
    assert (flops.saved_share > 0) == (method != "baseline")
