"""The reference of the settings: keys, types with their limits, defaults and descriptions.

Example:
    >>> settings_page().splitlines()[0]
    '# Settings'
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from fingerprint.core.settings import Settings
from pipelines.reference.tables import cell

COMPARISONS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "min_length": "length ≥", "max_length": "length ≤"}
SETTINGS_HEAD = """\
# Settings

Generated from `fingerprint/core/settings` by `python -m pipelines.reference`; do not edit.

A setting has a section and a key. Defaults are in the code; a TOML file (`--settings FILE`, or `FINGERPRINT_SETTINGS_FILE`)
overrides them, the environment
overrides the file, and options of the command line override the environment. An unknown key, or a combination that could
never produce an alert, stops the program with a sentence that names the key.

```toml
[autoencoder]
threshold = 3.6
```

```
FINGERPRINT_ALERTS__THRESHOLD=3.6 fingerprint stream --bank bank
```

A list is given in the environment as values with commas between them. Secrets are files (`..._file`), never values.

"""


def settings_page() -> str:
    """Return the settings reference as Markdown: a table for each section, in the order of the model."""
    sections = list(_sections(Settings, ""))
    keys = sum(len(fields) for _, _, fields in sections)
    parts = [SETTINGS_HEAD, f"{keys} settings in {len(sections)} sections.\n"]
    for path, summary, fields in sections:
        parts.append(
            f"\n## {path or 'General'}\n\n{summary}\n\n| key | type | default | description |\n|---|---|---|---|\n"
        )
        parts += [_setting_row(name, field) for name, field in fields]
    return "".join(parts)


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, list[tuple[str, FieldInfo]]]]:
    """Yield (path, summary, fields) of a section and of every section below it; `fields` are those of the section itself."""
    below = {name: found for name, field in model.model_fields.items() if (found := section_of(name, field))}
    own = [(name, field) for name, field in model.model_fields.items() if name not in below]
    if own:
        yield path, " ".join(inspect.cleandoc(model.__doc__ or "").split()), own
    for name, inner in below.values():
        yield from _sections(inner, f"{path}.{name}".lstrip("."))


def section_of(name: str, field: FieldInfo) -> tuple[str, type[BaseModel]] | None:
    """Return (heading, model) if a field is a section, or a table of sections whose names the user chooses; else None."""
    kind, several = field.annotation, get_origin(field.annotation) is dict
    kind = get_args(kind)[1] if several else kind
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return f"{name}.NAME" if several else name, kind
    return None


def _setting_row(name: str, field: FieldInfo) -> str:
    limits = [
        f"{sign} {getattr(bound, key):,}"
        for bound in field.metadata
        for key, sign in COMPARISONS.items()
        if getattr(bound, key, None) is not None
    ]
    kind = ", ".join([_type_name(field.annotation), *limits])
    return f"| `{name}` | {cell(kind)} | {_default(field)} | {cell(field.description)} |\n"


def _type_name(kind: Any) -> str:
    """Return the name of a type in the reference: `number`, `one of a, b`, `list of texts`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(each) for each in arguments if each is not type(None)) + ", optional"
    if origin in (tuple, list, frozenset):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"table of {_type_name(arguments[1])}"
    names = {
        bool: "true or false",
        int: "integer",
        float: "number",
        str: "text",
        Path: "path",
        SecretStr: "secret",
    }
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == "" or value == () or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (tuple, list)):
        value = ", ".join(str(each) for each in value)
    return f"`{cell(str(value))}`"
