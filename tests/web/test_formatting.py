"""Short texts of the pages."""

from __future__ import annotations

import pytest

from fingerprint.web.formatting import split_title


@pytest.mark.parametrize(
    ("title", "who", "what"),
    [
        ("ana called iam:CreateUser from 10.0.0.0/8", "ana called ", "iam:CreateUser from 10.0.0.0/8"),
        ("role/ci tried kms:Decrypt; all failed", "role/ci ", "tried kms:Decrypt; all failed"),
        ("x tried to be called y called s3:Get", "x ", "tried to be called y called s3:Get"),
        ("another title", "", "another title"),
        ("", "", ""),
    ],
)
def test_a_title_is_who_and_what(title, who, what):
    assert split_title(title) == (who, what)
    assert (who + what).replace("  ", " ") == title
