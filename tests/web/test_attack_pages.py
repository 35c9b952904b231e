"""The pages of labelled real attacks say what was done, to what, by which technique, and how to contain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fingerprint.alerting.impact import alert_impact, impact_score
from fingerprint.core.alert import Alert, AlertEvent
from fingerprint.core.settings import Entities
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Suspicion
from fingerprint.sources.entities import add_entity_columns
from fingerprint.web.static_report import render_alert
from tests.support.alerts import stolen_session
from tests.support.web_app import Site, store_in
from tests.web.test_static_report import Page

ATTACKS: dict[str, list[bytes]] = {}
for _technique, _record in SOURCE.known_attacks():
    ATTACKS.setdefault(_technique, []).append(_record)


def attack_alert(at: int, records: list[bytes]) -> Alert:
    """The alert of one labelled attack: its calls, all of them new, with the impact and the next steps of the product."""
    frame = add_entity_columns(SOURCE.flatten(SOURCE.split_lines(records), "pandas").events, Entities())
    texts = frame.astype(object).where(frame.notna(), "")
    fields = (
        "event_id",
        "entity",
        "service",
        "action",
        "region",
        "source_address",
        "user_agent",
        "error_code",
    )
    fields = (*fields, "session", "access_key", "resource")
    events = tuple(
        AlertEvent(
            **{name: str(row[name]) for name in fields},
            event_time=row["event_time"].to_pydatetime(),
            scores={"autoencoder": 9.0},
            raw=records[int(row["row"])].decode(),
        )
        for row in texts.to_dict("records")
    )
    events = tuple(sorted(events, key=lambda event: (event.event_time, event.event_id)))
    actions = alert_impact(events, {f"{event.service}:{event.action}" for event in events}, ())
    principal = str(texts["principal"].iloc[0])
    return replace(
        stolen_session(),
        alert_id=f"a77ac{at:011d}",
        principal=principal,
        human=str(texts["human"].iloc[0]),
        drivers=(),
        curve=None,
        events=events,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        impact=impact_score(actions),
        impact_of=actions,
        next_steps=SOURCE.next_steps(Suspicion(principal, "", events, actions, 90)),
    )


@pytest.fixture(scope="module")
def alerts() -> dict[str, Alert]:
    return {name: attack_alert(at, records) for at, (name, records) in enumerate(ATTACKS.items())}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, alerts: dict[str, Alert]) -> Iterator[Site]:
    store = store_in(tmp_path_factory.mktemp("attacks"))
    store.alerts.save(list(alerts.values()))
    yield Site.of(store)
    store.close()


def test_there_are_twenty_attacks_and_more() -> None:
    assert len(ATTACKS) >= 20


@pytest.mark.parametrize("technique", ATTACKS)
def test_the_page_of_a_real_attack_answers_what_on_what_how_and_what_now(
    site: Site, alerts: dict[str, Alert], technique: str
) -> None:
    alert = alerts[technique]
    page = Page.lenient(site.browser("viewer").get(f"/alerts/{alert.alert_id}").text)
    for text in (page.text, Page(render_alert(alert)).text):
        check_answers(" ".join(text.split()), alert)


def check_answers(said: str, alert: Alert) -> None:
    """Every action, a resource of each that names one, its techniques, failed or not, and a containment command."""
    happened = said[said.index("What happened") : said.index("What is unusual")]
    for event in alert.events:
        assert f"{event.service}:{SOURCE.plain_action(event.action)}" in happened
        for each in SOURCE.techniques_of(event.service, event.action):
            if each.tactic == SOURCE.tactics_of(event.service, event.action)[0]:
                assert each.id in happened
        named = sorted({one.resource for one in alert.events if one.action == event.action} - {""})
        assert not named or any(resource[:45] in happened for resource in named)
        if event.error_code:
            assert event.error_code in happened
    contain = next(step for step in alert.next_steps if step.phase == "contain")
    assert contain.command
    assert " ".join(contain.command.split())[:60] in said
