"""Static HTML reports of alerts: pages without scripts, network requests or other files.

Example:
    >>> write_alert_page(store.alerts.get("3fa9"), Path("report/alert.html"))
    PosixPath('report/alert.html')

Values in templates are escaped twice: control and bidirectional characters become visible text (`sanitize.printable`), then
markup becomes text. The Content-Security-Policy allows only the page's own style.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import indent_json, printable
from fingerprint.core.story import fold_runs, summarise_calls, tally_events
from fingerprint.web import formatting, language
from fingerprint.web.address_places import place_of
from fingerprint.web.charts import draw_activity_chart
from fingerprint.web.urls import technique_url

if TYPE_CHECKING:
    from fingerprint.sources.base import ConsoleLink

TEMPLATES = Path(__file__).parent / "templates"
WIDE_ACTIVITY_CHART = (1000, 260)  # width and height of the curve for a wide screen
NARROW_ACTIVITY_CHART = (350, 210)  # for a narrow one


def write_alert_page(alert: Alert, file: Path, queue: str | None = None) -> Path:
    """Write one alert as one HTML file and return its path; `queue` is a link back.

    Raise FingerprintError if it cannot be written.
    """
    return _write(file, render_alert(alert, queue))


def write_queue_page(alerts: Sequence[Alert], folder: Path) -> Path:
    """Write `index.html` with a row per alert and a page for each beside it; return the path of the index.

    The most urgent alert comes first.
    """
    alerts = sorted(alerts, key=lambda alert: (-alert.urgency, alert.first_event_time, alert.alert_id))
    names = {alert.alert_id: f"alert-{_file_name(alert.alert_id)}.html" for alert in alerts}
    for alert in alerts:
        write_alert_page(alert, folder / names[alert.alert_id], queue="index.html")
    return _write(folder / "index.html", _render("report/queue.html", alerts=alerts, names=names))


def render_alert(alert: Alert, queue: str | None = None) -> str:
    """Return the page as text, without lone surrogates, and without control characters except line ends."""
    return _render("report/alert.html", queue=queue, **alert_context(alert), **_story_context(alert))


def _story_context(alert: Alert) -> dict[str, Any]:
    """Return the summaries and the timeline of an alert that has all of its events."""
    from fingerprint.sources.active import SOURCE  # late: commands show alerts without NumPy and pandas
    from fingerprint.web.alert_story import alert_story, shown_scores

    return {
        "story": alert_story(
            alert,
            summarise_calls(alert.events),
            tally_events(alert.events),
            (each.raw for each in alert.events),
        ),
        "runs": fold_runs(alert.events),
        "scores_of": shown_scores,
        "searches_of": SOURCE.record_searches,
    }


def alert_context(alert: Alert) -> dict[str, Any]:
    """Return the context of templates that explain an alert; the alert need not have its events."""
    from fingerprint.web.alert_story import fingerprint_in_words  # late, as above

    curve = alert.curve
    drawings = (
        [draw_activity_chart(curve, *size) for size in (WIDE_ACTIVITY_CHART, NARROW_ACTIVITY_CHART)]
        if curve and curve.counts
        else []
    )
    largest_surprise = max((driver.surprise for driver in alert.drivers), default=0.0)
    return {
        "alert": alert,
        "drawings": drawings,
        "supporting_runs": fold_runs(alert.supporting_events),
        "series": fingerprint_in_words(curve.entity) if curve else "",
        "largest_surprise": max(largest_surprise, 1e-9),
    }


def _render(template: str, **values: Any) -> str:
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return template_environment().get_template(template).render(style=Markup(style), digest=digest, **values)  # noqa: S704


@cache
def template_environment() -> jinja2.Environment:
    """Return the Jinja environment of all templates."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escape_value,
        extensions=["jinja2.ext.i18n"],
    )
    environment.newstyle_gettext = True  # type: ignore[attr-defined]  # the extension adds it
    environment.globals |= {
        "_": language.template_gettext,
        "gettext": language.template_gettext,
        "ngettext": language.template_ngettext,
        "N_": language.N_,
        "english": language.source_language_mark,
    }
    environment.globals["fmt"] = formatting
    environment.globals["place_of"] = place_of
    environment.filters["record"] = _format_record
    environment.filters["technique_url"] = technique_url
    environment.filters["lines"] = _escape_lines
    environment.globals["event_links"] = _event_links
    environment.filters["plain_action"] = _plain_action
    environment.filters["breakable"] = break_between_words
    return environment


def _escape_value(value: Any) -> Any:
    """Escape the value of a template's expression. Markup comes from the templates only."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _escape_lines(text: str) -> Markup:
    """Return a text of several lines, escaped, with its line ends kept."""
    return escape(printable(text, lines=True))


def break_between_words(name: str) -> Markup:
    """Return a name, escaped, that a narrow column breaks between its words instead of within one.

    >>> str(break_between_words("cloudtrail:StopLogging"))
    'cloudtrail:<wbr>Stop<wbr>Logging'
    """
    text = printable(name)
    starts = [
        at
        for at in range(1, len(text))
        if text[at - 1] in ":@" or (text[at - 1].islower() and text[at].isupper())
    ]
    return Markup("<wbr>").join(text[start:end] for start, end in pairwise([0, *starts, len(text)]))


def _plain_action(action: str) -> str:
    """Return the plain name of an action; the record keeps the raw one."""
    from fingerprint.sources.active import SOURCE  # late, as above

    return SOURCE.plain_action(action)


def _event_links(event: AlertEvent) -> Sequence[ConsoleLink]:
    from fingerprint.sources.active import SOURCE  # late, as above

    return SOURCE.event_links(event)


def _format_record(raw: str) -> Markup:
    """Return a raw record in several indented lines."""
    return escape(printable(indent_json(raw), lines=True))


def _file_name(alert_id: str) -> str:
    """Return the id if it is safe in a file name, else a digest of it."""
    if re.fullmatch(r"[0-9A-Za-z_-]{1,100}", alert_id):
        return alert_id
    return hashlib.blake2b(alert_id.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _write(file: Path, page: str) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise FingerprintError(f"page {file}: {error.strerror or error}") from None
    return file
