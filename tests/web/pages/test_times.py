"""Every time on a page is one that the switch of the zone can rewrite, and has the name of its zone beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.alerts import PERSON, stolen_session, votes
from tests.support.web_app import Site, store_in

ALERT = stolen_session()
PAGES = (
    f"/alerts/{ALERT.alert_id}",
    f"/alerts/{ALERT.alert_id}/preview",
    f"/alerts/{ALERT.alert_id}/record?event={ALERT.events[0].event_id}",
    f"/incidents/{ALERT.alert_id}",
    "/incidents",
    "/overview",
    "/audit",
    f"/entities/{PERSON}",
    f"/graph?alert={ALERT.alert_id}",
)
# What the script rewrites; what is a record, a command or an id to copy; hours of the week, which the page says are those of UTC.
ANSWERED_FOR = (
    r"<time [^>]*data-show=.*?</time>",
    r"<(\w+) [^>]*data-at=[^>]*>.*?</\1>",
    r"<pre.*?</pre>",
    r"<code.*?</code>",
    r"<(\w+) [^>]*data-copy[^>]*>.*?</\1>",
    r'<svg class="week".*?</svg>',
)
A_TIME = re.compile(r"\b\d\d:\d\d(:\d\d)?\b|\b\d{4}-\d\d-\d\dT")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = store_in(tmp_path_factory.mktemp("times"))
    store.alerts.save([ALERT], votes(ALERT))
    store.cases.add_note(ALERT.alert_id, "seen", "engineer")
    yield Site.of(store)
    store.close()


@pytest.mark.parametrize("path", PAGES)
def test_no_time_of_a_page_is_out_of_reach_of_the_switch(site: Site, path: str) -> None:
    answer = site.browser("engineer").get(path)
    assert answer.status_code == 200
    main = answer.text[answer.text.index("<main") :]
    for known in ANSWERED_FOR:
        main = re.sub(known, "", main, flags=re.DOTALL)
    words = re.sub(r"<[^>]*>", " ", main).replace(ALERT.bank_version, "")
    next_step = re.compile(r"at \d\d:\d\d UTC on \d\d \w+")  # was written when the alert was made
    assert A_TIME.search(next_step.sub("", words)) is None, words


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/overview"])
def test_each_time_with_a_day_has_the_name_of_its_zone_beside_it(site: Site, path: str) -> None:
    main = site.browser("engineer").get(path).text
    shown = re.findall(r'<time [^>]*data-show="(?:stamp|stamp-seconds|day-time)"[^>]*>', main)
    assert shown
    for found in re.finditer(
        r'<time [^>]*data-show="(?:stamp|stamp-seconds|day-time)".*?</time>(.*?)UTC', main, re.DOTALL
    ):
        between = re.sub(r"<time .*?</time>", "", found[1], flags=re.DOTALL)
        assert len(re.sub(r"<[^>]*>", "", between).strip()) <= len("to"), found[0]


def test_the_days_of_the_lead_page_are_said_to_be_those_of_utc(site: Site) -> None:
    assert "Day (UTC)" in site.browser("viewer").get("/overview").text


def test_a_chart_names_the_zone_of_its_times_and_gives_them_to_the_script(site: Site) -> None:
    page = site.browser("viewer").get(f"/alerts/{ALERT.alert_id}").text
    assert 'data-show="tick">' in page
    assert re.search(r"time in <tspan data-zone>UTC</tspan>", page)
    assert re.search(
        r'data-at="2026-03-04T14:00:00Z" data-show="sentence" data-sentence="\{time\}: 34 where 3.1 were expected">'
        r"Wednesday 4 March 14:00 UTC: 34 where",
        page,
    )
