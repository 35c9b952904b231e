"""The alert page: it explains an alert, and whatever an attacker wrote into a record stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from fingerprint.core.alert import ActivityCurve, NextStep
from fingerprint.core.errors import FingerprintError
from fingerprint.core.sanitize import printable
from fingerprint.web import formatting
from fingerprint.web.charts import draw_activity_chart
from fingerprint.web.static_report import (
    break_between_words,
    render_alert,
    write_alert_page,
    write_queue_page,
)
from tests.support.alerts import NASTY, curve, event, nasty, new_pipeline, stolen_session

ELEMENTS = set(
    re.findall(
        r"\w+",
        "html head meta link title style body header main section footer div span p h1 h2 h3 a ul ol li dl "
        "strong em b code bdi time table thead tbody tr th td details summary pre svg circle text tspan rect path "
        "desc dt dd wbr",
    )
)
VOID = {"meta", "link", "wbr"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; complains about an element that is closed out of turn."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    @classmethod
    def lenient(cls, page: str) -> Page:
        """Read a page of the app, which has elements without an end."""
        return _AppPage(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


class _AppPage(Page):
    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        pass


def check_harmless(page: str) -> Page:
    """No script, no event handler, no inline style, no address, no character that steers a screen."""
    parsed = Page(page)
    assert {tag for tag, _ in parsed.elements} <= ELEMENTS
    for _, attributes in parsed.elements:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc")
        ]
        assert attributes.get("href", "#") in ("#", "data:,", "index.html") or is_page(attributes["href"])
    assert printable(page, lines=True) == page
    return parsed


def is_page(link: str | None) -> bool:
    return re.fullmatch(r"alert-[0-9A-Za-z_-]+\.html", link or "") is not None


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("AuthorizeSecurityGroupIngress", "Authorize<wbr>Security<wbr>Group<wbr>Ingress"),
        ("GetIPSet", "Get<wbr>IPSet"),
        ("maria@example.com", "maria@<wbr>example.com"),
        ("rolesanywhere:CreateProfile", "rolesanywhere:<wbr>Create<wbr>Profile"),
        ("", ""),
        ("AccessDenied<b>", "Access<wbr>Denied&lt;b&gt;"),
    ],
)
def test_a_name_is_broken_between_its_words(name: str, broken: str) -> None:
    assert str(break_between_words(name)) == broken


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_name_that_may_be_broken_is_the_same_text(text: str) -> None:
    assert Page.lenient(str(break_between_words(text))).text == printable(text)


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_whatever_is_in_a_record_is_shown_as_text_and_nothing_else(text):
    plain, parsed = Page(render_alert(nasty("harmless"))), check_harmless(render_alert(nasty(text)))
    assert printable(text) in parsed.text
    shape = [tag for tag, _ in parsed.elements if tag in ("section", "tr", "h2", "h3", "pre", "a", "path")]
    assert shape == [
        tag for tag, _ in plain.elements if tag in ("section", "tr", "h2", "h3", "pre", "a", "path")
    ]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_the_queue_shows_it_as_text_too(tmp_path, text):
    index = write_queue_page([nasty(text), replace(nasty(text), alert_id=text)], tmp_path)
    parsed = check_harmless(index.read_text(encoding="utf-8"))
    links = [attributes["href"] for tag, attributes in parsed.elements if tag == "a"]
    assert all(is_page(link) and (tmp_path / link).is_file() for link in links)
    assert len({*links}) == 2
    assert {file.parent for file in tmp_path.rglob("*")} == {tmp_path}


def test_the_page_allows_its_own_style_and_nothing_else():
    page = render_alert(stolen_session())
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    metas = [attributes for tag, attributes in Page(page).elements if tag == "meta"]
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy.split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "unsafe" not in policy
    assert "url(" not in style
    assert "@import" not in style


def test_an_analyst_reads_who_what_when_where_and_how_unusual():
    alert = stolen_session()
    text = " ".join(check_harmless(render_alert(alert, queue="index.html")).text.split())
    for part in (
        alert.title,
        alert.principal,
        alert.human,
        alert.bank_version,
        *alert.tactics,
        *(" ".join(f"{step.text} {step.command}".split()) for step in alert.next_steps),
        "Rarity 84",
        "Impact 88",
        "Exfiltration, T1537",
        "stops or weakens the audit log",
        "9 events in 19 minutes",
        "4 March 2026, 14:02:00 to 14:21:00 UTC",
        "the principal's own fingerprint",
        "185.220.101.34 \u00d7 9",
        "not in the history",
        "about 1 in 12,000 of what is usual",
        "events per hour",
        "Wednesday 4 March 14:00 UTC: 34 where 3.1 were expected",
    ):
        assert part in text
    for driver in alert.drivers:
        assert driver.seen in text
        assert driver.expected in text


def test_what_is_usual_is_said_once_of_values_that_follow_one_another():
    alert = stolen_session()
    new = replace(alert.drivers[0], feature="action", seen="iam:CreateUser", expected="kms:Decrypt")
    alert = replace(alert, drivers=(new, replace(new, seen="iam:CreateAccessKey"), *alert.drivers[1:]))
    page = render_alert(alert)
    text = " ".join(check_harmless(page).text.split())
    assert text.count("kms:Decrypt") == 1
    assert text.count("as above") == 1
    assert "iam:<wbr>Create<wbr>Access<wbr>Key" in page


@pytest.mark.parametrize(("kept", "noted"), [(9, False), (10, True)])
def test_where_an_alert_keeps_no_more_new_actions_the_page_says_that_not_all_are_marked(kept, noted):
    alert = replace(stolen_session(), impact_of=stolen_session().impact_of[:1] * kept)
    assert ("not at all of them" in render_alert(alert)) is noted


def test_hours_before_the_alert_are_said_to_be_before_it():
    alert = stolen_session()
    surge = alert.curve.flagged[0]
    alert = replace(alert, curve=replace(alert.curve, flagged=(surge - 24, surge - 1, surge)))
    text = " ".join(check_harmless(render_alert(alert)).text.split())
    assert re.search(r"Tuesday 3 March 14:00 UTC: \S+ where \S+ were expected before this alert", text)
    assert re.search(r"Wednesday 4 March 13:00 UTC: \S+ where \S+ were expected before this alert", text)
    assert text.count("before this alert") == 2


def test_every_event_is_on_the_timeline_with_its_record():
    alert = stolen_session()
    parsed = Page(render_alert(alert))
    times = [attributes["datetime"] for tag, attributes in parsed.elements if tag == "time"]
    assert {formatting.format_iso(item.event_time) for item in alert.events} <= {*times}
    records = [each for tag, each in parsed.elements if (tag, each.get("class")) == ("pre", None)]
    assert len(records) == len(alert.events)
    assert '"secretId": "prod/payments/stripe"' in parsed.text


def test_long_text_is_folded_and_never_cut():
    page = render_alert(nasty("x" * 5000 + "the end"))
    parsed = Page(page)
    assert parsed.text.count("the end") > 20
    assert sum(attributes.get("class") == "fold" for _, attributes in parsed.elements) > 20


def test_the_commands_of_a_step_are_whole_however_long():
    """A command that is cut silently leaves machines running, or is another command."""
    ids = " ".join(f"i-{number:017x}" for number in range(1_000))
    command = f"aws ec2 stop-instances --instance-ids {ids}\naws iam list-users"
    alert = replace(stolen_session(), next_steps=(NextStep("undo", "Stop the machines.", command),))
    assert command in Page(render_alert(alert)).text


def test_many_addresses_are_folded_and_never_cut():
    events = tuple(event(at, "s3", "GetObject", source_address=f"10.0.0.{at}") for at in range(40))
    text = " ".join(Page(render_alert(stolen_session(events=events))).text.split())
    assert "36 others" in text
    assert all(text.count(f"10.0.0.{at} ") >= 2 for at in range(40))


@pytest.mark.parametrize(
    "alert", [new_pipeline(), stolen_session(drivers=(), next_steps=(), events=(), human="")]
)
def test_an_alert_with_little_to_tell_still_has_a_page(alert):
    check_harmless(render_alert(alert))


def test_colours_follow_the_readers_choice_and_the_page_fits_a_phone():
    page = render_alert(stolen_session())
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page
    drawn = [attributes for tag, attributes in Page(page).elements if attributes.get("role") == "img"]
    assert [each["class"] for each in drawn] == ["curve wide", "curve narrow"]


def test_the_queue_has_the_most_urgent_on_top(tmp_path):
    index = write_queue_page([new_pipeline(), stolen_session()], tmp_path)
    parsed = check_harmless(index.read_text())
    links = [attributes["href"] for tag, attributes in parsed.elements if tag == "a"]
    assert links == ["alert-3fa94c1be0d27a58.html", "alert-77b0e6d1920c4f3e.html"]
    assert "2 alerts" in parsed.text
    assert "No alerts. Votes" in write_queue_page([], tmp_path).read_text()


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FingerprintError, match="page"):
        write_alert_page(stolen_session(), tmp_path / "file" / "alert.html")


class TestCurve:
    def test_a_flagged_interval_is_drawn_apart_and_said_in_words(self):
        drawing = draw_activity_chart(curve(), 960, 250)
        (flag,) = drawing.flagged
        assert flag.text == "Wednesday 4 March 14:00 UTC: 34 where 3.1 were expected"
        assert (flag.sentence, flag.start.hour) == ("{time}: 34 where 3.1 were expected", 14)
        assert 44 < flag.x < 960
        assert drawing.bars.count("M") == sum(count > 0 for count in curve().counts) - 1

    def test_the_axis_becomes_a_square_root_where_a_surge_would_flatten_the_rest(self):
        assert not draw_activity_chart(curve(), 960, 250).square_root
        assert draw_activity_chart(curve(peak=5000), 960, 250).square_root

    @pytest.mark.parametrize("days", [1, 2, 7, 21, 60, 400])
    @pytest.mark.parametrize("width", [350, 1000])
    def test_labels_of_time_never_crowd(self, days, width):
        at = [tick.at for tick in draw_activity_chart(curve(days), width, 200).x_ticks]
        assert at
        assert all(after - before >= 70 for before, after in pairwise(at))

    @pytest.mark.parametrize("odd", [float("nan"), float("inf"), -3.0, 0.0, 1e300])
    def test_odd_figures_stay_inside_the_drawing(self, odd):
        made = ActivityCurve("e", "events", curve().start, 60, (odd, 1.0), (odd, odd), (0, 1, 7))
        drawing = draw_activity_chart(made, 350, 200)
        assert "nan" not in drawing.bars + drawing.expected
        assert all(0 <= flag.y <= 200 and 0 <= flag.height <= 200 for flag in drawing.flagged)
        check_harmless(render_alert(stolen_session(curve=made)))


@pytest.mark.parametrize(
    ("nats", "said"),
    [
        (0, "1.0"),
        (1, "2.7"),
        (4.6, "99"),
        (9.4, "12,000"),
        (99, "over a million"),
    ],
)
def test_a_surprise_is_said_as_odds(nats, said):
    assert formatting.format_odds(nats) == said


@pytest.mark.parametrize(
    ("urgency", "word"),
    [(100, "critical"), (74, "high"), (50, "high"), (35, "medium"), (0, "low"), (-1, "low")],
)
def test_an_urgency_has_a_word(urgency, word):
    assert formatting.severity_of(urgency) == word
