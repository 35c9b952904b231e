"""The words of an alert's page: labels that an analyst understands, action names without API versions, no untrue figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fingerprint.alerting.title_facts import TitleFacts
from fingerprint.alerting.titles import build_title
from fingerprint.core.alert import MOVE_FEATURE, Alert, SurpriseDriver
from fingerprint.core.case import MAX_THRESHOLD
from fingerprint.core.sanitize import printable
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE
from fingerprint.estimators.openers import OPENER_FEATURE
from fingerprint.features.encoding import FEATURES
from fingerprint.sources.active import SOURCE
from fingerprint.web.alert_story import shown_scores
from fingerprint.web.formatting import FEATURE_LABELS, feature_label, format_duration, plain_actions
from fingerprint.web.language import using_language
from fingerprint.web.static_report import render_alert
from tests.support.alerts import NASTY, START, event, stolen_session, supporting_event
from tests.support.web_app import Site, store_in
from tests.web.test_static_report import Page, check_harmless

RAW = "UpdateFunctionCode20150331v2"
DRIVERS = (
    SurpriseDriver("action", f"lambda:{RAW}", "lambda:GetPolicy20150331v2, s3:GetObject", "unseen", 9.4),
    SurpriseDriver("next action", f"lambda:{RAW} after s3:GetObject", "nothing yet", "unseen", 9.0),
    SurpriseDriver("resource", "bucket:Backup20240101", "(none)", "unseen", 2.7),
    SurpriseDriver("resource", f"lambda:{RAW} on function:Sync20240101", "(none)", "unseen", 2.6),
    SurpriseDriver(
        "amount", f"9 calls of lambda:{RAW} in an hour", "at most 2 in the history", "unseen", 33.0
    ),
)


def alert_of() -> Alert:
    made = stolen_session(
        title="changed a function",
        drivers=DRIVERS,
        events=(event(2, "lambda", RAW),),
        curve=None,
        impact_of=(replace(stolen_session().impact_of[0], action=f"lambda:{RAW}"),),
    )
    return replace(made, last_event_time=made.first_event_time)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = store_in(tmp_path_factory.mktemp("words"))
    store.alerts.save([alert_of()])
    yield Site.of(store)
    store.close()


@pytest.fixture(scope="module")
def page(site: Site) -> str:
    return site.browser("viewer").get(f"/alerts/{alert_of().alert_id}").text


def test_every_feature_of_the_product_has_a_label_for_analysts() -> None:
    labels = {each.label for each in FEATURES} | {"next action", "amount"}
    labels |= {OPENER_FEATURE, CALL_PATH_FEATURE, MOVE_FEATURE}
    assert labels == set(FEATURE_LABELS)
    assert feature_label("from another detector") == "from another detector"


def test_what_is_unusual_has_the_labels_and_says_how_rare_it_is(page: str) -> None:
    unusual = " ".join(Page.lenient(page[page.index('id="unusual"') :]).text.split())
    for label in ("Action", "Order of actions", "Resource", "Number of calls"):
        assert f"{label} 1 event" in unusual
    assert "about 1 in over a million of what is usual" in unusual
    assert "at most 10 a value" not in unusual
    assert "nats" not in unusual


def test_the_gravest_action_stands_without_its_api_version(site: Site) -> None:
    browser = site.browser("viewer")
    assert ': lambda:UpdateFunctionCode"' in browser.get("/").text
    assert (
        "<bdi>lambda:UpdateFunctionCode</bdi>" in browser.get(f"/alerts/{alert_of().alert_id}/preview").text
    )


def test_actions_stand_without_their_api_version_and_the_record_keeps_it(page: str) -> None:
    happened = Page.lenient(page[page.index('id="happened"') : page.index('id="unusual"')]).text
    assert "lambda:UpdateFunctionCode" in happened
    assert "20150331" not in happened
    unusual = Page.lenient(page[page.index('id="unusual"') : page.index('id="next"')]).text
    assert "lambda:UpdateFunctionCode after s3:GetObject" in " ".join(unusual.split())
    assert "lambda:GetPolicy, s3:GetObject" in unusual
    assert "bucket:Backup20240101" in unusual  # a name that a person chose
    assert "lambda:UpdateFunctionCode on function:Sync20240101" in unusual
    assert "9 calls of lambda:UpdateFunctionCode in an hour" in unusual
    assert f'title="{RAW}"' in page
    assert f"lambda: {RAW}" in Page.lenient(page[page.index('class="timeline"') :]).text


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("CreateFunction20150331", "CreateFunction"),
        (f"lambda:{RAW}", "lambda:UpdateFunctionCode"),
        ("cloudfront:CreateDistribution2020_05_31", "cloudfront:CreateDistribution"),
        ("s3:GetObject", "s3:GetObject"),
        ("ec2:Describe2015", "ec2:Describe2015"),
    ],
)
def test_the_plain_name_of_an_action(raw: str, plain: str) -> None:
    assert SOURCE.plain_action(raw) == plain
    assert plain_actions(f"{raw}(names) after {raw}") == f"{plain}(names) after {plain}"


def test_a_title_has_the_plain_name() -> None:
    facts = TitleFacts((event(0, "lambda", RAW),), (), (), (f"lambda:{RAW}",), (f"lambda:{RAW}",))
    assert "called lambda:UpdateFunctionCode, new to it," in build_title("1:user/ana", facts)


def test_one_event_has_no_duration_and_several_of_one_second_have_one(page: str) -> None:
    lead = " ".join(Page.lenient(page[page.index('class="when"') :]).text.split())
    assert "1 event, 4 March 2026, 14:02:00 UTC" in lead
    assert format_duration(START, START) == "less than a second"


def test_a_score_without_its_threshold_says_so() -> None:
    [score] = shown_scores(event(0, "s3", "GetObject", scores={"autoencoder": 7.2}, thresholds={}))
    assert (score.words, score.figures) == ("score 7.2", "its threshold is not kept")


def test_the_detectors_that_flagged_an_event_come_first_with_what_they_were_compared_with() -> None:
    """A second vote is compared with a lower threshold, and has no row among the kept votes."""
    scores = shown_scores(
        event(
            0,
            "s3",
            "GetObject",
            scores={"spectral": 1.2, "autoencoder": 4.1, "sequence": 1.5, "forest": None},
            flagged_by=("autoencoder", "spectral"),
            thresholds={"autoencoder": 1.4, "spectral": 0.84, "sequence": 1.6},
        )
    )
    assert [(score.label, score.flagged, score.words) for score in scores] == [
        ("Autoencoder", True, "well above the threshold"),
        ("Spectral", True, "above the threshold"),
        ("Sequence", False, "below the threshold"),
    ]
    assert scores[1].figures == "score 1.2, threshold 0.8"


@pytest.mark.parametrize("z", [-0.4, 2.0])
def test_a_vote_by_a_threshold_below_zero_is_a_vote_like_any_other(z: float) -> None:
    """Alerts of earlier versions have some, and a ratio to such a threshold has no meaning."""
    both = {"autoencoder": 4.1, "sequence": z}
    old = event(0, "s3", "GetObject", scores=both, flagged_by=tuple(both))
    old = replace(old, thresholds={"autoencoder": 1.4, "sequence": -0.524})
    _, score = shown_scores(old)
    assert score.flagged
    assert (score.figure, score.words) == (f"{z}", "above the threshold")
    assert score.figures == f"score {z}, threshold -0.5"


def test_a_row_of_the_timeline_names_the_detectors_that_flagged_it() -> None:
    both = event(0, "s3", "GetObject", scores={"autoencoder": 141.0, "spectral": 8.0})
    one = event(1, "s3", "PutObject", flagged_by=("spectral",))
    page = render_alert(stolen_session(events=(both, one), supporting_events=()))
    rows = [
        " ".join(Page.lenient(row.partition("</span>\n</summary>")[0]).text.split())
        for row in page.split('<span class="score note">')[1:]
    ]
    assert rows == [f"Autoencoder > {MAX_THRESHOLD:g}, Spectral 8.0", "Spectral 8.0"]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_what_supports_an_alert_is_text(text: str) -> None:
    event_of = replace(supporting_event(1), action=text, resource=text, source_address=text, user_agent=text)
    check_harmless(render_alert(stolen_session(supporting_events=(event_of,))))


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_label_or_an_action_of_an_attacker_is_text(text: str) -> None:
    drivers = tuple(SurpriseDriver(name, text, text, "unseen", 9.0) for name in ("action", "resource", text))
    shown = check_harmless(render_alert(stolen_session(drivers=drivers)))
    assert shown.text.count(printable(text)) >= len(drivers)


@pytest.mark.parametrize(
    ("code", "whole", "single"), [("en", "in all services", "in s3"), ("de", "in allen Diensten", "in s3")]
)
def test_the_fingerprint_that_was_asked_stands_in_the_case_that_its_language_asks(
    code: str, whole: str, single: str
) -> None:
    """ "in alle Dienste" is a direction."""
    made = stolen_session()
    of = (made.principal, f"{made.principal}|s3|direct")
    drivers = tuple(replace(DRIVERS[0], fingerprint=key) for key in of)
    with using_language(code):
        text = " ".join(Page.lenient(render_alert(replace(made, drivers=drivers))).text.split())
    assert whole in text
    assert single in text
