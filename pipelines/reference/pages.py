"""Write the generated pages and the settings of the chart's schema, or name those that are out of date.

Example:
    $ python -m pipelines.reference            # writes docs/reference/settings.md and the other pages of PAGES
    $ python -m pipelines.reference --check    # exit status 1 if a page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.reference import chart_schema
from pipelines.reference.commands import commands_page
from pipelines.reference.metrics import metrics_page
from pipelines.reference.routes import routes_page
from pipelines.reference.settings import settings_page

FOLDER = Path("docs/reference")
PAGES = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "http-routes.md": routes_page,
}


def main(arguments: list[str]) -> int:
    """Write all generated files, or with `--check` name those that are out of date. Return the exit status."""
    if "--check" not in arguments:
        write()
        chart_schema.write()
        return 0
    stale = outdated() + [str(chart_schema.SCHEMA_FILE)] * chart_schema.outdated()
    if stale:
        print(f"out of date: {', '.join(stale)} (run `python -m pipelines.reference`)", file=sys.stderr)
    return int(bool(stale))


def outdated(folder: Path = FOLDER) -> list[str]:
    """Return the names of the pages in `folder` that differ from those that the code generates."""
    return [name for name, page in PAGES.items() if _read(folder / name) != page()]


def write(folder: Path = FOLDER) -> None:
    """Write every generated page to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
