"""What a study file may say: as JSON Schema for editors, and as a reference in Markdown. Both come from the models."""

import ast
import inspect
from typing import Any

from pydantic import BaseModel

from oelm.config.evaluated import EvaluationRequest
from oelm.config.labelled_data import Columns, GeneratedTask, HubTask, LabelledFile, LocalTables
from oelm.config.probe import Probe
from oelm.config.request import FinetuneRequest, TrainRequest
from oelm.data.prepare_request import PrepareRequest
from oelm.data.sources import Files, Hub, Stories
from oelm.experiments.resources import Resources
from oelm.experiments.study import SET_BY_THE_STUDY, PreparedTokens, Study, StudyArm, TuningPlan

_PARTS: dict[str, tuple[type[BaseModel], ...]] = {
    "The file": (Study,),
    "Arms": (StudyArm,),
    "Learning rates": (TuningPlan,),
    "Data": (
        *(PrepareRequest, Stories, Files, Hub, PreparedTokens),
        *(LocalTables, LabelledFile, Columns, HubTask, GeneratedTask),
        Probe,
    ),
    "Settings of runs": (TrainRequest, FinetuneRequest),
    "Questions to finished models": (EvaluationRequest,),
    "Resources": (Resources,),
}
_HEADINGS = {
    TrainRequest: "`train:`, nearly all as the flags of `oelm train`",
    FinetuneRequest: "`finetune:`, nearly all as the flags of `oelm finetune`",
    EvaluationRequest: "`evaluate:`, nearly all as the flags of `oelm eval`. What is asked, of every model alike.",
}


def json_schema() -> dict[str, Any]:
    """JSON Schema of a study file: what an editor needs to complete and check it."""
    schema = Study.model_json_schema()
    definitions = schema["$defs"]
    for request in (TrainRequest, FinetuneRequest):
        part = request.model_json_schema(ref_template="#/$defs/{model}")
        definitions |= part.pop("$defs", {})
        definitions[request.__name__] = part | {
            "properties": {key: value for key, value in part["properties"].items() if key not in SET_BY_THE_STUDY},
            "required": [key for key in part.get("required", ()) if key not in SET_BY_THE_STUDY],
        }
    arm = definitions["StudyArm"]
    arm["required"] = ["method"]  # the name is the method's, unless it is given
    properties = schema["properties"]
    properties["arms"]["items"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/StudyArm"}]}
    properties["train"] = {"$ref": "#/$defs/TrainRequest"}
    properties["finetune"] = {"$ref": "#/$defs/FinetuneRequest"}
    for model in (model for models in _PARTS.values() for model in models):
        described = schema if model is Study else definitions.get(model.__name__, {})
        for key, text in field_docstrings(model).items():
            if key in described.get("properties", {}):
                described["properties"][key] = described["properties"][key] | {"description": text}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def reference() -> str:
    """Every key of a study file, with its type, its default and what it means."""
    schema = json_schema()
    lines = []
    for title, models in _PARTS.items():
        lines += [f"## {title}", ""]
        for model in models:
            part = schema if model is Study else schema["$defs"][model.__name__]
            lines += [_HEADINGS.get(model) or " ".join((inspect.getdoc(model) or "").split()), ""]
            lines += ["| key | what it takes | default | |", "|---|---|---|---|"]
            required = part.get("required", ())
            lines += [_row(key, value, key in required, schema["$defs"]) for key, value in part["properties"].items()]
            lines.append("")
    return "\n".join(lines)


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The strings below the fields of a model and of its bases."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or not cls.__module__.startswith("oelm."):
            continue
        (node,) = ast.parse(inspect.getsource(cls)).body
        assert isinstance(node, ast.ClassDef)
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found


def _row(key: str, value: dict[str, Any], required: bool, definitions: dict[str, Any]) -> str:
    default = "needed" if required else _plain(value.get("default"))
    meaning = value.get("description", "")
    row = f"| `{key}` | {_type(value, definitions)} | {default} | {meaning} |"
    return row.replace("<|endoftext|>", "`<\\|endoftext\\|>`")


def _plain(value: Any) -> str:
    return "" if value in (None, "") else f"`{value}`" if value != "<|endoftext|>" else value


def _type(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    """`integer`, `list of number`, the values of a choice, or the name of what has a table of its own."""
    for several in ("anyOf", "oneOf"):
        if several in value:
            kinds = dict.fromkeys(_type(each, definitions) for each in value[several] if each.get("type") != "null")
            return " or ".join(kinds)
    if "$ref" in value:
        name = str(value["$ref"]).rsplit("/", 1)[1]
        return _type(definitions[name], definitions) if "enum" in definitions[name] else name
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}), definitions)}"
    return str(value.get("type", "any"))
