"""The engine: owns the model, what of it is trained, the optimiser, the arithmetic and the other processes.

It is the only place that changes requires_grad, and it changes everything that hangs on it together: gradients,
optimiser groups, the data-parallel wrap and the compiled graph. (A zeroed gradient is not a freeze, AdamW decays it;
DDP does not notice a thaw and silently stops averaging; torch.compile ignores a later requires_grad.)
"""

import contextlib
import gc
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from oelm.base.errors import FreezeError
from oelm.base.runtime import Runtime, sum_dtype
from oelm.base.streams import stream_seed
from oelm.config.run import OptimConfig, Precision
from oelm.method.weights import Weight
from oelm.tasks.task import Batch, LossSum, Task
from oelm.train.loss_scale import LossScale
from oelm.train.optimiser import Moments, make_optimiser, read_moments, write_moments

T = TypeVar("T")


@dataclass(frozen=True)
class Update:
    """What one step gave, over all micro-batches and processes."""

    loss: float
    tokens: int
    gradient_norm: float
    """Of the mean loss, before clipping; where it or the loss is not finite, no weight was changed."""
    applied: bool
    """Whether the weights were changed."""
    stop: bool
    """Some process was asked to stop."""

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


def weight_dtype(precision: Precision) -> torch.dtype:
    """The type that weights and moments are kept in."""
    return torch.float64 if precision is Precision.FLOAT64 else torch.float32


def autocast_type(precision: Precision) -> torch.dtype | None:
    """The type of matrix products in mixed precision; None where all is computed in the weights' own type."""
    return {Precision.BF16: torch.bfloat16, Precision.FLOAT16: torch.float16}.get(precision)


