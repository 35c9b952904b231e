"""What the generators share: tables written as text, identities and records in CloudTrail's form, files, the command line.

Example:
    >>> read_table("web  3  s3:GetObject\\n    s3:PutObject", columns=3)
    [['web', '3', 's3:GetObject s3:PutObject']]
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, get_type_hints

Record = dict[str, Any]
DAY, HOUR = 86400.0, 3600.0
LEARNED, JUDGED = 18, 6  # days, unless the command line says otherwise
Row = TypeVar("Row", bound=NamedTuple)

# ------------------------------------------------------------------------------------------------------------------ tables


def read_table(text: str, columns: int) -> list[list[str]]:
    """Return the rows of a table: two spaces between columns, `-` where there is nothing, the last column on indented lines.

    Raises ValueError where a row has another number of columns.
    """
    rows: list[list[str]] = []
    for line in filter(None, text.split("\n")):
        if not line.startswith(" "):
            rows.append(re.split(r"\s{2,}", line.rstrip()))
        elif len(rows[-1]) < columns:
            rows[-1].append(line.strip())
        else:
            rows[-1][-1] += " " + line.strip()
    if wrong := [row for row in rows if len(row) != columns]:
        raise ValueError(f"not {columns} columns: {wrong[0]}")
    return [["" if cell == "-" else cell for cell in row] for row in rows]


def read_rows(kind: type[Row], text: str) -> list[Row]:
    """Return the rows of a table as a kind of tuple: numbers, words (`list[str]`), or scripts between ` | ` (`tuple`)."""
    forms = list(get_type_hints(kind).values())
    rows = read_table(text, len(forms))
    return [kind(*(_read_cell(cell, form) for cell, form in zip(row, forms, strict=True))) for row in rows]


def _read_cell(cell: str, form: Any) -> Any:
    if form == list[str]:
        return cell.split()
    return read_variants(cell) if form == tuple[str, ...] else form(cell)


def read_variants(text: str) -> tuple[str, ...]:
    """Return scripts that are written between ` | `."""
    return tuple(text.split(" | ")) if text else ()


# ----------------------------------------------------------------------------------------------------------------- records


def make_record(
    *,
    identity: Record,
    time: str,
    source: str,
    name: str,
    region: str,
    address: str,
    agent: str,
    request: Any,
    response: Any,
    request_id: str,
    event_id: str,
    read_only: bool,
    number: str,
    version: str = "1.11",
    kind: str = "AwsApiCall",
    data: bool = False,
    **more: Any,
) -> Record:
    """Return a record of a call as CloudTrail writes it; `number` is the account that receives it."""
    return {
        "eventVersion": version,
        "userIdentity": identity,
        "eventTime": time,
        "eventSource": f"{source}.amazonaws.com",
        "eventName": name,
        "awsRegion": region,
        "sourceIPAddress": address,
        "userAgent": agent,
        "requestParameters": request,
        "responseElements": response,
        "requestID": request_id,
        "eventID": event_id,
        "readOnly": read_only,
        "eventType": kind,
        "managementEvent": not data,
        "recipientAccountId": number,
        "eventCategory": "Data" if data else "Management",
        **more,
    }


def iso(moment: datetime) -> str:
    """Return a moment as CloudTrail writes it."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def tls_fields(host: str) -> Record:
    """Return the fields of a call over the Internet."""
    suite = {"tlsVersion": "TLSv1.3", "cipherSuite": "TLS_AES_128_GCM_SHA256"}
    return {"tlsDetails": {**suite, "clientProvidedHostHeader": host}}


def endpoint_fields(endpoint: str, number: str) -> Record:
    """Return the fields of a call through a VPC endpoint of an account."""
    return {"vpcEndpointId": f"vpce-0{endpoint}", "vpcEndpointAccountId": number}


def role_arn(number: str, role: str) -> str:
    """Return the ARN of a role, its path included."""
    return f"arn:aws:iam::{number}:role/{role}"


