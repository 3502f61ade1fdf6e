"""One of the processes of `oelm.bench.parallel`, started by torchrun: SPEC_FILE ANSWER_FILE."""

import random
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from oelm.base.files import write_json
from oelm.base.runtime import Runtime, choose_runtime
from oelm.bench.ours import training
from oelm.bench.parallel import Rounds, backend_of
from oelm.bench.rounds import Act, step_seconds
from oelm.bench.spec import BenchSpec


def time_rounds(spec: BenchSpec, name: str, runtime: Runtime) -> Rounds:
    """Seconds per step of this process; those of `alone` mean something in the first process only."""
    own = training(spec, name, Runtime(runtime.device)).act
    shared = training(spec, name, runtime).act
    acts: dict[str, Act | None] = {
        "alone": own if runtime.leads else None,
        "side by side": own,
        "together": shared,
    }
    order, index, found = random.Random(0), 0, Rounds()
    for number in range(spec.rounds + 1):  # the first round warms up
        for kind in order.sample(sorted(acts), len(acts)):
            dist.barrier()
            act = acts[kind]
            if act is not None:
                seconds = step_seconds(act, range(index, index + spec.repeats), runtime)
                if number:
                    found.setdefault(kind, []).append(sum(seconds) / len(seconds))
            index += spec.repeats
    dist.barrier()
    return found


def main() -> None:
    """Take part; the first process writes what it has timed."""
    asked, answer = map(Path, sys.argv[1:])
    spec = BenchSpec.model_validate_json(asked.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    runtime = choose_runtime(spec.device)
    if runtime.device.type == "cuda":
        torch.cuda.set_device(runtime.device)
    dist.init_process_group(backend_of(runtime), timeout=timedelta(minutes=30))
    try:
        rounds = {name: time_rounds(spec, name, runtime) for name in spec.methods}
    finally:
        dist.destroy_process_group()
    if runtime.leads:
        write_json(answer, rounds)


if __name__ == "__main__":
    main()
