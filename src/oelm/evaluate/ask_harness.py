"""The suite `harness`: tasks of lm-evaluation-harness, through its API (extra `oelm[eval]`).

Its model class is given a model and a tokenizer: those of a folder, or our GPT as transformers would load its export.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from oelm.base.errors import ConfigError
from oelm.config.evaluated import EvaluationRequest, Suite, SuiteResult
from oelm.config.measure import Better, Bilingual, Measure
from oelm.evaluate.answer import Answer, evaluation
from oelm.evaluate.language_model import LanguageModel
from oelm.model.gpt import GPT

_ERROR = "_stderr"
_WIDTH = 1.96
"""Of a 95 % interval in standard errors, which is what the harness gives."""


def harness(model: LanguageModel, request: EvaluationRequest, _: object = None) -> Iterator[Answer]:
    """Every task that is named, and what it consists of; its figures under the harness's own names."""
    found = run_harness(model, request)
    for task, figures in found["results"].items():
        values = {_bare(name): value for name, value in figures.items() if isinstance(value, float)}
        means = {name: value for name, value in values.items() if not name.endswith(_ERROR)}
        if means:
            higher = found["higher_is_better"].get(task, {})
            yield Answer(_result(model, task, means, values, higher, found["n-samples"].get(task, {})))


def run_harness(model: LanguageModel, request: EvaluationRequest) -> dict[str, Any]:
    """What the harness itself returns, with every item's answer under `samples`."""
    try:
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager
    except ImportError as error:
        raise ConfigError(
            f"the suite harness needs lm-evaluation-harness ({error})", "pip install 'oelm[eval]'"
        ) from error
    from oelm.exports.model_export import as_transformers, wrapped_tokenizer

    module = as_transformers(model.module, model.end_of_text) if isinstance(model.module, GPT) else model.module
    begin, end = (model.tokenizer.id_to_token(each) for each in (model.first, model.end_of_text))
    assert begin is not None, "the ids come from this tokenizer"
    assert end is not None
    tokenizer = wrapped_tokenizer(model.tokenizer, begin, end, model.context)
    folder = request.task_folder
    tasks = TaskManager(include_path=folder, include_defaults=folder is None)
    if unknown := [task for task in request.tasks if task not in tasks.all_tasks]:
        raise ConfigError(f"the harness has no task {unknown[0]}", "name one of its own, or give --task-folder")
    lm = HFLM(
        pretrained=module.to(model.device),
        tokenizer=tokenizer,
        batch_size=request.batch_size,
        max_length=model.context,
    )
    answered: dict[str, Any] = simple_evaluate(lm, tasks=list(request.tasks), task_manager=tasks, bootstrap_iters=0)
    return answered


def _result(
    model: LanguageModel,
    task: str,
    means: Mapping[str, float],
    values: Mapping[str, float],
    higher: Mapping[str, bool],
    samples: Mapping[str, int],
) -> SuiteResult:
    errors = {name: values[name + _ERROR] for name in means if name + _ERROR in values}
    return SuiteResult(
        suite=Suite.HARNESS,
        measures=tuple(_measure(name, higher=higher.get(name, True)) for name in means),
        evaluation=evaluation(model, task, dict(means)),
        count=int(samples.get("effective", 0)),
        intervals={
            name: (means[name] - _WIDTH * error, means[name] + _WIDTH * error) for name, error in errors.items()
        },
    )


def _measure(name: str, *, higher: bool) -> Measure:
    return Measure(
        name=name,
        title=Bilingual(english=f"{name} (harness)", chinese=f"{name}(harness)"),
        better=Better.HIGHER if higher else Better.LOWER,
        decimals=4,
        read_from="evaluation",
    )


def _bare(name: str) -> str:
    """`acc,none` is `acc`: without the name of the filter, where that is none."""
    return name.removesuffix(",none")
