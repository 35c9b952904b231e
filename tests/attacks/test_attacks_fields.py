"""Whatever an attacker writes into any field of a record: it becomes an event, it is shown, and it steers nothing."""

from __future__ import annotations

import html
import json
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import pytest

from fingerprint.core.alert import Alert
from fingerprint.core.sanitize import printable, storable
from fingerprint.core.settings import Alerts, Autoencoder, Settings, Voting
from fingerprint.web.static_report import render_alert, write_queue_page
from pipelines.cli.console import no_progress
from pipelines.commands.alert_details import show_alert
from pipelines.commands.alerts import list_alerts
from pipelines.train import train_bank
from tests.support import sample_organisation
from tests.support.alerts import nasty, new_pipeline, stolen_session
from tests.support.record_corpus import poisoned

EVERYTHING = Settings(
    autoencoder=Autoencoder(max_epochs=1),
    alerts=Alerts().model_copy(update={"threshold": -1e6}),
    voting=Voting(quorum=1),
)  # every event is news
STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
Record = dict[str, Any]


class Markup(HTMLParser):
    """Elements with the names of their attributes, and where links lead by their scheme."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(tag, name) for name, _ in attrs if name != "class"} | {(tag, "")}
        self.found |= {
            (tag, urlsplit(value or "").scheme) for name, value in attrs if name in ("href", "src")
        }


def pages_of_the_queue(folder: Path) -> str:
    return write_queue_page([stolen_session(), new_pipeline()], folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hostile(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Record], sample_organisation.Run]:
    """Learned from and scored: the bank knows them as habits, the scorer flags all of them."""
    folder = tmp_path_factory.mktemp("hostile")
    first = json.loads(sample_organisation.lines_of(organisation.new[:1])[0])
    person = next(
        record
        for line in sample_organisation.lines_of(organisation.new)
        if "sessionIssuer" in (record := json.loads(line))["userIdentity"].get("sessionContext", {})
    )
    records = poisoned(first) + [{**each, "eventID": f"p{each['eventID']}"} for each in poisoned(person)]
    source = sample_organisation.write(folder / "in.jsonl", records)
    train_bank([str(source)], folder / "bank", EVERYTHING, no_progress, allow_immature=True)
    return records, sample_organisation.run(
        [source], folder / "bank", folder, EVERYTHING, name="events.jsonl"
    )


@pytest.fixture(scope="module")
def queue(hostile: tuple[list[Record], sample_organisation.Run]) -> list[Alert]:
    return hostile[1].alerts


def test_nothing_an_attacker_writes_hides_his_record(
    hostile: tuple[list[Record], sample_organisation.Run],
) -> None:
    records, run = hostile
    assert run.figures["reasons"] == []
    assert run.figures["events"] == run.figures["records"] == len(records)
    assert run.events["event_id"].nunique() == len(records)
    assert run.events["verdict"].all()


def test_every_hostile_event_is_on_an_alert(
    hostile: tuple[list[Record], sample_organisation.Run], queue: list[Alert]
) -> None:
    shown = [event for alert in queue for event in alert.event_ids]
    assert len(shown) == len(set(shown)) == len(hostile[0])


def test_json_lines_of_hostile_events_are_json_and_ascii(
    hostile: tuple[list[Record], sample_organisation.Run],
) -> None:
    lines = hostile[1].out.read_bytes().splitlines()
    assert len(lines) == len(hostile[0])
    for line in lines:
        assert line.isascii()
        assert set(json.loads(line)) >= {"event_id", "principal", "entity", "verdict", "alert_id"}


def test_hostile_events_can_be_written_as_parquet(
    hostile: tuple[list[Record], sample_organisation.Run], tmp_path: Path
) -> None:
    folder = hostile[1].out.parent
    run = sample_organisation.run([folder / "in.jsonl"], folder / "bank", tmp_path, EVERYTHING)
    assert len(pd.read_parquet(run.out)) == len(hostile[0])


@pytest.mark.parametrize("as_json", [False, True])
def test_no_record_steers_the_terminal_of_anyone_who_reads_the_queue(
    hostile: tuple[list[Record], sample_organisation.Run],
    queue: list[Alert],
    as_json: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:///{hostile[1].out.parent}/alerts.sqlite"
    list_alerts(url, "json" if as_json else "table")
    for alert in queue:
        show_alert(url, alert.alert_id, json=as_json)
    printed = capsys.readouterr().out
    assert {each for each in set(printed) if unicodedata.category(each) in STEERING} <= {"\n"}
    assert "evil" in printed


def test_no_record_becomes_markup_on_a_page(queue: list[Alert], tmp_path: Path) -> None:
    write_queue_page(queue, tmp_path)
    pages = [file.read_text(encoding="utf-8") for file in tmp_path.glob("*.html")]
    assert len(pages) == len(queue) + 1
    harmless = Markup()
    long = render_alert(nasty("a" * 5000), "index.html")
    for page in (
        render_alert(stolen_session(), "index.html"),
        long,
        pages_of_the_queue(tmp_path / "harmless"),
    ):
        harmless.feed(page)
    for page in pages:
        markup = Markup()
        markup.feed(page)
        assert markup.found <= harmless.found
        assert {each for each in set(page) if unicodedata.category(each) in STEERING} <= {"\n", "\t"}
    assert any(html.escape("<script>alert(1)</script>") in page for page in pages)


def test_a_user_agent_with_half_a_character_or_a_nul_is_shown(queue: list[Alert]) -> None:
    agents = {event.user_agent for alert in queue for event in alert.events}
    for text in ("lone \ud800 surrogate \udfff", "nul\x00byte"):
        assert storable(text) in agents
    assert printable("\x1b[2J") == "\\x1b[2J"


def test_no_name_can_be_made_that_is_another_principal(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    """Names with the separators of keys: each of these is someone else, whatever account, role or session it names."""
    base = json.loads(sample_organisation.lines_of(organisation.new[:1])[0])

    def role(account: str, name: str, session: str) -> Record:
        issuer = {
            "type": "Role",
            "arn": f"arn:aws:iam::{account}:role/{name}",
            "accountId": account,
            "userName": name,
        }
        arn = f"arn:aws:sts::{account}:assumed-role/{name}/{session}"
        context = {"sessionIssuer": issuer}
        return {"type": "AssumedRole", "arn": arn, "accountId": account, "sessionContext": context}

    def user(account: str, name: str) -> Record:
        return {"type": "IAMUser", "accountId": account, "userName": name}

    identities = [
        user("123456789012", "ada"),
        user("123456789012", "ada|s3|direct"),
        user("123456789012", "ada%7Cs3%7Cdirect"),
        user("123456789012:user/ada", ""),
        user("123456789012", "user/ada"),
        user("", "123456789012:user/ada"),
        user("123456789012", "../ada"),
        role("123456789012", "AWSReservedSSO_Admin_0123456789abcdef", "ada"),
        role("123456789012", "AWSReservedSSO_Admin_0123456789abcdef", "ada/x"),
        role("123456789012", "AWSReservedSSO_Admin_0123456789abcdef", "ada|s3|direct"),
        role("123456789012", "AWSReservedSSO_Admin_0123456789abcdef/ada", "x"),
        {"type": "Directory", "principalId": "AIDA|role/x", "accountId": "123456789012"},
    ]
    rows = [{**base, "eventID": f"{number}", "userIdentity": who} for number, who in enumerate(identities)]
    run = sample_organisation.run(
        [sample_organisation.write(tmp_path / "in.jsonl", rows)], organisation.bank, tmp_path
    )
    assert run.events["principal"].nunique() == len(identities), sorted(run.events["principal"])
    assert (run.events["entity"].str.count(r"\|") == 2).all()