class Engine:
    """Everything that a training step needs except the data and the freezing schedule."""

    def __init__(
        self,
        model: nn.Module,
        table: tuple[Weight, ...],
        optim: OptimConfig,
        runtime: Runtime,
        *,
        precision: Precision,
        accumulate: int,
        seed: int,
        layer_lr: float = 1.0,
        query_key_lr: float = 1.0,
        compile_model: bool = False,
    ) -> None:
        self.model = model.to(runtime.device, weight_dtype(precision))
        self.table = table
        self.runtime = runtime
        self.frozen: frozenset[str] | None = None
        self._optim = optim
        self._precision = precision
        self._accumulate = accumulate
        self._seed = seed
        self._lr_shares = (layer_lr, query_key_lr)
        self._compile = compile_model
        self._parked: Moments = {}
        self._optimiser: torch.optim.AdamW | None = None
        self._trained: list[nn.Parameter] = []
        self._wrapped: nn.Module | None = None
        self._sums = torch.zeros(4, dtype=sum_dtype(runtime.device), device=runtime.device)
        """Loss, count, tokens and stop requests that belong to the gradients not yet applied."""
        self.loss_scale = LossScale() if precision is Precision.FLOAT16 else None
        self._scaled_by = 1.0
        """The factor of the summed loss whose gradients wait for their update."""
        self._next: tuple[Task, int, int] | None = None
        self._ready: tuple[tuple[Task, int, int], Batch] | None = None

    # --- what is trained -------------------------------------------------------------------------------------------

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """The weights that the optimiser holds."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def ensure_frozen(self, frozen: frozenset[str]) -> bool:
        """Make exactly these tensors frozen; True if that changed anything."""
        if frozen == self.frozen:
            return False
        moments = self.moments()
        parameters = dict(self.model.named_parameters())
        if unknown := sorted(frozen - parameters.keys()):
            raise FreezeError(f"cannot freeze {unknown[0]!r}: the model has no such tensor", "freeze stored ones")
        for name, parameter in parameters.items():
            parameter.requires_grad_(name not in frozen)
            parameter.grad = None
        self.frozen = frozen
        self._trained = list(self.trained.values())
        self._optimiser = make_optimiser(self.trained, self.table, self._optim, *self._lr_shares)
        self.set_moments(moments)
        self._wrap()
        return True

    def _wrap(self) -> None:
        """Data-parallel and compiled views of the model, made anew: neither notices a changed requires_grad."""
        self._wrapped = None
        wrapped: nn.Module = self.model
        if self.runtime.world > 1:
            gc.collect()  # the old reducer must let go of its hooks before the new one hooks the same parameters
            wrapped = DistributedDataParallel(wrapped)
        if self._compile:
            torch._dynamo.reset()
            wrapped = torch.compile(wrapped)  # type: ignore[assignment]
        self._wrapped = wrapped

    # --- one step --------------------------------------------------------------------------------------------------

    def accumulate(self, task: Task, step: int, *, stop: bool = False) -> None:
        """Gradients of the summed loss over the global batch of `step`; `update` divides by the count and applies them.

        Nothing here waits for the device.
        """
        assert self._wrapped is not None
        self.model.train()
        # Dropout is a function of seed, step and rank: nothing to save, nothing to restore.
        self._seed_device(stream_seed(self._seed, "dropout", step, self.runtime.rank))
        self._sums.zero_()
        for micro in range(self._accumulate):
            batch = self._batch(task, step, micro)
            last = micro == self._accumulate - 1
            with self._gradients_stay_local(not last):
                with self._arithmetic():
                    loss = task.loss(self._wrapped, batch)
                self._scaled(loss).backward()  # type: ignore[no-untyped-call]
            self._sums[0] += loss.total.detach()
            self._sums[1] += loss.count
            self._sums[2] += task.tokens(batch)
        self._sums[3] = float(stop)
        self._add_up(self._sums)
        self._next = (task, step + 1, 0)

    def update(self, lr: float, *, most_loss: float = math.inf) -> Update:
        """Divide by the count, clip and apply the gradients; change nothing if their norm or the loss is not finite.

        Nor if the loss is above `most_loss`.

        AdamW divides the gradients by one number as it reads them, so the mean and the clipping take no pass of their
        own. The next batch is made before this one's numbers are waited for, while the device is still at work.
        """
        assert self._optimiser is not None
        gradients = [parameter.grad for parameter in self._trained if parameter.grad is not None]
        # DDP has averaged over processes what we want summed.
        divisor = self._sums[1] * (self._scaled_by / self.runtime.world)
        norm = nn.utils.get_total_norm(gradients) / divisor
        clipping = ((norm + 1e-6) / self._optim.clip).where(norm > self._optim.clip, 1.0)
        scale = divisor * clipping
        if self._precision is Precision.FLOAT64:  # the kernel takes the number in float32 only
            torch._foreach_div_(gradients, scale)
            scale = torch.ones_like(scale)
        self._optimiser.grad_scale = scale.float()  # type: ignore[attr-defined]
        mean_loss = self._sums[0] / self._sums[1]
        refused = (norm.isfinite() & mean_loss.isfinite() & (mean_loss <= most_loss)).logical_not()
        self._optimiser.found_inf = refused.float()  # type: ignore[attr-defined]
        for group in self._optimiser.param_groups:
            group["lr"] = lr * group["lr_share"]
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        if self._next is not None:
            self._ready = (self._next, self._made_batch(*self._next))
        told = [number.to(self._sums.dtype).view(1) for number in (norm, refused)]
        loss, count, tokens, stops, gradient_norm, unchanged = torch.cat([self._sums, *told]).tolist()
        update = Update(
            loss=loss / count,
            tokens=int(tokens),
            gradient_norm=gradient_norm,
            applied=not unchanged,
            stop=stops > 0,
        )
        if self.loss_scale is not None:
            self.loss_scale.update(finite=update.finite)
        return update

    def evaluate(self, task: Task) -> dict[str, float]:
        """The task's measures on its validation set."""
        return task.summarise(self.validation_sums(task))

    def validation_sums(self, task: Task) -> Tensor:
        """The task's statistics on its validation set, shared out over all processes and added up."""
        sums: Tensor | None = None
        for measured in self.infer(task.measure, task.validation_batches(self.runtime.rank, self.runtime.world)):
            sums = measured if sums is None else sums + measured
        return self._add_up_ragged(sums).cpu()

    def infer(self, question: Callable[[nn.Module, Batch], T], batches: Iterable[Batch]) -> Iterator[T]:
        """The answers of the model as it stands, without dropout and gradients.

        It is the bare model: DDP's forward would wait for processes that have fewer batches.
        """
        self.model.eval()
        with torch.no_grad(), self._arithmetic():
            for batch in batches:
                yield question(self.model, self._to_device(batch))
        self.model.train()

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        if self.runtime.world > 1:
            dist.barrier()

    def release(self) -> None:
        """Let go of the data-parallel wrap, whose reducer must not outlive the process group.

        As the group's last owner it would join gloo's thread while it holds Python's lock, which that thread may want.
        """
        self._wrapped = None
        if self.runtime.world > 1:
            gc.collect()

    # --- state -----------------------------------------------------------------------------------------------------

    def moments(self) -> Moments:
        """Adam's state by name, also of weights that are frozen now but were trained before (periodic calendars)."""
        current = read_moments(self._optimiser, self.trained) if self._optimiser is not None else {}
        return {**self._parked, **current}

    def set_moments(self, moments: Moments) -> None:
        """Take over saved moments: the optimiser holds those of trained weights, the others are parked."""
        trained = self.trained if self._optimiser is not None else {}
        self._parked = {name: state for name, state in moments.items() if name not in trained}
        if self._optimiser is not None:
            write_moments(self._optimiser, trained, moments)

    @property
    def optimised_names(self) -> frozenset[str]:
        """The names of all tensors in the optimiser's groups."""
        assert self._optimiser is not None
        inside = {id(p) for group in self._optimiser.param_groups for p in group["params"]}
        return frozenset(name for name, p in self.model.named_parameters() if id(p) in inside)

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _batch(self, task: Task, step: int, micro: int) -> Batch:
        """This process's share of a micro-batch: the one made ready, or made now."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == (task, step, micro):
            return ready[1]
        return self._made_batch(task, step, micro)

    def _made_batch(self, task: Task, step: int, micro: int) -> Batch:
        part = micro * self.runtime.world + self.runtime.rank
        return self._to_device(task.training_batch(step, part, self._accumulate * self.runtime.world))

    def _to_device(self, batch: Batch) -> Batch:
        """From pinned memory the copy to a GPU runs beside its work."""
        if self.runtime.device.type == "cuda":
            batch = {name: tensor.pin_memory() for name, tensor in batch.items()}
        return {name: tensor.to(self.runtime.device, non_blocking=True) for name, tensor in batch.items()}

    @contextlib.contextmanager
    def _gradients_stay_local(self, local: bool) -> Iterator[None]:
        inner = getattr(self._wrapped, "_orig_mod", self._wrapped)
        with inner.no_sync() if local and isinstance(inner, DistributedDataParallel) else contextlib.nullcontext():
            yield

    def _seed_device(self, seed: int) -> None:
        """Seed the device in use only: torch.manual_seed writes a stack trace for each kind that is not there."""
        match self.runtime.device.type:
            case "cuda":
                with torch.cuda.device(self.runtime.device):
                    torch.cuda.manual_seed(seed)
            case "mps":
                torch.mps.manual_seed(seed)
            case _:
                torch.default_generator.manual_seed(seed)

    def _arithmetic(self) -> contextlib.AbstractContextManager[object]:
        low = autocast_type(self._precision)
        return contextlib.nullcontext() if low is None else torch.autocast(self.runtime.device.type, low)

    def _scaled(self, loss: LossSum) -> Tensor:
        """The summed loss times the scale of the mean one over a step's usual count, rounded to a power of two."""
        if self.loss_scale is None:
            return loss.total
        if self.loss_scale.usual_count is None:  # once in a run, because it waits for the device and the others
            counts = loss.count.to(self._sums.dtype) * self._accumulate
            self._add_up(counts)
            self.loss_scale.usual_count = counts.item()
        own_count = self.loss_scale.usual_count / self.runtime.world
        self._scaled_by = self.loss_scale.value / 2.0 ** round(math.log2(own_count))
        return loss.total * self._scaled_by

    def _add_up(self, sums: Tensor) -> None:
        if self.runtime.world > 1:
            dist.all_reduce(sums)

    def _add_up_ragged(self, sums: Tensor | None) -> Tensor:
        """Add over processes of which some had no batch at all."""
        if self.runtime.world > 1:
            gathered: list[Tensor | None] = [None] * self.runtime.world
            dist.all_gather_object(gathered, None if sums is None else sums.cpu())
            present = [part for part in gathered if part is not None]
            return torch.stack(present).sum(0)
        assert sums is not None, "the validation set is empty"
        return sums
