"""Records drawn by chance, as JSON that is nearly always valid and often inconvenient: what two readers might take differently.

Example:
    >>> drawn(random.Random(3))
    b'{"eventTime":"2023-07-10T11:42:18Z","eventID" : "id4","resources":[{"accountId":"222222222222"}]}'

Texts, numbers and times are at the borders of every rule of the filter (docs/explanation/reading.md); members are of the wrong
type, twice, missing, spelled with escapes, and in any order.
"""

from __future__ import annotations

import json
from random import Random

ACCOUNTS = ("111111111111", "222222222222", "123456789012", "12", "", "1111111111112", "abc", None, 5, "1")
TIMES = (
    "2023-07-10T11:42:18Z",
    "2023-02-29T11:42:18Z",
    "2024-02-29T23:59:59Z",
    "2023-07-10T24:00:00Z",
    "2023-07-10T11:42:60Z",
    "1999-12-31T23:59:59Z",
    "2000-01-01T00:00:00Z",
    "2199-12-31T23:59:59Z",
    "2200-01-01T00:00:00Z",
    "2023-07-10T11:42:18.5Z",
    " 2023-07-10T11:42:18Z",
    "2000-02-30T00:00:00Z",
)
ARNS = (
    "arn:aws:iam::222222222222:role/x",
    "arn:aws:iam::111111111111:role/y",
    "arn:aws-cn:s3:::b",
    "arn:aws:x:arn:aws:iam::333333333333:r",
    "arn:aws:iam::1111111111111:x",
    "arn:aws:iam::222222222222",
    "x arn:aws:iam::11222222222222:y",
    "arn:aws:iam::2222\\\\22222222:x",
    "arn:a111111111111ws:iam::222222222222:x",
)
TEXTS = (
    "",
    "a",
    "é",
    "東京",
    'a\\"b',
    "\\n",
    "\\/",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\ud800",
    "\t",
    "\x01",
    "'",
    "Failure",
    "Success",
    "Insight",
    "AwsCloudTrailInsight",
    "ActivityAuditLog",
    "aws:s3",
    "EC2.amazonaws.com.amazonaws.com",
    "İ.amazonaws.com",
    "true",
    "false",
    "True",
    "t",
    "1",
    "null",
    "a,b",
    "\\\\",
    "\\b\\f\\r\\t",
    "\x7f",
    "\u2028",
    "x" * 1023,
    "x" * 1024,
    "x" * 1025,
    "é" * 600,
)
NUMBERS = (
    "0",
    "-0",
    "1",
    "01",
    "1.5",
    "1e5",
    "1E+99",
    "1e999",
    "-",
    "1.",
    "0.0e-1",
    "1" * 250,
    ".5",
    "NaN",
    "1e",
    "123456789012345678901234567890",
    "-1.5e-99",
    "Infinity",
)
KEYS = (
    "a",
    "b",
    "roleArn",
    "accountId",
    "",
    "a,b",
    "é",
    'a\\"',
    "\\u0061",
    "ARN",
    "type",
    "eventTime",
    "k" * 40,
)
SPACES = ("", "", "", "", " ", "\t", "\n", "\r ")
OF_RECORD = (
    "eventVersion",
    "awsRegion",
    "sourceIPAddress",
    "userAgent",
    "errorCode",
    "errorMessage",
    "readOnly",
    "eventType",
    "eventCategory",
    "managementEvent",
    "sharedEventID",
    "vpcEndpointAccountId",
    "eventName",
    "sessionCredentialFromConsole",
    "eventSource",
    "unknown",
    "EventTime",
    "eventname",
)
OF_IDENTITY = (
    "type",
    "principalId",
    "arn",
    "accountId",
    "accessKeyId",
    "userName",
    "invokedBy",
    "identityProvider",
    "unknown",
)


def drawn(chance: Random, calm: float = 0.9) -> bytes:
    """One record; `calm` is how often a member has the type that it ought to have."""
    return _Drawn(chance, calm).record().encode(errors="surrogatepass")


def mutated(chance: Random, line: bytes) -> bytes:
    """A record with some bytes put in, or left out, anywhere."""
    at = chance.randrange(len(line))
    put = chance.choice(
        [b"", b'"', b"\\", b"{", b"}", b",", b":", b"0", b"e", b"\x00", b"\xff", b"\\u00e9", b" ", b"["]
    )
    return line[:at] + put + line[at + chance.choice([0, 0, 1, 1, 2, 9]) :]


