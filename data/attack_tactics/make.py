"""Which MITRE ATT&CK tactics an AWS action serves: derive tactics.tsv from two public sets that are kept
beside it.

Example:
    $ python data/attack_tactics/make.py            # reads two sets of data/real

Sources: Panther's rules, whose tests say which event matches a rule with which ATT&CK tags, and Stratus Red
Team, whose techniques are named after their tactic and whose attacks are real records. README.md says what
is left out and why.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fingerprint.sources.cloudtrail import samples
from fingerprint.sources.cloudtrail.attack_tactics import TACTICS, without_api_version

FILE = Path(__file__).parent / "tactics.tsv"
BY_ID = {number: tactic for tactic, number in TACTICS.items()}
LOOKS = re.compile(r"(Describe|List|Head|Lookup|GetCallerIdentity)")  # only looks around
READS = re.compile(r"(Describe|List|Head|Lookup|Get)")  # a read may also fetch secrets

# Rules about who calls, from where, or how often: their tags say nothing about the action in their tests.
CIRCUMSTANTIAL = re.compile(
    r"VPCE|Root|IMDS|ECR\.EVENTS|UnusedRegion|UnauthorizedAPI|IAMCompromisedKey|AccessKeyCompromised|ImpossibleTravel"
    r"|RogueState|BruteForce|Unsuccessful|PasswordSpraying|AssumeRoleBlacklist|TruffleHog|WithoutCloudFormation"
    r"|Vulnerable\.XZ|LAMBDA\.CRUD|EC2\.Monitoring|LoginWithoutSAML"
)
# What every Stratus attack may do on its way; it is not the attack.
HELPERS = {"AssumeRole", "SendCommand", "GetCommandInvocation"}
MOST_TACTICS = 3  # more than these: what the action does depends on its parameters

# Technique -> its tactics in ATT&CK for Enterprise (v15), to leave out tags that contradict ATT&CK itself.
TECHNIQUES = {
    "T1020": "TA0010",
    "T1021": "TA0008",
    "T1048": "TA0010",
    "T1059": "TA0002",
    "T1070": "TA0005",
    "T1087": "TA0007",
    "T1098": "TA0003 TA0004",
    "T1110": "TA0006",
    "T1133": "TA0001 TA0003",
    "T1136": "TA0003",
    "T1190": "TA0001",
    "T1195": "TA0001",
    "T1203": "TA0002",
    "T1204": "TA0002",
    "T1485": "TA0040",
    "T1486": "TA0040",
    "T1490": "TA0040",
    "T1499": "TA0040",
    "T1518": "TA0007",
    "T1525": "TA0003",
    "T1526": "TA0007",
    "T1531": "TA0040",
    "T1535": "TA0005",
    "T1537": "TA0010",
    "T1538": "TA0007",
    "T1548": "TA0004 TA0005",
    "T1550": "TA0005 TA0008",
    "T1552": "TA0006",
    "T1555": "TA0006",
    "T1562": "TA0005",
    "T1565": "TA0040",
    "T1567": "TA0010",
    "T1578": "TA0005",
    "T1580": "TA0007",
    "T1599": "TA0005",
    "T1610": "TA0002 TA0005",
    "T1621": "TA0006",
    "T1666": "TA0005",
    "T1078": "TA0001 TA0003 TA0004 TA0005",
}


class Tag(NamedTuple):
    service: str
    action: str
    technique: str
    tactic: str
    source: str


def panther() -> Iterator[Tag]:
    """A tag for each rule that matches an event, where the rule is about the action."""
    records = list(samples.sample_records("real/panther_rule_tests"))
    for label in _labels():
        record, rule = records[label["line"] - 1], label["rule"]
        if label["label"] != "rule_match" or CIRCUMSTANTIAL.search(rule) or not record.get("eventName"):
            continue
        for number, technique in (tag.split(":") for tag in label["mitre"] or ()):
            if number in TECHNIQUES.get(technique.partition(".")[0], ""):
                yield Tag(
                    _service(record),
                    without_api_version(record["eventName"]),
                    technique,
                    BY_ID[number],
                    f"panther {rule}",
                )


def stratus() -> Iterator[Tag]:
    """A tag for each call of an attack; what only looks around is discovery, whatever it prepares."""
    labels = samples.sample_labels("real/invictus_stratus")
    for record in samples.sample_records("real/invictus_stratus"):
        label = labels.get(record["eventID"])
        if label is None or label["label"] != "attack" or record["eventName"] in HELPERS:
            continue
        tactic = label["technique"].split(".")[1].replace("-", " ").title()
        tactic = "Discovery" if LOOKS.match(record["eventName"]) else tactic
        source = f"stratus {label['technique']}"
        yield Tag(
            _service(record), without_api_version(record["eventName"]), label["technique"], tactic, source
        )


def sensible(tags: set[Tag]) -> Iterator[Tag]:
    """Looking around is discovery and nothing else, a write never is, and what both sources say weighs
    more."""
    found = defaultdict(set)
    for tag in tags:
        if READS.match(tag.action) if tag.tactic == "Discovery" else not LOOKS.match(tag.action):
            found[tag.service, tag.action].add(tag)
    for group in found.values():
        ours = {tag.tactic for tag in group if tag.source.startswith("stratus")}
        theirs = {tag.tactic for tag in group if tag.source.startswith("panther")}
        kept = ours & theirs or ours | theirs
        yield from (tag for tag in group if tag.tactic in kept and len(kept) <= MOST_TACTICS)


def _labels() -> Iterator[dict[str, Any]]:
    """Panther's labels name a line: the event ids of its tests repeat."""
    with gzip.open(samples.data_folder("real/panther_rule_tests") / "labels.jsonl.gz") as lines:
        yield from map(json.loads, lines)


def _service(record: dict[str, str]) -> str:
    return record["eventSource"].removesuffix(".amazonaws.com")


if __name__ == "__main__":
    rows = sorted(sensible({*panther(), *stratus()}))
    FILE.write_text("\n".join("\t".join(row) for row in [Tag._fields, *rows]) + "\n")
    print(f"{len(rows)} tags of {len({row[:2] for row in rows})} actions in {FILE.name}")
