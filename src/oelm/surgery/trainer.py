"""Converted models under transformers' Trainer, which can only be extended by callbacks."""

# ruff: noqa: ARG002 (what a callback is called with is not ours to choose)

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from oelm.base.errors import CheckpointError, ConfigError, FreezeError
from oelm.base.files import write_json
from oelm.method.freezing import chosen, frozen_names
from oelm.method.weights import Weight
from oelm.surgery.adapters import adapted_base
from oelm.surgery.conversion import (
    Conversion,
    accept_weights,
    changed_names,
    check_frozen,
    conversion_of,
    digests_of,
    is_converted,
    weight_table,
)

AUDIT = "freeze_audit.json"


class FreezeCallback(TrainerCallback, ExportableState):
    """`Trainer(model, ..., callbacks=[oelm.FreezeCallback()])`: a converted model stays what its method says.

    It refuses a checkpoint of another conversion before a step is made, keeps the method's calendar (`+until`, `+from`,
    `+thaw`, `+every`), and writes `freeze_audit.json`: digests of the frozen tensors before and after.
    """

    def __init__(self) -> None:
        self._marker: dict[str, Any] | None = None
        self._table: tuple[Weight, ...] = ()
        self._before: dict[str, str] = {}

    def state(self) -> dict[str, Any]:
        """What a checkpoint's trainer_state.json says of the conversion."""
        return {"args": {}, "attributes": {"conversion": self._marker}}

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Tensors that thaw must be in the optimiser from the start: it is made before training begins."""
        model, conversion = _converted(kwargs["model"])
        self._marker = conversion.marker()
        plan = conversion.operation.method.plan
        if plan is None or conversion.is_for_good:
            return
        if adapted_base(kwargs["model"]) is not None:
            raise ConfigError(
                f"{conversion.operation.method.name} would train Q and K of the base, which an adapter does not hold",
                "freeze them for good under PEFT: convert(model, 'keep')",
            )
        if args.world_size > 1 or args.torch_compile:
            raise ConfigError(
                f"{conversion.operation.method.name} changes what is frozen during training, which neither several "
                "processes nor a compiled model take notice of under the Trainer",
                "train in one process, uncompiled, or with oelm's own loop: oelm finetune",
            )
        self._table = weight_table(model)
        for weight in chosen(plan, self._table):
            model.get_parameter(weight.name).requires_grad_(True)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Refuse what does not belong together; take the digests."""
        model, conversion = _converted(kwargs["model"])
        _refuse_foreign_moments(kwargs["optimizer"])
        if state.global_step > 0:
            _refuse_other_checkpoint(model, conversion, state)
            accept_weights(model)  # what was drawn for this model, the checkpoint's matrices have replaced
        check_frozen(model)
        self._require_calendar(model, conversion, kwargs["optimizer"])
        self._before = digests_of(model, conversion.frozen)
        self._marker = conversion_of(model).marker()
        # A checkpoint from before the callback was there has no place for its state.
        _callback_states(state).setdefault(type(self).__name__, self.state())

    def _require_calendar(self, model: nn.Module, conversion: Conversion, optimizer: torch.optim.Optimizer) -> None:
        """Refuse to train where what the calendar thaws would not be trained, or what it freezes would be."""
        plan = conversion.operation.method.plan
        if plan is None or conversion.is_for_good:
            return
        trained = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        wanted = [model.get_parameter(weight.name) for weight in chosen(plan, self._table)] if self._table else []
        if not wanted or not all(id(parameter) in trained for parameter in wanted):
            raise ConfigError(
                f"{conversion.operation.method.name} trains Q and K at times, and they are not in the optimiser",
                "convert the model first, then Trainer(model, ..., callbacks=[oelm.FreezeCallback()]), without "
                "add_callback and model_init; an optimiser of your own must hold Q and K too",
            )

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Freeze what the calendar freezes in this step: no gradient, so AdamW leaves it alone."""
        if not self._table:
            return
        model, conversion = _converted(kwargs["model"])
        plan = conversion.operation.method.plan
        assert plan is not None, "there is a table only with a calendar"
        frozen = frozen_names(plan, self._table, state.global_step, state.max_steps)
        for weight in chosen(plan, self._table):
            parameter = model.get_parameter(weight.name)
            parameter.requires_grad_(weight.name not in frozen)
            if weight.name in frozen:
                parameter.grad = None

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the audit; refuse a model of which a frozen tensor has moved."""
        model, conversion = _converted(kwargs["model"])
        after = digests_of(model, conversion.frozen)
        moved = sorted(name for name in after if after[name] != self._before[name])
        if state.is_world_process_zero:
            audit = {"frozen_before": self._before, "frozen_after": after, "moved": moved}
            write_json(Path(str(args.output_dir)) / AUDIT, {"method": conversion.operation.method.name, **audit})
        if moved and conversion.is_for_good:
            raise FreezeError(f"the frozen tensor {moved[0]} has moved", "look for who else writes to the weights")


def _converted(model: nn.Module) -> tuple[Any, Conversion]:
    """The converted model, also inside PEFT's and torch.compile's wrappers."""
    inner = getattr(model, "_orig_mod", model)
    inner = adapted_base(inner) or inner
    if not is_converted(inner):
        raise ConfigError(
            f"this {type(inner).__name__} is not converted, so there is nothing to keep frozen",
            "call oelm.convert(model, method), or oelm.load(checkpoint), before the Trainer is made",
        )
    return inner, conversion_of(inner)


def _callback_states(state: TrainerState) -> dict[str, Any]:
    """What trainer_state.json says of callbacks; declared as a list of them, it is a dict of their states."""
    states: Any = state.stateful_callbacks
    assert isinstance(states, dict)
    return states


def _refuse_other_checkpoint(model: nn.Module, conversion: Conversion, state: TrainerState) -> None:
    """Compare with the conversion in the checkpoint, if it was written with this callback.

    The model has the checkpoint's weights by now; under PEFT only the adapter's, and its base must be the same.
    """
    saved = _callback_states(state).get(FreezeCallback.__name__)
    marker = saved["attributes"]["conversion"] if isinstance(saved, dict) else None
    if marker is None:
        return
    own = conversion.marker()
    differing = [key for key in ("method", "attention", "train_biases") if marker[key] != own[key]]
    if differing:
        raise CheckpointError(
            f"the checkpoint was trained as {marker['method']['name']}, and this model is converted as "
            f"{own['method']['name']} (other: {', '.join(differing)})",
            "convert the model as the checkpoint was, or load it: oelm.load(checkpoint)",
        )
    if conversion.is_for_good and (other := changed_names(marker["frozen"], digests_of(model, marker["frozen"]))):
        raise CheckpointError(
            f"the frozen tensor {other[0]} is not the one that the checkpoint was trained with",
            "start from the same model, converted with the same seed",
        )


def _refuse_foreign_moments(optimizer: torch.optim.Optimizer) -> None:
    """Moments of another shape than their weight: torch does not check, and its fused kernels write past the end."""
    for parameter, moments in optimizer.state.items():
        for moment in moments.values():
            if isinstance(moment, torch.Tensor) and moment.ndim > 0 and moment.shape != parameter.shape:
                raise CheckpointError(
                    f"the checkpoint's optimiser belongs to another model: moments of shape {tuple(moment.shape)} "
                    f"for a weight of shape {tuple(parameter.shape)}",
                    "convert the model as the checkpoint was, or load it: oelm.load(checkpoint)",
                )
