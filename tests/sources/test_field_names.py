"""Only the package of a log source spells the fields of its records: nothing else would have to change for another source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fingerprint.sources.cloudtrail.schema import COLUMNS, HELPER_PATHS

ROOT = Path(__file__).parents[2]
SOURCE_PACKAGES = (
    "fingerprint/sources/cloudtrail/",
    "fingerprint/simulation/",
)  # simulation writes CloudTrail
MEMBERS = {part for path in (*(column.path for column in COLUMNS), *HELPER_PATHS) for part in path.split(".")}
FIELDS = {name for name in MEMBERS if name.lower() != name} | {
    "AWSLogs",
    "additionalEventData",
    "amazonaws",
    "requestID",
    "serviceEventDetails",
    "tlsDetails",
    "AKIA",
    "ASIA",
}

# Packages and files that may spell some of them, and why.
EXCEPTIONS = {
    "fingerprint/core/redaction.py": "an error shows a path of a record as its example",
    "fingerprint/evaluation/": "reads labelled CloudTrail sets and checks simulated records for leaked labels",
    "fingerprint/sources/s3_notifications.py": "S3's own notifications have an eventName too",
    "fingerprint/adapters/aws/": "the names of AWS's own hosts",
    "pipelines/bench/": "measures programs by simulated CloudTrail records",
    "pipelines/evaluation/": "reads labelled CloudTrail sets",
    "pipelines/cli/": "help texts name a trail's folder and field as examples",
}


def spelled(file: Path) -> set[str]:
    """Return the fields that the code of a file spells, as a string or a name; docstrings and comments may."""
    source = file.read_text()
    found = texts(ast.parse(source)) if file.suffix == ".py" else [re.sub(r"//.*", "", source)]
    return {word for text in found for word in re.findall(r"\w+", text)} & FIELDS


def texts(tree: ast.Module) -> Iterator[str]:
    docstrings = set()
    for node in ast.walk(tree):  # what has a docstring comes before it
        match node:
            case (
                ast.Module(body=[ast.Expr(value=first), *_])
                | ast.ClassDef(body=[ast.Expr(value=first), *_])
                | ast.FunctionDef(body=[ast.Expr(value=first), *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(value=first), *_])
            ):
                docstrings.add(id(first))
            case ast.Constant(value=str() as text) if id(node) not in docstrings:
                yield text
            case ast.Constant(value=bytes() as data):
                yield data.decode(errors="replace")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str() as name):
                yield name


def files() -> list[Path]:
    found = [file for folder in ("fingerprint", "pipelines") for file in (ROOT / folder).rglob("*")]
    found = [file for file in found if file.suffix in (".py", ".cu", ".h")]
    return [file for file in found if not name_of(file).startswith(SOURCE_PACKAGES)]


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_no_module_outside_the_source_spells_a_field_of_its_records() -> None:
    found = {name_of(file): fields for file in files() if (fields := spelled(file))}
    assert {name: fields for name, fields in found.items() if not name.startswith(tuple(EXCEPTIONS))} == {}
    unused = [prefix for prefix in EXCEPTIONS if not any(name.startswith(prefix) for name in found)]
    assert unused == [], "no longer an exception"


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ('record["eventName"]', {"eventName"}),
        ("line.startswith(b'{\"eventTime\":')", {"eventTime"}),
        ("class Record:\n    recipientAccountId: str", {"recipientAccountId"}),
        ('"""A record with an eventName."""\nx = 1  # userIdentity', set()),
        ('f"{folder}/AWSLogs/"', {"AWSLogs"}),
    ],
)
def test_a_spelled_field_is_found_in_code_and_not_in_prose(
    tmp_path: Path, code: str, fields: set[str]
) -> None:
    file = tmp_path / "module.py"
    file.write_text(code)
    assert spelled(file) == fields


def test_a_spelled_field_is_found_in_a_kernel(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text('if (is(key, "accountId")) return;  // of requestParameters')
    assert spelled(file) == {"accountId"}
