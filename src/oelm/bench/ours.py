"""Our GPT as the training loop, the validation and the generation run it."""

from collections import deque
from functools import partial

from oelm.base.runtime import Runtime
from oelm.bench.contestant import Builder, Contestant
from oelm.bench.random_tokens import language_modelling, prompt
from oelm.bench.spec import BenchSpec, What
from oelm.config.method import Method
from oelm.config.methods import parse_method
from oelm.config.record import FlopCounts
from oelm.config.run import OptimConfig
from oelm.evaluate.generation import Sampling, generate
from oelm.method.freezing import frozen_names
from oelm.model.gpt import GPT
from oelm.model.initialise import initialise
from oelm.model.ledger import count_flops, weight_table
from oelm.train.engine import Engine

OPTIM = OptimConfig(lr=1e-4, warmup_steps=0)


def gpt_engine(spec: BenchSpec, method: Method, runtime: Runtime) -> Engine:
    """The engine of `oelm train`, before its first step."""
    model = GPT(spec.shape, method)
    initialise(model, seed=0)
    table = weight_table(spec.shape, method)
    engine = Engine(
        model, table, OPTIM, runtime, precision=spec.precision, accumulate=1, seed=0, compile_model=spec.compile
    )
    engine.ensure_frozen(frozen_names(method.plan, table, 0, 1))
    return engine


def training(spec: BenchSpec, name: str, runtime: Runtime) -> Contestant:
    """One step of the training loop: gradients of a batch, then the update."""
    method = parse_method(name)
    engine, task = gpt_engine(spec, method, runtime), language_modelling(spec, runtime.world)

    def step(index: int) -> object:
        engine.accumulate(task, index)
        return engine.update(OPTIM.lr)

    return Contestant(step, training_flops(spec, method))


def training_flops(spec: BenchSpec, method: Method) -> float:
    """FLOPs of a training step over the baseline's."""
    return 1 - _flops(spec, method).saved_share


def validating(spec: BenchSpec, name: str, runtime: Runtime) -> Contestant:
    """One validation of the training loop."""
    method = parse_method(name)
    engine, task = gpt_engine(spec, method, runtime), language_modelling(spec)

    def validate(_index: int) -> object:
        return engine.evaluate(task)

    return Contestant(validate, _forward_flops(spec, method))


def generating(spec: BenchSpec, name: str, runtime: Runtime, *, cached: bool) -> Contestant:
    """Continue a prompt with the likeliest tokens."""
    method = parse_method(name)
    model = GPT(spec.shape, method)
    initialise(model, seed=0)
    model.to(runtime.device)
    start, greedy = prompt(spec), Sampling(temperature=0)

    def continue_prompt(_index: int) -> object:
        return deque(generate(model, start, tokens=spec.tokens, sampling=greedy, cached=cached))

    return Contestant(continue_prompt, _forward_flops(spec, method) if cached else None)


def our_builders(spec: BenchSpec, runtime: Runtime) -> dict[str, Builder]:
    """Every method that takes part, by the name of its row."""
    match spec.what:
        case What.VALIDATE:
            return {name: partial(validating, spec, name, runtime) for name in spec.methods}
        case What.GENERATE:
            cached: dict[str, Builder] = {
                name: partial(generating, spec, name, runtime, cached=True) for name in spec.methods
            }
            slow = spec.reference_method
            return {**cached, uncached(slow): partial(generating, spec, slow, runtime, cached=False)}
        case _:
            return {name: partial(training, spec, name, runtime) for name in spec.methods}


def uncached(name: str) -> str:
    """The row of a method that generates without its cache."""
    return f"{name}, no cache"


def _forward_flops(spec: BenchSpec, method: Method) -> float:
    baseline = _flops(spec, parse_method("baseline"))
    return _flops(spec, method).forward_per_token / baseline.forward_per_token


def _flops(spec: BenchSpec, method: Method) -> FlopCounts:
    return count_flops(spec.shape, method, total_steps=1, tokens=1)
