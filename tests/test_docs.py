"""The documentation names what there is: commands, options, settings, routes, folders, files."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from typer.main import get_command

from fingerprint.core.settings import Settings
from fingerprint.web.api.routers import ROUTERS
from pipelines.cli.app import app
from pipelines.reference import chart_schema, pages
from pipelines.reference.commands import commands_page
from pipelines.reference.settings import section_of, settings_page

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FRONT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
GENERATED = {ROOT / pages.FOLDER / name for name in pages.PAGES}
PAGES = [*FRONT_PAGES, *sorted(set((ROOT / "docs").rglob("*.md")) - GENERATED)]
COMMAND = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(fingerprint [^#\n]*)", re.MULTILINE)
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"`((?:[a-z_]+|deliver\.NAME)(?:\.[a-z_]+)+)(?: = [^`]*)?`")
FILES = (".sqlite", ".html", ".json", ".jsonl", ".md", ".parquet", ".py")
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SOURCE_FILE = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:py|cu|ipynb|toml|yml|yaml|sh))`")
EXAMPLE = "impossible_travel"  # the detector that a guide writes
TABLE = re.compile(r"(?:^\|[^\n]*\n)+", re.MULTILINE)
TABLE_HEAD = re.compile(r"\|[^\n]*\n\|[-:| ]+\n\|")  # a header, its rule and a row
DOC_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_the_generated_references_are_up_to_date() -> None:
    stale = pages.outdated(ROOT / pages.FOLDER)
    assert not stale, f"run `python -m pipelines.reference`: {stale} differ from the code"


def test_a_generated_reference_that_was_edited_is_out_of_date(tmp_path: Path) -> None:
    pages.write(tmp_path)
    (tmp_path / "settings.md").write_text((tmp_path / "settings.md").read_text() + "by hand")
    assert pages.outdated(tmp_path) == ["settings.md"]


def test_the_settings_in_the_schema_of_the_chart_are_up_to_date(tmp_path: Path) -> None:
    assert not chart_schema.outdated(ROOT / chart_schema.SCHEMA_FILE), "run `python -m pipelines.reference`"
    edited = tmp_path / "values.schema.json"
    edited.write_text((ROOT / chart_schema.SCHEMA_FILE).read_text().replace('"quorum": {', '"quorom": {'))
    assert chart_schema.outdated(edited)
    chart_schema.write(edited)
    assert edited.read_text() == (ROOT / chart_schema.SCHEMA_FILE).read_text()


def test_the_settings_reference_has_every_key() -> None:
    page = settings_page()
    missing = [key for key in _setting_keys(Settings, "") if f"| `{key.rpartition('.')[2]}` |" not in page]
    assert not missing


def test_the_command_reference_has_every_command_and_option() -> None:
    page = commands_page()
    commands = list(_commands(get_command(app), "fingerprint"))
    assert [path for path in commands if f"\n## {path}\n" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_code_blocks_exist_with_their_options(page: Path) -> None:
    wrong = [line for line in _command_lines(page.read_text()) if not _is_command(line)]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_in_the_text_exist(page: Path) -> None:
    known = {key.replace("deliver.NAME.", "deliver.") for key in _setting_keys(Settings, "")}
    sections = {key.rpartition(".")[0] for key in known}
    named = {key.replace("deliver.NAME.", "deliver.") for key in SETTING.findall(page.read_text())}
    wrong = [key for key in sorted(named - known) if key.rpartition(".")[0] in sections]
    assert [
        key for key in wrong if not key.endswith(FILES) and not _is_function(key) and not _is_chart_value(key)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_in_the_text_exist(page: Path) -> None:
    """A path counts from the repository, `fingerprint/` or `tests/`; other projects' begin with no folder of ours."""
    starts = [ROOT, ROOT / "fingerprint", ROOT / "tests"]
    ours = {each.name for start in starts for each in start.iterdir()}
    named = [path for path in SOURCE_FILE.findall(page.read_text()) if path.partition("/")[0] in ours]
    missing = [
        path for path in named if not any((start / path).exists() for start in starts) and EXAMPLE not in path
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_files_in_the_text_are_accepted(page: Path) -> None:
    for block in TOML.findall(page.read_text()):
        Settings.model_validate(tomllib.loads(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_table_is_cut_by_an_empty_line(page: Path) -> None:
    """Markdown ends a table there: the rows below it are shown as text."""
    tables = TABLE.findall(page.read_text())
    assert [table for table in tables if not TABLE_HEAD.match(table)] == []


def test_every_route_of_the_api_is_in_its_reference() -> None:
    page = (ROOT / "docs/reference/http-routes.md").read_text()
    contexts = [route for router in ROUTERS for route in iter_route_contexts(router.routes)]
    paths = {route.path.replace(":path", "") for route in contexts if route.path}
    assert len(paths) > 20
    assert [path for path in sorted(paths) if f" {path}` |" not in page] == []


@pytest.mark.parametrize("page", FRONT_PAGES, ids=lambda page: page.name)
def test_links_of_the_front_pages_lead_to_files(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_pages_that_code_and_deployment_refer_to_exist() -> None:
    """An operator follows these: error messages, alert rules, comments."""
    tops = [
        ROOT / name for name in ("fingerprint", "pipelines", "deploy", "data", "models", "notebooks", "tests")
    ]
    kinds = {".py", ".yml", ".yaml", ".json", ".md", ".ipynb", ".sh", ".tpl", ".cu", ".pbtxt"}
    files = [file for top in tops for file in top.rglob("*") if file.suffix in kinds]
    files += [ROOT / name for name in ("Makefile", "Dockerfile", "pyproject.toml", "docker-compose.yml")]
    named = {
        (page, str(file.relative_to(ROOT))) for file in files for page in DOC_PAGE.findall(file.read_text())
    }
    assert [(page, file) for page, file in sorted(named) if not (ROOT / page).exists()] == []


def test_the_readme_is_short_and_names_every_folder() -> None:
    tree = README.split("## Folders")[1].split("## ")[0]
    packages = [each.name for each in (ROOT / "fingerprint").iterdir() if (each / "__init__.py").exists()]
    tops = [
        each.name
        for each in ROOT.iterdir()
        if each.is_dir() and not each.name.startswith((".", "build", "_"))
    ]
    assert len(README.splitlines()) <= 150
    assert [name for name in packages + tops if f"{name}/" not in tree and name != "shared"] == []


def test_the_readme_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in README] == []


def _setting_keys(model: type[BaseModel], path: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        below = section_of(name, field)
        if below:
            yield from _setting_keys(below[1], f"{path}{below[0]}.")
        else:
            yield path + name


def _is_function(name: str) -> bool:
    """Return whether `module.function` is what a text means by `section.key`."""
    module, _, function = name.rpartition(".")
    return any(
        f"def {function}(" in file.read_text() for file in (ROOT / "fingerprint").rglob(f"{module}.py")
    )


def _is_chart_value(name: str) -> bool:
    values: Any = yaml.safe_load((ROOT / "deploy/helm/fingerprint/values.yaml").read_text())
    for part in name.split("."):
        values = values.get(part) if isinstance(values, dict) and part in values else None
    return values is not None


def _commands(command: Any, path: str) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
    for name, each in (inner or {}).items():
        yield from _commands(each, f"{path} {name}")


def _command_lines(text: str) -> list[str]:
    blocks = [block.replace("\\\n", " ") for block in FENCE.findall(text)]
    indented = re.findall(r"(?:^ {4}\S.*\n)+", text, re.MULTILINE)
    return [line.strip() for block in blocks + indented for line in COMMAND.findall(block)]


def _is_command(line: str) -> bool:
    """Return whether the words up to the first option name a command, and all options are its own."""
    words = shlex.split(line.split(" | ")[0].split(" > ")[0])[1:]
    command: Any = get_command(app)
    while words and hasattr(command, "commands"):
        command = command.commands.get(words.pop(0))
        if command is None:
            return False
    options = {name for each in command.params for name in [*each.opts, *each.secondary_opts]} | {
        "--help",
        "-h",
    }
    return {word.partition("=")[0] for word in words if word.startswith("--")} <= options
