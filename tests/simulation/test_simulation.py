"""The simulator writes CloudTrail as AWS writes it, and nothing in a record's form betrays an attack."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fingerprint.adapters import files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Entities, Reading
from fingerprint.evaluation.leakage_check import measure_leakage
from fingerprint.simulation import attacks
from fingerprint.simulation.attack_scripts import COVER
from fingerprint.simulation.benign_anomalies import ANOMALY_PLANNERS
from fingerprint.simulation.identifiers import IdentifierPools
from fingerprint.simulation.job_tasks import Tool
from fingerprint.simulation.machines import Machine
from fingerprint.simulation.organisation import Organisation
from fingerprint.simulation.record_files import SimulationSummary
from fingerprint.simulation.record_templates import template_from_record
from fingerprint.simulation.staff import Staff, create_staff
from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import flatten
from pipelines.simulate import DEFAULT_START, first_day, simulate_organisation

Record = dict[str, Any]
TOOLS: tuple[Tool, ...] = ("cli", "sdk", "terraform")


def read(folder: Path) -> list[tuple[str, Record]]:
    """(day of the file, record) in the order of delivery."""
    found = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rb") as lines:
            found += [(path.name[:10], json.loads(line)) for line in lines]
    return found


def labels(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]


def firm(principals: int, seed: int = 11) -> tuple[Organisation, Staff]:
    organisation = Organisation.create(seed, DEFAULT_START, 28)
    return organisation, create_staff(organisation, principals)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimulationSummary:
    return simulate_organisation(
        principals=40, days=14, seed=3, out=tmp_path_factory.mktemp("made"), attacks=20
    )


@pytest.fixture(scope="module")
def delivered(made: SimulationSummary) -> list[tuple[str, Record]]:
    return read(made.folder)


@pytest.fixture(scope="module")
def records(delivered: list[tuple[str, Record]]) -> list[Record]:
    return list({record["eventID"]: record for _, record in delivered}.values())


def test_a_file_a_day_and_every_line_is_a_record(
    made: SimulationSummary, delivered: list[tuple[str, Record]]
) -> None:
    days = Counter(day for day, _ in delivered)
    assert min(days) == "2026-01-05"
    assert len(days) == 14
    assert made.records == len(delivered)
    needed = {"eventVersion", "userIdentity", "eventTime", "eventSource", "eventName", "awsRegion", "eventID"}
    assert all(needed <= record.keys() for _, record in delivered)


def test_the_same_seed_writes_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        simulate_organisation(principals=10, days=2, seed=seed, out=tmp_path / name, attacks=1)
    files = {
        name: [p.read_bytes() for p in sorted((tmp_path / name).iterdir())]
        for name in ("one", "two", "three")
    }
    assert files["one"] == files["two"]
    assert files["one"] != files["three"]


def test_attacks_are_added_to_an_organisation_and_change_nothing_else_in_it(tmp_path: Path) -> None:
    simulate_organisation(principals=10, days=2, seed=5, out=tmp_path / "without")
    simulate_organisation(principals=10, days=2, seed=5, out=tmp_path / "with", attacks=2)
    guilty = {label["event_id"] for label in labels(tmp_path / "with")}

    def deeds(folder: Path) -> Counter[str]:
        once = {r["eventID"]: r for _, r in read(folder) if r["eventID"] not in guilty}
        return Counter(
            json.dumps([r[k] for k in ("userIdentity", "eventTime", "eventName")]) for r in once.values()
        )

    assert deeds(tmp_path / "without") == deeds(tmp_path / "with")


def test_records_come_late_out_of_order_and_some_twice(
    delivered: list[tuple[str, Record]], made: SimulationSummary
) -> None:
    seen, newest, older, neighbours = {}, "", 0, 0
    for day, record in delivered:
        older += record["eventTime"] < newest
        newest = max(newest, record["eventTime"])
        first = seen.setdefault(record["eventID"], (day, record))
        assert first[1] == record
        neighbours += first[0] != day
    assert 0.6 < older / len(delivered) < 0.9
    assert len(delivered) - len(seen) == made.repeats
    assert 0.01 < made.repeats / len(delivered) < 0.04
    assert neighbours > 0
    late_evenings = [r for day, r in delivered if r["eventTime"][:10] < day]
    assert late_evenings
    assert all(r["eventTime"][11:13] in ("22", "23", "21", "20", "19") for r in late_evenings)


def test_people_keep_office_hours_and_weekends_and_schedules_do_not_care(records: list[Record]) -> None:
    people = [r for r in records if "AWSReservedSSO" in r["userIdentity"].get("arn", "")]
    weekend = sum(datetime.fromisoformat(r["eventTime"]).weekday() > 4 for r in people)
    assert weekend / len(people) < 0.1
    nightly = Counter(
        r["eventTime"][:10] for r in records if "nightly-job" in r["userIdentity"].get("arn", "")
    )
    assert len(nightly) == 14


def test_the_ways_to_be_someone_are_all_there(records: list[Record]) -> None:
    kinds = {record["userIdentity"].get("type") for record in records}
    assert {"AssumedRole", "IAMUser", "Root", "AWSService", "AWSAccount", "WebIdentityUser", None} <= kinds
    assert all(
        set(r["userIdentity"]) == {"type", "invokedBy"}
        for r in records
        if r["userIdentity"].get("type") == "AWSService"
    )


def test_no_one_calls_with_a_session_that_does_not_exist_yet(records: list[Record]) -> None:
    for record in records:
        context = record["userIdentity"].get("sessionContext")
        if context:
            assert context["attributes"]["creationDate"] <= record["eventTime"], record


def test_people_now_and_then_call_what_they_never_called_before(records: list[Record]) -> None:
    known: dict[str, set[str]] = defaultdict(set)
    news = total = 0
    for record in sorted(records, key=lambda r: r["eventTime"]):
        who = record["userIdentity"].get("arn", "")
        if "AWSReservedSSO" not in who:
            continue
        if record["eventTime"] >= "2026-01-15":
            total += 1
            news += record["eventName"] not in known[who]
        known[who].add(record["eventName"])
    assert 0.01 < news / total < 0.15


def test_attacks_come_in_the_last_quarter_one_a_victim_in_the_strengths_asked_for(
    made: SimulationSummary, records: list[Record]
) -> None:
    when = {record["eventID"]: record["eventTime"] for record in records}
    sessions: dict[str, list[dict[str, str]]] = defaultdict(list)
    for label in labels(made.folder):
        sessions[label["session"]].append(label)
    assert len(sessions) == 20
    assert made.attacks == {"session": 5, "quiet": 5, "smash": 5, "mimic": 5}
    assert len({rows[0]["principal"] for rows in sessions.values()}) == 20
    bounds = {"session": (20, 100), "quiet": (1, 10), "smash": (200, 600), "mimic": (3, 40)}
    for rows in sessions.values():
        least, most = bounds[rows[0]["strength"]]
        assert least <= len(rows) <= most
        assert min(when[row["event_id"]] for row in rows) >= "2026-01-15"


def test_a_thief_comes_from_elsewhere_and_a_mimic_from_where_the_victim_is(
    made: SimulationSummary, records: list[Record]
) -> None:
    strength = {label["event_id"]: label["strength"] for label in labels(made.folder)}
    by_id = {record["eventID"]: record for record in records}
    used = {
        (r["userIdentity"].get("arn"), r["sourceIPAddress"]) for r in records if r["eventID"] not in strength
    }
    known: dict[str, list[bool]] = defaultdict(list)
    for event_id, how in strength.items():
        record = by_id[event_id]
        known["mimic" if how == "mimic" else "thief"].append(
            (record["userIdentity"]["arn"], record["sourceIPAddress"]) in used
        )
    assert np.mean(known["thief"]) < 0.1
    assert np.mean(known["mimic"]) > 0.8


def test_some_thieves_come_over_a_colleagues_network_with_a_colleagues_tools() -> None:
    organisation, staff = firm(120)
    plans = attacks.plan_attacks(organisation, staff, 60, ("session", "quiet"))
    near = {person.address(plan.day, half) for plan in plans for person in staff.people for half in (0, 1)}
    tools = {
        person.user_agent(tool, plan.day).text for plan in plans for person in staff.people for tool in TOOLS
    }
    assert 0.05 < np.mean([plan.session.address in near for plan in plans]) < 0.3
    assert 0.1 < np.mean([plan.session.user_agent.text in tools for plan in plans]) < 0.7


def test_each_strength_meets_people_users_with_keys_and_machine_roles() -> None:
    met: dict[str, set[str]] = defaultdict(set)
    for plan in attacks.plan_attacks(*firm(120), 12):
        kind = "machine" if isinstance(plan.victim, Machine) else plan.victim.kind
        met[plan.strength].add(kind.replace("saml", "sso"))
    assert all(kinds == {"sso", "user", "machine"} for kinds in met.values())


def test_quiet_attacks_are_of_all_sizes_and_three_in_ten_have_at_most_three_calls() -> None:
    sizes = [len(plan.script.forms) for plan in attacks.plan_attacks(*firm(120), 40, ("quiet",))]
    assert set(sizes) == set(range(1, 11))
    assert 0.25 <= np.mean([size <= 3 for size in sizes]) <= 0.35


def test_most_of_what_a_mimic_does_is_what_the_victim_does(
    made: SimulationSummary, records: list[Record]
) -> None:
    deeds: dict[str, set[str]] = defaultdict(set)
    guilty = {label["event_id"]: label for label in labels(made.folder)}
    for record in records:
        if record["eventID"] not in guilty:
            deeds[record["userIdentity"].get("arn", "")].add(record["eventName"])
    mine: dict[str, list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record["eventTime"]):
        if guilty.get(record["eventID"], {}).get("strength") == "mimic":
            mine[guilty[record["eventID"]]["session"]].append(record)
    cover = {event_id for event_id, label in guilty.items() if label["technique"] == COVER}
    assert len(mine) == 5
    for some in mine.values():
        covered = [record["eventID"] in cover for record in some]
        assert 0.5 < np.mean(covered) < 0.9
        usual = [r["eventName"] in deeds[r["userIdentity"]["arn"]] for r in some if r["eventID"] in cover]
        assert np.mean(usual) > 0.6
    first_and_last = [some[end]["eventID"] in cover for some in mine.values() for end in (0, -1)]
    assert np.mean(first_and_last) > 0, "the victim's calls lie between and around the intruder's"


def test_nothing_of_the_laboratory_is_left_in_the_records(made: SimulationSummary) -> None:
    for path in made.folder.glob("*.jsonl.gz"):
        text = gzip.decompress(path.read_bytes()).lower()
        for word in (b"stratus", b"malicious", b"bert-jan", b"invictus", b"123837392027"):
            assert word not in text


def test_surprises_are_told_apart_from_attacks(made: SimulationSummary) -> None:
    rows = [json.loads(line) for line in (made.folder / "labels.surprises.jsonl").read_text().splitlines()]
    assert {"new_hire", "outage", "tool_upgrade", "release_day", "role_change"} <= {
        row["surprise"] for row in rows
    }
    assert all("2026-01-11" < row["from"] <= row["to"] for row in rows)
    assert {row["surprise"] for row in rows} == set(ANOMALY_PLANNERS)


def test_labels_name_principals_as_the_product_does(made: SimulationSummary) -> None:
    told = (made.folder / "labels.surprises.jsonl").read_text().splitlines()
    keys = {json.loads(line)["key"] for line in told} | {label["key"] for label in labels(made.folder)}
    known: set[str] = set()
    second_week = [str(path) for path in sorted(made.folder.glob("*.jsonl.gz"))[7:]]
    for records in files.read_sources(second_week, Reading()):
        events = add_entity_columns(flatten(records).events, Entities())
        known |= set(events["principal"])
    assert keys - {"*"} <= known


def test_a_new_hire_calls_nothing_before_the_first_day_and_something_on_it(
    made: SimulationSummary, records: list[Record]
) -> None:
    rows = [json.loads(line) for line in (made.folder / "labels.surprises.jsonl").read_text().splitlines()]
    hires = {row["principal"]: row["from"] for row in rows if row["surprise"] == "new_hire"}
    assert hires
    for arn, first in hires.items():
        days = {r["eventTime"][:10] for r in records if r["userIdentity"].get("arn") == arn}
        assert min(days) == first


def test_an_upgrade_brings_many_people_to_versions_that_no_one_had(
    made: SimulationSummary, records: list[Record]
) -> None:
    rows = [json.loads(line) for line in (made.folder / "labels.surprises.jsonl").read_text().splitlines()]
    first = next(row["from"] for row in rows if row["surprise"] == "tool_upgrade")
    people = [r for r in records if "AWSReservedSSO" in r["userIdentity"].get("arn", "")]
    agents = [(r["eventTime"][:10], r["userAgent"].split()[0], r["userIdentity"]["arn"]) for r in people]
    before = {tool for day, tool, _ in agents if day < first and tool.startswith(("aws-cli", "Boto3"))}
    new = [(tool, who) for day, tool, who in agents if day >= first and tool.startswith(("aws-cli", "Boto3"))]
    shared = Counter(tool for tool, _ in {pair for pair in new if pair[0] not in before})
    assert max(shared.values()) >= 4


def test_the_month_ends_for_a_person_and_for_a_machine(made: SimulationSummary) -> None:
    rows = [json.loads(line) for line in (made.folder / "labels.surprises.jsonl").read_text().splitlines()]
    kinds = {":role/" in row["principal"] for row in rows if row["surprise"] == "month_end"}
    assert kinds == {True, False}


def test_an_outage_fails_the_calls_of_its_service(records: list[Record]) -> None:
    failed = [r for r in records if r.get("errorCode") in ("ServiceUnavailable", "Server.Unavailable")]
    assert len(failed) > 100
    assert len({record["eventSource"] for record in failed}) == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"principals": 0}, "principals"),
        ({"days": 0}, "days"),
        ({"attacks": 99}, "victims"),
        ({"surprises": ("party",)}, "party"),
        ({"scale": 0.0}, "scale"),
    ],
)
def test_an_impossible_wish_is_refused_in_one_sentence(
    tmp_path: Path, arguments: dict[str, Any], word: str
) -> None:
    with pytest.raises(FingerprintError, match=word):
        simulate_organisation(**({"principals": 5, "days": 1, "seed": 1, "out": tmp_path} | arguments))


def test_a_real_record_can_be_written_again_from_its_form() -> None:
    """Plain fake: filling a form's places with what was taken out gives the real parameters back in shape."""
    pools = IdentifierPools("test")
    fixed = {
        "account": "111122223333",
        "region": "eu-west-1",
        "caller": "arn",
        "when": "Jan 5, 2026 9:00:00 AM",
        "iso": "2026-01-05T09:00:00",
    }
    checked = 0
    for record in list(samples.sample_records("real/invictus_stratus"))[::7]:
        form = template_from_record(record)
        values = [fixed.get(kind) or pools[kind][which & 255] for kind, which in form.placeholders]
        body = json.loads("{" + (form.body % tuple(values[: form.split]))[1:] + "}")
        for part in ("requestParameters", "responseElements"):
            assert _shape(body[part]) == _shape(record[part])
        checked += 1
    assert checked > 300


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else type(value).__name__