class _Drawn:
    def __init__(self, chance: Random, calm: float) -> None:
        self.chance, self.calm = chance, calm

    def text(self) -> str:
        return f'"{self.chance.choice(self.chance.choice([TEXTS, ARNS, TIMES]))}"'

    def value(self, depth: int = 0) -> str:
        kind = self.chance.random()
        if kind < 0.6 or depth > 3:
            return self.text()
        if kind < 0.7:
            return self.chance.choice([*NUMBERS, "true", "false", "null", "nul"])
        if kind < 0.85:
            return self.group(
                [(self.chance.choice(KEYS), self.value(depth + 1)) for _ in range(self.some(3))]
            )
        return f"[{','.join(self.value(depth + 1) for _ in range(self.some(3)))}]"

    def some(self, most: int) -> int:
        return self.chance.randint(0, most)

    def group(self, members: list[tuple[str, str]]) -> str:
        def space() -> str:
            return self.chance.choice(SPACES)

        written = (f'{space()}"{key}"{space()}:{space()}{value}{space()}' for key, value in members)
        return "{" + ",".join(written) + "}"

    def rather(self, value: str) -> str:
        return value if self.chance.random() < self.calm else self.value()

    def account(self) -> str:
        return json.dumps(self.chance.choice(ACCOUNTS))

    def sometimes(self, often: float, name: str, value: str) -> list[tuple[str, str]]:
        return [(name, self.rather(value))] if self.chance.random() < often else []

    def record(self) -> str:
        members = [("eventTime", self.rather('"2023-07-10T11:42:18Z"')), ("eventID", self.rather('"id"'))]
        members += self.sometimes(0.6, "recipientAccountId", self.account())
        members += [(name, self.rather(self.text())) for name in self.chance.sample(OF_RECORD, self.some(4))]
        members += self.sometimes(0.6, "userIdentity", self.identity())
        members += self.sometimes(0.6, "requestParameters", self.parameters())
        members += self.sometimes(0.3, "responseElements", self.response())
        members += self.sometimes(0.4, "resources", self.resources())
        members += self.sometimes(0.3, "additionalEventData", self.sign_in())
        if self.chance.random() < 0.05:
            members.append(self.chance.choice(members))  # twice
        self.chance.shuffle(members)
        return self.group(members)

    def identity(self) -> str:
        members = [(name, self.rather(self.text())) for name in self.chance.sample(OF_IDENTITY, self.some(4))]
        members += self.sometimes(0.4, "sessionContext", self.session())
        members += self.sometimes(0.2, "onBehalfOf", self.group([("userId", '"u"')]))
        return self.group(members)

    def session(self) -> str:
        attributes = [("creationDate", self.rather('"2023-07-10T11:00:00Z"')), ("mfaAuthenticated", '"true"')]
        members = self.sometimes(0.6, "attributes", self.group(attributes))
        members += self.sometimes(0.6, "sessionIssuer", self.group([("arn", self.rather(self.text()))]))
        return self.group(members + self.sometimes(0.2, "webIdFederationData", self.group([])))

    def parameters(self) -> str:
        members = [(self.chance.choice(KEYS), self.value(1)) for _ in range(self.some(5))]
        members += self.sometimes(0.2, "names", f"[{','.join(self.value(3) for _ in range(self.some(2)))}]")
        members += self.sometimes(
            0.2, "requestItems", self.group([(self.chance.choice(KEYS), self.value(3))])
        )
        return self.group(members + self.sometimes(0.2, "instancesSet", self.instances()))

    def instances(self) -> str:
        items = (
            self.rather(self.group([(self.chance.choice(("instanceId", "imageId")), self.value(3))]))
            for _ in range(self.some(3))
        )
        return self.group(self.sometimes(self.calm, "items", f"[{','.join(items)}]"))

    def response(self) -> str:
        members = self.sometimes(0.5, "ConsoleLogin", self.chance.choice(['"Failure"', '"Success"']))
        return self.group(
            members + self.sometimes(0.5, "credentials", self.group([("accessKeyId", '"ASIA"')]))
        )

    def sign_in(self) -> str:
        return self.group(self.sometimes(0.8, "MFAUsed", self.chance.choice(['"Yes"', '"No"'])))

    def resources(self) -> str:
        return f"[{','.join(self.rather(self.resource()) for _ in range(self.some(3)))}]"

    def resource(self) -> str:
        members = [("accountId", self.account()), ("ARN", self.text()), ("type", '"t"')]
        return self.group(self.chance.sample(members, self.some(3)))