def role_resource(number: str, role: str) -> list[Record]:
    """Return `resources` of a call that assumes a role."""
    return [{"accountId": number, "type": "AWS::IAM::Role", "ARN": role_arn(number, role)}]


# -------------------------------------------------------------------------------------------------------------- identities


def role_identity(
    number: str, role: str, ids: tuple[str, str], name: str, created: str, path: str = ""
) -> Record:
    """Return the identity of a role's session; `ids` are the role's and the access key's."""
    role_id, key = ids
    issuer = {
        "type": "Role",
        "principalId": role_id,
        "arn": role_arn(number, path + role),
        "accountId": number,
        "userName": role,
    }
    attributes = {"creationDate": created, "mfaAuthenticated": "false"}
    return {
        "type": "AssumedRole",
        "principalId": f"{role_id}:{name}",
        "arn": f"arn:aws:sts::{number}:assumed-role/{role}/{name}",
        "accountId": number,
        "accessKeyId": key,
        "sessionContext": {"sessionIssuer": issuer, "attributes": attributes},
    }


def user_identity(number: str, name: str, user_id: str, key: str) -> Record:
    """Return the identity of an IAM user."""
    arn = f"arn:aws:iam::{number}:user/{name}"
    known = {"type": "IAMUser", "principalId": user_id, "arn": arn, "accountId": number}
    return {**known, "accessKeyId": key, "userName": name}


def root_identity(number: str, key: str = "") -> Record:
    """Return the identity of an account's root user."""
    arn = f"arn:aws:iam::{number}:root"
    return {"type": "Root", "principalId": number, "arn": arn, "accountId": number, "accessKeyId": key}


def service_identity(host: str) -> Record:
    """Return the identity of an AWS service."""
    return {"type": "AWSService", "invokedBy": host}


def account_identity(number: str, principal: str) -> Record:
    """Return a caller of another account, as the account that is called records it."""
    return {"type": "AWSAccount", "principalId": principal, "accountId": number}


def web_identity(provider: str, subject: str) -> Record:
    """Return the identity of a token's subject."""
    principal = f"{provider}:sts.amazonaws.com:{subject}"
    known = {"type": "WebIdentityUser", "principalId": principal, "userName": subject}
    return {**known, "identityProvider": provider}


# ------------------------------------------------------------------------------------------------ files and the command line


def write_files(folder: Path, days: Mapping[str, Sequence[str]], labels: Iterable[Record]) -> None:
    """Write the records of each day, one a line, and the labels."""
    folder.mkdir(parents=True, exist_ok=True)
    for day, lines in days.items():
        with gzip.open(folder / f"{day}.jsonl.gz", "wt", compresslevel=2) as file:
            file.write("\n".join(lines) + "\n")
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))


class Build(Protocol):
    """Writes an organisation to a folder and returns its figures; `activity` is the share of the everyday calls that are made."""

    def __call__(
        self, seed: int, folder: Path, days: int = ..., judged: int = ..., activity: float = ...
    ) -> Record: ...


def run_program(build: Build, description: str, arguments: Sequence[str] | None = None) -> None:
    """Write the organisation that the command line asks for, and print its figures."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.support.organisations.{Path(sys.argv[0]).stem}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Then measure: fingerprint evaluate FOLDER --no-third --no-terms",
    )
    parser.add_argument("seed", type=int, help="a number; the same one gives the same records")
    parser.add_argument("folder", type=Path, help="where the files go; it is made if it is missing")
    parser.add_argument(
        "--days", type=int, default=LEARNED, help=f"days without attacks, to learn from ({LEARNED})"
    )
    parser.add_argument(
        "--judged", type=int, default=JUDGED, help=f"days with attacks, after them ({JUDGED})"
    )
    parser.add_argument(
        "--activity",
        type=float,
        default=1.0,
        help="share of the everyday calls that are made (1); fewer for a quick look",
    )
    given = parser.parse_args(arguments)
    print(json.dumps(build(given.seed, given.folder, given.days, given.judged, given.activity)))
