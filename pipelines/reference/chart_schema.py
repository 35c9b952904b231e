"""The settings in the schema of the chart's values, by which Helm refuses unknown keys and impossible numbers before a pod fails.

Example:
    >>> settings_schema()["properties"]["voting"]["properties"].keys()
    dict_keys(['detectors', 'max_pending_events', 'max_unknown_principals_per_day', 'quorum'])

Names of settings are generated, and the possible values of numbers, switches and choices. For other values the programs
themselves give better errors than a schema. The rest of the schema is written by hand.

- A null leaves a setting unset, as everywhere in Helm.
- A number may be a text, because a template or `--set-string` writes it so.
- A switch may not be a text: the templates of the chart read some switches, and for a template the text "false" is true.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fingerprint.core.settings import Settings
from pipelines.reference.settings import section_of

SCHEMA_FILE = Path("deploy/helm/fingerprint/values.schema.json")
FIRST_LINE, LAST_LINE = '    "settings": {\n', "\n    },\n"  # around the generated part of the file
DIGITS = {"integer": "^-?[0-9]+$", "number": "^-?[0-9]+([.][0-9]+)?$"}  # patterns of numbers that are texts
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
DESCRIPTION = "generated from fingerprint/core/settings by `python -m pipelines.reference`"


def outdated(file: Path = SCHEMA_FILE) -> bool:
    """Return whether the file differs from the settings in the code."""
    text = file.read_text()
    return with_settings(text) != text


def write(file: Path = SCHEMA_FILE) -> None:
    """Write the settings of the code into the file."""
    file.write_text(with_settings(file.read_text()))


def with_settings(schema: str) -> str:
    """Return the text of a schema of values with the settings of the code: one line for each section."""
    before, found, rest = schema.partition(FIRST_LINE)
    _, ended, after = rest.partition(LAST_LINE)
    if not (found and ended):
        raise ValueError(f"the schema has no lines {FIRST_LINE!r} and {LAST_LINE!r} around its settings")
    own = settings_schema()
    sections = [
        f"        {json.dumps(name)}: {json.dumps(each)}" for name, each in own.pop("properties").items()
    ]
    lines = [f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in own.items()]
    lines.append('      "properties": {\n' + ",\n".join(sections) + "\n      }")
    return before + FIRST_LINE + ",\n".join(lines) + LAST_LINE + after


def settings_schema() -> dict[str, Any]:
    """Return the schema of the value `settings`."""
    own = _section_schema(Settings)
    return own | {"description": DESCRIPTION}


def _section_schema(model: type[BaseModel]) -> dict[str, Any]:
    known = model.model_json_schema()["properties"]
    properties = {
        name: _field_schema(name, field, known[name]) for name, field in sorted(model.model_fields.items())
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _field_schema(name: str, field: FieldInfo, known: dict[str, Any]) -> dict[str, Any]:
    if below := section_of(name, field):
        heading, model = below
        section = _section_schema(model)
        return {"type": "object", "additionalProperties": section} if heading != name else section
    if get_origin(field.annotation) is dict:
        return {"type": "object"}
    return _value_schema(known)


def _value_schema(known: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a value, or the type and the bounds of a number or switch; empty for other values."""
    given = [each for each in known.get("anyOf", [known]) if each.get("type") != "null"]
    [own] = given if len(given) == 1 else [{}]
    if "enum" in own:
        return {"enum": [*own["enum"], None]}
    kind = own.get("type")
    if kind == "boolean":
        return {"type": ["boolean", "null"]}
    if kind not in DIGITS:
        return {}
    bounds = {name: own[name] for name in BOUNDS if name in own}
    return {"type": [kind, "string", "null"], "pattern": DIGITS[kind]} | bounds