def lines_of(made: SimulationSummary, since: str = "2026-01-15") -> Iterator[bytes]:
    """The records of the judged days."""
    for path in sorted(made.folder.glob("*.jsonl.gz")):
        if path.name >= since:
            with gzip.open(path, "rb") as lines:
                yield from lines


def test_the_form_of_a_record_does_not_betray_an_attack(made: SimulationSummary) -> None:
    said = measure_leakage(lines_of(made), {label["event_id"] for label in labels(made.folder)})
    assert said["auc"] == pytest.approx(0.5, abs=0.06)
    assert said["attack_rows"] > 200  # at most forty of one action and outcome are drawn
    assert said["benign_rows"] > 2 * said["attack_rows"]


def test_a_mimic_is_not_betrayed_by_the_form_of_the_victims_own_calls(made: SimulationSummary) -> None:
    cover = {label["event_id"] for label in labels(made.folder) if label["technique"] == COVER}
    said = measure_leakage(lines_of(made), cover)
    assert said["auc"] == pytest.approx(0.5, abs=0.15)
    assert said["attack_rows"] > 20


def test_a_parameter_that_only_attackers_use_is_noticed(made: SimulationSummary) -> None:
    guilty = {label["event_id"].encode() for label in labels(made.folder)}

    def marked() -> Iterator[bytes]:
        for line in lines_of(made):
            theirs = line.partition(b'"eventID":"')[2][:36] in guilty
            yield line.replace(b'{"eventVersion"', b'{"stratus":1,"eventVersion"', 1) if theirs else line

    assert measure_leakage(marked(), {name.decode() for name in guilty})["auc"] == 1.0


