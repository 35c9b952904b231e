"""An attacker chooses user agents, session names and errors; careless engineers suppress by them. The attacks are seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fingerprint.core.alert import Alert
from fingerprint.core.case import AlertFilter, SuppressionMatch
from fingerprint.core.errors import FingerprintError
from fingerprint.store import SqlStore, open_store
from tests.support import sample_organisation
from tests.support.alerts import ACCOUNT, new_pipeline, stolen_session

TOMORROW = datetime.now(UTC) + timedelta(days=1)
ANYWHERE = "0.0.0.0/0"


def careless(alerts: list[Alert]) -> list[SuppressionMatch]:
    """Suppressions that rest on what the attacker of these alerts wrote, as someone in a hurry types them."""
    events = [event for alert in alerts for event in alert.events]
    agents = {event.user_agent for event in events}
    return [
        SuppressionMatch(user_agent="B"),
        SuppressionMatch(user_agent="aws-cli/"),
        SuppressionMatch(human="pentest.team@example.com"),
        *(SuppressionMatch(human=alert.human) for alert in alerts if alert.human),
        *(SuppressionMatch(user_agent=agent) for agent in agents),
        *(
            SuppressionMatch(user_agent=agent, service=event.service)
            for agent in agents
            for event in events[:3]
        ),
        *(
            SuppressionMatch(user_agent=agent, account=alerts[0].principal[:12], network=ANYWHERE)
            for agent in agents
        ),
        *(SuppressionMatch(error_code=code) for code in {event.error_code for event in events} - {""}),
    ]


def seen(store: SqlStore) -> dict[str, int]:
    return {row.alert_id: row.events for row in store.queue.page(AlertFilter(status="all")).rows}


@pytest.fixture(scope="module")
def watched(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[sample_organisation.Run, int]:
    """The same days scored onto an alert store where all of that was tried before; and how much of it was taken."""
    folder, taken = tmp_path_factory.mktemp("careless"), 0
    store = open_store(f"sqlite:///{folder}/alerts.sqlite")
    for match in careless(scored.alerts):
        try:
            store.suppressions.create(match, "noise", TOMORROW, by="maria")
            taken += 1
        except FingerprintError:
            pass
    store.close()
    return sample_organisation.run(organisation.new, organisation.bank, folder), taken


def test_the_spliced_attacks_raise_the_same_alerts_whatever_careless_suppressions_someone_tried(
    scored: sample_organisation.Run, watched: tuple[sample_organisation.Run, int]
) -> None:
    run, taken = watched
    assert len(scored.alerts) == 5
    assert seen(run.store) == seen(scored.store)
    assert taken == 0
    assert {name: run.figures[name] for name in ("events", "verdicts", "alerts")} == {
        name: scored.figures[name] for name in ("events", "verdicts", "alerts")
    }


def test_an_attacker_who_writes_the_user_agent_and_session_name_of_what_is_suppressed_is_seen(
    tmp_path: Path,
) -> None:
    store, quiet = (
        open_store(f"sqlite:///{tmp_path}/alerts.sqlite"),
        new_pipeline(human="build.agent@example.com"),
    )
    agent = quiet.events[0].user_agent
    for match in (
        SuppressionMatch(principal=quiet.principal, human=quiet.human, user_agent=agent),
        SuppressionMatch(account=ACCOUNT, network="10.3.0.0/16", user_agent=agent),
    ):
        store.suppressions.create(match, "the new pipeline", TOMORROW, by="maria")
    thief = replace(
        stolen_session(urgency=60),
        human=quiet.human,
        events=tuple(replace(each, user_agent=agent) for each in stolen_session().events),
    )
    store.alerts.save([quiet, thief])
    assert list(seen(store)) == [thief.alert_id]


def test_a_thief_of_the_very_principal_that_is_suppressed_is_seen_when_it_becomes_critical_or_other(
    tmp_path: Path,
) -> None:
    store, quiet = open_store(f"sqlite:///{tmp_path}/alerts.sqlite"), new_pipeline()
    store.suppressions.create(
        SuppressionMatch(principal=quiet.principal), "the new pipeline", TOMORROW, by="maria"
    )
    store.suppressions.create(SuppressionMatch(service="ecs"), "the move to ECS", TOMORROW, by="maria")
    store.alerts.save(
        [quiet, new_pipeline(alert_id="worse", urgency=75), new_pipeline(alert_id="like it", urgency=74)]
    )
    assert list(seen(store)) == ["worse"]
    elsewhere = replace(stolen_session().events[0], event_id="0" * 32)
    store.alerts.save(
        [
            replace(
                new_pipeline(alert_id="other", principal=f"{ACCOUNT}:role/x"),
                events=(*quiet.events, elsewhere),
            )
        ]
    )
    assert set(seen(store)) == {"worse", "other"}
