"""Links to the AWS console lead to AWS alone, and are made of ids that AWS could have made."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from fingerprint.sources.base import escape_key
from fingerprint.sources.cloudtrail.console_links import event_links, principal_links
from tests.support.alerts import ACCOUNT, NASTY, event

KEY, ID = "AKIAIOSFODNN7EXAMPLE", "3038ebd2-c98a-4c65-9b6e-e22506292313"
HOSTS = ("console.aws.amazon.com", "console.amazonaws.cn", "console.amazonaws-us-gov.com")
HOSTILE = (
    *NASTY,
    "evil.example/",
    "a#b",
    "x@evil.example",
    "-",
    "../x",
    "a?b=c",
    "AKIA" + "a" * 20,
    "\u0430dmin",
)


def test_a_user_has_a_page_and_a_history_and_so_has_its_key() -> None:
    links = principal_links(f"{ACCOUNT}:user/grace.moreau1@example.com", [KEY], "eu-west-1")
    base = "https://eu-west-1.console.aws.amazon.com"
    assert [(each.kind, each.url) for each in links] == [
        ("identity", f"{base}/iam/home#/users/details/grace.moreau1%40example.com"),
        (
            "history",
            f"{base}/cloudtrailv2/home?region=eu-west-1#/events?Username=grace.moreau1%40example.com",
        ),
        ("history", f"{base}/cloudtrailv2/home?region=eu-west-1#/events?AccessKeyId={KEY}"),
    ]


def test_a_role_has_a_page_and_the_history_of_its_session() -> None:
    links = principal_links(f"{ACCOUNT}:role/Admin/ann", [], "eu-west-1")
    assert [(each.kind, each.name) for each in links] == [("identity", "Admin"), ("history", "ann")]
    assert links[0].url.endswith("#/roles/details/Admin")
    assert [each.kind for each in principal_links(f"{ACCOUNT}:role/Admin", [], "eu-west-1")] == ["identity"]
    assert [each.kind for each in principal_links(f"{ACCOUNT}:root", [KEY], "eu-west-1")] == ["history"]


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "us-east-1.console.aws.amazon.com"),
        ("cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("us-gov-west-1", "us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_each_partition_has_its_own_console(region: str, host: str) -> None:
    [link] = event_links(replace(event(0, "s3", "GetObject"), event_id=ID, region=region))
    assert urlsplit(link.url).hostname == host
    assert link.url.endswith(f"#/events?EventId={ID}")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_of_an_attacker_is_in_an_address(text: str) -> None:
    made = replace(event(0, "s3", "GetObject"), event_id=text, region="eu-west-1")
    assert event_links(made) == ()
    assert event_links(replace(made, event_id=ID, region=text)) == ()
    assert principal_links(f"{ACCOUNT}:user/ana", [KEY], text) == ()
    assert principal_links(text, [text], "eu-west-1") == ()
    for link in principal_links(f"{ACCOUNT}:user/{escape_key(text)}", [text], "eu-west-1"):
        assert urlsplit(link.url).hostname == f"eu-west-1.{HOSTS[0]}"
        assert link.name.isascii()
        assert not {*link.url} & {*"<>\"' \n"}
