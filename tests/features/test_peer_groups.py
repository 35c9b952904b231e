"""Peer groups: by role and name, the same of a table of pandas and of one whose rows are taken late."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

from fingerprint.compute.column_table import ColumnTable
from fingerprint.features.peer_groups import assign_peer_groups, cluster_by_services, peer_group

PRINCIPALS = pd.DataFrame(
    {
        "principal": ["1:user/ana", "1:role/deploy-eu-7", "1:role/Admin", "2:service/eks", "1:ben"],
        "kind": ["user", "role", "person", "service", "person"],
        "role": [None, "1:role/deploy-eu-7", "1:role/Admin-2026", None, None],
    }
)


@pytest.mark.parametrize("texts", ["object", "str"])
@pytest.mark.parametrize("table", [pd.DataFrame, ColumnTable.from_pandas])
def test_a_group_follows_from_kind_role_and_name(table, texts: str) -> None:
    named = PRINCIPALS[["principal", "kind", "role"]]
    principals = named.astype(texts) if texts == "str" else named.astype(object).where(named.notna(), None)
    assert assign_peer_groups(table(principals)).tolist() == [
        "user",
        "machines deploy-eu-#",
        "people Admin-#",
        "service eks",
        "person",
    ]


def test_of_no_one_there_is_no_group() -> None:
    assert len(assign_peer_groups(PRINCIPALS[:0])) == 0


def test_what_a_template_makes_again_has_the_group_of_what_it_made_before() -> None:
    """Logical ids of CDK end with a hash, and CloudFormation adds a random suffix."""
    made = [
        "ServiceRoleFCDC14AE-1QTE2NSTB5B8H",
        "ServiceRoleFCDC14AE-aX9bPqL2mN4z",
        "ServiceRole0B1C2D3E-9AB8CD7EF6GH5",
    ]
    assert {peer_group(f"1:role/Stack-{name}", "role", None) for name in made} == {
        "machines Stack-ServiceRole#-#"
    }


@pytest.mark.parametrize("name", ["app-production", "app-FrontendRole", "app-frontend", "team-Deployments"])
def test_words_are_no_generated_parts(name: str) -> None:
    assert peer_group(f"1:role/{name}", "role", None) == f"machines {name}"


def users(services: dict[str, list[str]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return IAM users and how often each used each of its services."""
    names = list(services)
    usage = [(name, service, 9 + i) for i, name in enumerate(names) for service in services[name]]
    return (
        pd.DataFrame({"principal": names, "kind": "user", "role": None, "peer": "user"}),
        pd.DataFrame(usage, columns=["principal", "service", "events"]),
    )


def test_where_everyone_is_an_iam_user_they_are_grouped_by_services() -> None:
    of_s3, of_ec2 = ([f"1:user/{service}-{i}" for i in range(5)] for service in ("s3", "ec2"))
    principals, usage = users(
        {**{user: ["s3"] for user in of_s3}, **{user: ["ec2", "iam"] for user in of_ec2}}
    )
    groups = cluster_by_services(principals, usage, seed=0).tolist()
    assert len(set(groups[:5])) == len(set(groups[5:])) == 1
    assert set(groups) == {"people alike 0", "people alike 1"}


@pytest.mark.parametrize("services", [["s3"], ["s3", "ec2"]])
def test_where_all_use_the_same_services_they_are_one_group_and_no_warning_is_printed(
    services: list[str],
) -> None:
    principals, usage = users({f"1:user/{i}": services for i in range(20)})
    usage["events"] = 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = cluster_by_services(principals, usage, seed=0)
    assert set(groups) == {"people alike 0"}
