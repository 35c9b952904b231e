"""Load settings from defaults, a TOML file, the environment and options, and describe them for people.

Example:
    >>> load_settings(environment={"FINGERPRINT_VOTING__DETECTORS": "autoencoder,spectral"}).voting.quorum
    2
    >>> next(each for each in describe_settings() if each.name == "triton.url").environment
    'FINGERPRINT_TRITON__URL'
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import SecretStr, ValidationError
from pydantic_core import PydanticUndefined

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.settings.base import Section

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

PREFIX = "FINGERPRINT_"
NESTED = "__"
# The defaults of --settings and --bank.
PROGRAM_VARIABLES = {"FINGERPRINT_SETTINGS_FILE", "FINGERPRINT_BANK_FOLDER"}
NO_OPTIONS: Mapping[str, dict[str, Any]] = {}


def load_settings(
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, dict[str, Any]] = NO_OPTIONS,
) -> Settings:
    """Return the settings of `file` (TOML). The environment overrides the file, command-line options override both.

    Args:
        file: a TOML file; a section is a table.
        environment: variables `FINGERPRINT_<SECTION>__<KEY>`; lists separate their items by commas. The process's own
            environment if None.
        options: values by section and key; None means that the option was not given.

    Raise FingerprintError with one line that names each bad key and what was expected.
    """
    variables = dict(os.environ) if environment is None else dict(environment)
    variables = {
        name: value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in PROGRAM_VARIABLES
    }
    _check_names(variables)
    given = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in options.items()
    }
    try:
        loaded = Settings.model_validate(_merge_sources(given, variables, _read_toml(file)))
    except ValidationError as error:
        raise FingerprintError(explain_invalid(error)) from None
    if file and any(receiver.url for receiver in loaded.deliver.values()):
        private_files.warn_if_exposed(Path(file))
    return loaded


def _merge_sources(given: dict[str, Any], variables: dict[str, str], table: dict[str, Any]) -> dict[str, Any]:
    """Return the sources merged key by key: `given` overrides the environment, which overrides the file."""
    merged: dict[str, Any] = {}
    for source in (table, _read_environment(variables), given):
        _update(merged, source)
    return merged


def _update(merged: dict[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(merged.setdefault(key, {}), dict):
            _update(merged[key], value)
        elif not isinstance(value, dict):
            merged[key] = value


def _read_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables as nested tables, read by pydantic-settings; commas separate the items of a list.

    Settings itself is not a BaseSettings, because then every `Settings(...)`, and every `model_validate` of a bank's settings,
    would read the environment.
    """
    if not variables:
        return {}
    from pydantic_settings import EnvSettingsSource  # late: most starts set no variable

    class Environment(EnvSettingsSource):
        def _load_env_vars(self) -> Mapping[str, str | None]:
            return {name.lower(): value for name, value in variables.items()}

        def decode_complex_value(self, field_name: str, field: FieldInfo | None, value: Any) -> Any:
            if field is None:
                return value  # of an unknown name, which validation refuses
            if get_origin(field.annotation) is tuple:
                return [item.strip() for item in value.split(",")]
            try:
                return json.loads(value)
            except ValueError:
                raise FingerprintError(f"setting {field_name} in the environment: expected JSON") from None

    source = Environment(Settings, env_prefix=PREFIX, env_nested_delimiter=NESTED)  # type: ignore[arg-type]  # reads fields only
    return source()


def _check_names(variables: Mapping[str, str]) -> None:
    """Raise FingerprintError for variables that fit no section, which pydantic-settings would ignore."""
    if problems := "; ".join(_name_problems(variables)):
        raise FingerprintError(problems)


def _name_problems(variables: Mapping[str, str]) -> Iterator[str]:
    for name in variables:
        section, nested, _ = name.removeprefix(PREFIX).lower().partition(NESTED)
        if section not in Settings.model_fields:
            what = _suggest(section, sorted(Settings.model_fields))
            yield f"setting {name}: {what}; variables are {PREFIX}<SECTION>{NESTED}<KEY>"
            continue
        is_section = section in ("deliver", "detectors") or _section((section,)) is not None
        if is_section and not nested:
            yield f"setting {name}: name it {PREFIX}<SECTION>{NESTED}<KEY>, with two underscores"
        if nested and not is_section:
            yield f"setting {name}: {section} is no section; name it {PREFIX}{section.upper()}"


