"""Register our exported models with transformers' auto classes when one is first looked up."""

from importlib import import_module
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

_MODEL_TYPES = frozenset({"oelm-gpt", "oelm-llama"})


class _Extra(dict[str, Any]):
    """The configs that were registered besides transformers' own; ours register when somebody looks for one."""

    def __contains__(self, model_type: object) -> bool:
        if model_type in _MODEL_TYPES and not super().__contains__(model_type):
            import_module("oelm.exports.shifted").register()
        return super().__contains__(model_type)


def know_exports() -> None:
    """Make AutoConfig, and with it AutoModelForCausalLM, find them."""
    CONFIG_MAPPING._extra_content = _Extra(CONFIG_MAPPING._extra_content)
