"""Incidents over HTTP: read with their reasons, changed as one, split and joined; and the status of an alert."""

from __future__ import annotations

import pytest

from tests.contracts.incident_store import alert
from tests.support.web_app import Site, store_in


@pytest.fixture
def site(tmp_path) -> Site:
    store = store_in(tmp_path)
    store.alerts.save([alert("a0"), alert("a1", hour=1), alert("a2", hour=2), alert("b0", "kim", 50)])
    return Site.of(store)


@pytest.fixture
def analyst(site):
    return site.client("analyst")


def test_an_incident_is_found_by_any_of_its_alerts_and_says_why_each_is_there(analyst):
    page = analyst.get("/api/v1/incidents?order=oldest").json()
    assert [(row["incident_id"], row["status"], row["alerts"]) for row in page["rows"]] == [
        ("a0", "new", 3), ("b0", "new", 1),
    ]  # fmt: skip
    answer = analyst.get("/api/v1/incidents/a2")
    found = answer.json()
    assert answer.headers["etag"] == f'"{found["row"]["revision"]}"'
    assert [(each["row"]["alert_id"], each["reason"], each["with_alert"]) for each in found["alerts"]] == [
        ("a0", "first", ""), ("a1", "principal", "a0"), ("a2", "principal", "a1"),
    ]  # fmt: skip
    assert analyst.get("/api/v1/incidents/counts").json() == {
        "open": 2,
        "new": 2,
        "in_progress": 0,
        "closed": 0,
    }
    assert analyst.get("/api/v1/incidents/nothing").status_code == 404
    assert analyst.get("/api/v1/incidents?status=nonsense").status_code == 422
    row = analyst.get("/api/v1/alerts/a1").json()["alert"]
    assert (row["incident_id"], row["incident_size"]) == ("a0", 3)


def test_a_change_names_the_revision_that_was_read_and_changes_all_or_none(site, analyst):
    seen = analyst.get("/api/v1/incidents/a0").headers["etag"]
    path, body = "/api/v1/incidents/a0/disposition", {"decision": "true_positive", "why": "a stolen key"}
    assert analyst.post(path, json=body).status_code == 428
    assert (
        analyst.post(path, json=body | {"revision": "0" * 16}, headers={"If-Match": seen}).status_code == 400
    )
    done = analyst.post(path, json=body, headers={"If-Match": seen})
    assert (done.status_code, done.json()["changed"]) == (200, 3)
    assert done.json()["incident"]["row"]["status"] == "closed"
    late = analyst.post(path, json=body | {"decision": "benign"}, headers={"If-Match": seen})
    assert late.status_code == 409
    assert "analyst changed it last" in late.json()["detail"]
    assert set(site.deps.store.cases.current_decisions().values()) == {"true_positive"}
    again = done.headers["etag"]
    reopened = analyst.post("/api/v1/incidents/a0/reopen", json={}, headers={"If-Match": again})
    assert reopened.json()["incident"]["row"]["open_alerts"] == 3


def test_the_last_decision_on_the_alerts_of_an_incident_that_are_named_is_reverted(site, analyst):
    path, attack = "/api/v1/incidents/a0", {"decision": "true_positive"}
    seen = {"If-Match": analyst.get(path).headers["etag"]}
    seen = {"If-Match": analyst.post(f"{path}/disposition", json=attack, headers=seen).headers["etag"]}
    slip = {"decision": "benign", "why": "a slip"}
    done = analyst.post(f"{path}/disposition", json=slip, headers=seen)
    assert done.json()["alert_ids"] == ["a0", "a1", "a2"]
    seen = {"If-Match": done.headers["etag"]}
    assert analyst.post(f"{path}/undo", json={}, headers=seen).status_code == 422
    undone = analyst.post(f"{path}/undo", json={"alert_ids": ["a0", "a1"]}, headers=seen)
    assert (undone.status_code, undone.json()["alert_ids"]) == (200, ["a0", "a1"])
    decided = {"a0": "true_positive", "a1": "true_positive", "a2": "benign"}
    assert site.deps.store.cases.current_decisions() == decided


def test_an_incident_is_taken_started_and_noted_as_one(analyst):
    seen = analyst.get("/api/v1/incidents/a0").json()["row"]["revision"]
    for name in ("mallory", "viewer"):
        refused = analyst.post("/api/v1/incidents/a0/assignee", json={"to": name, "revision": seen})
        assert (refused.status_code, "no active account of an analyst" in refused.text) == (400, True)
    taken = analyst.post("/api/v1/incidents/a0/assignee", json={"to": "analyst", "revision": seen}).json()
    assert taken["incident"]["row"]["assignees"] == ["analyst"]
    assert taken["incident"]["row"]["status"] == "in_progress"
    noted = analyst.post("/api/v1/incidents/b0/notes", json={"text": "asked her"})
    assert (noted.status_code, noted.json()["incident"]["row"]["status"]) == (201, "in_progress")
    seen = noted.json()["incident"]["row"]["revision"]
    back = analyst.post("/api/v1/incidents/b0/status", json={"status": "new", "revision": seen})
    assert back.json()["incident"]["row"]["status"] == "new"


def test_alerts_are_split_off_and_joined_and_both_are_undone(analyst):
    split = analyst.post("/api/v1/incidents/a0/split", json={"alert_ids": ["a1"]})
    assert split.status_code == 201
    assert analyst.get("/api/v1/incidents/a1").json()["row"]["alerts"] == 1
    joined = analyst.post("/api/v1/incidents/b0/join", json={"other": "a1"})
    assert joined.status_code == 201
    assert analyst.get("/api/v1/incidents/b0").json()["row"]["incident_id"] == "a1"
    for made in (joined, split):
        assert analyst.post(f"/api/v1/incidents/edits/{made.json()['edit_id']}/undo").status_code == 200
    assert analyst.get("/api/v1/incidents/a1").json()["row"]["alerts"] == 3
    assert analyst.post(f"/api/v1/incidents/edits/{split.json()['edit_id']}/undo").status_code == 409
    assert analyst.post("/api/v1/incidents/a0/split", json={"alert_ids": []}).status_code == 422


def test_the_status_of_an_alert_is_set_and_filtered_by(analyst):
    row = analyst.post(
        "/api/v1/alerts/a1/status", json={"status": "in_progress"}, headers={"If-Match": '"0-1"'}
    )
    assert row.json()["in_progress"] is True
    page = analyst.get("/api/v1/alerts?status=in_progress").json()
    assert [each["alert_id"] for each in page["rows"]] == ["a1"]
    assert analyst.get("/api/v1/alerts/counts").json()["new"] == 3
    chosen = [{"alert_id": name, "version": version} for name, version in (("a1", 1), ("b0", 0))]
    bulk = analyst.post(
        "/api/v1/alerts/bulk", json={"alerts": chosen, "change": {"kind": "status", "status": "new"}}
    )
    assert [each["done"] for each in bulk.json()] == [True, True]
    assert analyst.get("/api/v1/alerts?status=new").json()["total"] == 4


def test_alerts_are_assigned_to_people_who_may_decide(site, analyst):
    site.people.accounts.disable("engineer", by="admin")
    assert [each["name"] for each in analyst.get("/api/v1/people").json()] == ["admin", "analyst"]