def _read_toml(file: str | Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(Path(file).read_text())
    except FileNotFoundError:
        raise FingerprintError(
            f"settings file {file}: there is none: `fingerprint config init {shlex.quote(str(file))}` writes it"
        ) from None
    except OSError as error:
        raise FingerprintError(f"settings file {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FingerprintError(f"settings file {file}: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise FingerprintError(f"settings file {file}, {_explain_toml(str(error))}") from None


_TOML_MISTAKES = {
    "Invalid value": 'a value is missing or is not TOML: write text in quotes, as in group_id = "fingerprint"',
    "Expected '='": "a key has no value: write key = value",
    "Expected newline": "there is more after the value: write one key a line, and text in quotes",
    "Invalid statement": "this is no key and no section: write key = value or [section]",
    "Expected ']'": "a section has no end: close its bracket",
    "Cannot overwrite": "this key stands there twice: remove one",
    "Cannot declare": "this section stands there twice: put its keys together",
    "Unterminated": "a text has no end: close its quotes",
    "Unclosed": "a list or table has no end: close its bracket",
    "Illegal character": "a text may not hold this character: end it with a quote on the same line",
}
"""Our words for tomllib's kinds of errors, by how they begin."""


def _explain_toml(error: str) -> str:
    """Return where a file is not TOML, and what to write: "line 1, column 5: a value is missing ..."."""
    mistake, _, place = error.rstrip(")").rpartition(" (at ")
    known = (words for start, words in _TOML_MISTAKES.items() if mistake.startswith(start))
    place = place.replace("document", "file")
    return f"{place}: {next(known, 'this is not TOML: compare with `fingerprint config init`')}"


_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
"""Our words for pydantic's kinds of errors; others keep pydantic's."""


def explain_invalid(error: ValidationError) -> str:
    """Return every problem in one line, each with the name of its setting."""
    return "; ".join(map(_explain_problem, error.errors()))


def _explain_problem(problem: ErrorDetails) -> str:
    names = ".".join(str(part) for part in problem["loc"])
    where = f"setting {names}" if names else "settings"
    if problem["type"] == "extra_forbidden":
        model = _section(problem["loc"][:-1])
        known = sorted(model.model_fields) if model else []
        return f"{where}: {_suggest(str(problem['loc'][-1]), known)}"
    expected = _EXPECTED.get(problem["type"])
    if expected:
        return f"{where}: expected {expected.format(**problem.get('ctx', {}))}"
    return f"{where}: {problem['msg'].removeprefix('Value error, ')}"


# Least similarity of a proposed name, or of one of its words, so that `brokers` finds `bootstrap_servers`.
_LEAST_LIKENESS = 0.55


def _suggest(name: str, known: list[str]) -> str:
    """Return the sentence about an unknown name: it proposes the nearest known name, or lists all if none is near."""
    near = _nearest(name, known)
    return f"there is no {name!r}" + (f"; did you mean {near}?" if near else f" (known: {', '.join(known)})")


def _nearest(name: str, known: list[str]) -> str | None:
    """Return the most similar known name, else the one with the most similar word; None if none is near."""
    by_word = {word: each for each in known for word in each.split("_")}
    for candidates in ({each: each for each in known}, by_word):
        if near := difflib.get_close_matches(name, candidates, n=1, cutoff=_LEAST_LIKENESS):
            return candidates[near[0]]
    return None


def _section(path: Sequence[int | str]) -> type[Section] | None:
    """Return the class of a section by its path; None if there is none."""
    model: Any = Settings
    for part in path:
        if get_origin(model) is dict:
            model = get_args(model)[1]
        elif not _is_section(model) or part not in model.model_fields:
            return None
        else:
            model = model.model_fields[part].annotation
    return model if _is_section(model) else None


def _is_section(annotation: Any) -> TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)


@dataclass(frozen=True)
class SettingDescription:
    """One setting, for `fingerprint config` and the generated reference."""

    section: str
    """Its section: "kafka", "web.oidc", "deliver.NAME"; "" for a setting of no section."""
    name: str
    """Its name with the section: "kafka.group_id"."""
    type: str
    """The values it takes, in words: "text", "whole number", "true or false", "one of: a, b"."""
    default: str
    """Its default as TOML writes it; "" if it is unset."""
    description: str
    environment: str
    """The variable that sets it."""


def describe_settings() -> list[SettingDescription]:
    """Return every setting in the order of the sections; a receiver's once, as deliver.NAME."""
    return [
        SettingDescription(
            section=section,
            name=f"{section}.{key}" if section else key,
            type=_type_in_words(field.annotation),
            default=_as_toml(field.get_default(call_default_factory=True)),
            description=field.description or "",
            environment=PREFIX + NESTED.join((*filter(None, section.split(".")), key)).upper(),
        )
        for section, key, field in _leaves(Settings, "")
    ]


def _leaves(model: type[Section], prefix: str) -> Iterator[tuple[str, str, FieldInfo]]:
    inner: list[tuple[str, Any]] = []
    for key, field in model.model_fields.items():
        path = f"{prefix}.{key}" if prefix else key
        if _is_section(field.annotation):
            inner.append((path, field.annotation))
        elif get_origin(field.annotation) is dict and _is_section(get_args(field.annotation)[1]):
            inner.append((f"{path}.NAME", get_args(field.annotation)[1]))
        else:
            yield prefix, key, field
    for path, section in inner:
        yield from _leaves(section, path)


_TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "text (secret)",
    Any: "any value",
}


def _type_in_words(annotation: Any) -> str:
    arguments = [each for each in get_args(annotation) if each not in (type(None), ...)]
    match get_origin(annotation):
        case origin if origin in (Union, UnionType):
            return " or ".join(map(_type_in_words, arguments))
        case origin if origin is Literal:
            return "one of: " + ", ".join(map(str, arguments))
        case origin if origin is tuple:
            return f"list of {_type_in_words(arguments[0])}"
        case origin if origin is dict:
            return f"table of {_type_in_words(arguments[1])}"
    return _TYPES[annotation]


def _as_toml(value: Any) -> str:
    """Return a value as TOML writes it; "" for None and for a setting without a default."""
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_as_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)  # TOML's texts, numbers, booleans and arrays are JSON's