def test_without_an_attack_there_is_nothing_to_compare(made: SimulationSummary) -> None:
    said = measure_leakage(islice(lines_of(made), 1000), set())
    assert said == {"auc": None, "attack_rows": 0, "benign_rows": 0, "actions": 0}


def test_events_are_in_the_time_that_was_asked_for(records: list[Record]) -> None:
    times = [datetime.fromisoformat(record["eventTime"]) for record in records]
    assert min(times) >= datetime(2026, 1, 5, tzinfo=UTC)
    assert max(times) < datetime(2026, 1, 21, tzinfo=UTC)


def test_an_organisation_that_ends_at_a_midnight_has_no_record_after_it(tmp_path: Path) -> None:
    start = first_day("2026-03-18", 2, today=date(2030, 1, 1))
    simulate_organisation(12, 2, 58, tmp_path / "open", 8, start=start)
    sharp = simulate_organisation(12, 2, 58, tmp_path / "sharp", 8, start=start, sharp=True)
    whole, cut = read(tmp_path / "open"), read(tmp_path / "sharp")
    midnight = "2026-03-18T00:00:00Z"
    assert max(day for day, _ in cut) == "2026-03-17"
    assert cut == [(day, record) for day, record in whole if record["eventTime"] < midnight]
    there = {record["eventID"] for _, record in cut}
    assert len(labels(tmp_path / "sharp")) < len(labels(tmp_path / "open"))  # a thief works past midnight
    assert labels(tmp_path / "sharp") == [
        row for row in labels(tmp_path / "open") if row["event_id"] in there
    ]
    assert (sharp.records, sharp.attack_events) == (len(cut), len(labels(tmp_path / "sharp")))
    assert sharp.repeats == len(cut) - len(there)


def test_days_until_today_are_over_today() -> None:
    assert first_day("today", 20, today=date(2026, 11, 21)) == date(2026, 11, 1)
    for wrong in ("yesterday", "2026-13-01", "0001-01-02"):
        with pytest.raises(FingerprintError, match=f"--until {wrong} is no day"):
            first_day(wrong, 20, today=date(2026, 11, 21))
