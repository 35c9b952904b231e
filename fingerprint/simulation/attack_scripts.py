"""Scripts of attackers: discovery, then techniques in the order and at the pace in which they were recorded.

Example:
    >>> script = plain_script(TemplateLibrary(), "quiet", size=4, span=1500.0, draw=random.Random(1))
    >>> len(script.forms), script.techniques[0]
    (4, 'discovery (composed)')

Discovery is composed here from reads that all principals make as well. A mimic adds the victim's own calls between: they are more
than half of its calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fingerprint.simulation.api_calls import USUAL_SALTS
from fingerprint.simulation.api_catalogue import TemplateLibrary
from fingerprint.simulation.attackers import Attacker
from fingerprint.simulation.job_tasks import parse_actions
from fingerprint.simulation.long_tail import LOGIN_TECHNIQUE
from fingerprint.simulation.people import Habit, pick_habit

DISCOVERY = "discovery (composed)"
COVER = "cover (the victim's own calls)"
COVER_SHARE_RANGE = (0.5, 0.8)  # share of a mimic's calls that are the victim's own
# Largest share of usual calls in a technique that a thief of rare techniques uses.
MOST_USUAL_CALLS = 0.5
HIDING_STRENGTHS = ("quiet", "mimic")  # they make only the last few calls of a technique
Step = tuple[float, int, str]  # seconds after the one before, form, technique
Call = tuple[float, int, int, str]  # seconds from the start, form, salt, technique

_DISCOVERY_ACTIONS = parse_actions(
    "sts:GetCallerIdentity iam:ListUsers ListRoles GetUser ListAttachedUserPolicies ListAccessKeys "
    "GetAccountAuthorizationDetails GetAccountSummary s3:ListBuckets GetBucketAcl GetBucketPolicy "
    "ec2:DescribeInstances DescribeRegions DescribeVpcs DescribeSecurityGroups DescribeSnapshots "
    "ec2:DescribeImages secretsmanager:ListSecrets ssm:DescribeParameters DescribeInstanceInformation "
    "kms:ListKeys lambda:ListFunctions20150331 rds:DescribeDBInstances DescribeDBSnapshots "
    "cloudtrail:DescribeTrails GetTrailStatus organizations:DescribeOrganization guardduty:ListDetectors "
    "ses:GetSendQuota ce:GetCostAndUsage"
)


@dataclass(frozen=True, slots=True)
class AttackScript:
    """Calls in the order of time, as columns.

    `offsets` are in seconds from the start; calls that name the same resources have the same salt.
    """

    offsets: tuple[float, ...]
    forms: tuple[int, ...]
    salts: tuple[int, ...]
    techniques: tuple[str, ...]

    @classmethod
    def from_calls(cls, calls: Iterable[Call]) -> AttackScript:
        """Return the script of calls in any order."""
        return cls(*zip(*sorted(calls), strict=True))


DisguisedScript = Callable[[TemplateLibrary, Attacker, int, float, random.Random], AttackScript]


def plain_script(
    library: TemplateLibrary,
    strength: str,
    size: int,
    span: float,
    draw: random.Random,
    discovery: float = 1.0,
    usual: frozenset[str] = frozenset(),
) -> AttackScript:
    """Return `size` calls of the attacker within `span` seconds; `discovery` is a factor on the share of discovery.

    It uses only techniques with at most half of their calls among the `usual` actions.
    """
    share = 0.3 if strength in HIDING_STRENGTHS else draw.uniform(0.25, 0.5)
    steps = _discovery_steps(library, _discovery_techniques(library), round(size * share * discovery), draw)
    names = [
        name
        for name in _shuffled_techniques(library, draw)
        if not usual or _usual_share(library, name, usual) <= MOST_USUAL_CALLS
    ]
    steps += _technique_steps(library, names, size - len(steps), strength, draw)
    return AttackScript.from_calls(_with_times(steps, span, draw))


def disguised_script(
    library: TemplateLibrary, attacker: Attacker, size: int, span: float, draw: random.Random
) -> AttackScript:
    """Return `size` calls over most of `span` seconds, more than half of them the victim's own.

    Discovery and techniques with calls of the victim's services come first.
    """
    cover = max(size // 2 + 1, round(size * draw.uniform(*COVER_SHARE_RANGE)))
    used = {library.templates[form].service for habit in attacker.habits for form in habit.templates.tolist()}
    looks = [action for action in _discovery_techniques(library) if action.partition(":")[0] in used]
    steps = _discovery_steps(library, looks, round((size - cover) * 0.2), draw) if looks else []
    names = sorted(
        _shuffled_techniques(library, draw), key=lambda name: -_service_overlap(library, name, used)
    )
    steps += _technique_steps(library, names, size - cover - len(steps), "mimic", draw)
    span *= draw.uniform(0.3, 1.0)
    real = _stretch(_with_times(steps, span, draw), span, draw)
    return AttackScript.from_calls([*real, *_cover_calls(attacker.habits, size - len(real), span, draw)])


def repeated_script(
    library: TemplateLibrary, attacker: Attacker, size: int, span: float, draw: random.Random
) -> AttackScript:
    """Return `size` calls within `span` seconds of at most two operations that the victim usually calls."""
    usual = list(dict.fromkeys(form for habit in attacker.habits for form in habit.templates.tolist()[:3]))
    forms = draw.sample(usual, k=min(2, len(usual))) or [library.pick_template(_DISCOVERY_ACTIONS[0], draw)]
    return _spread_script(forms, size, span, draw)


def bulk_script(
    library: TemplateLibrary, attacker: Attacker, size: int, span: float, draw: random.Random
) -> AttackScript:
    """Return `size` calls within `span` seconds of one read that the caller makes anyway."""
    usual = [form for habit in attacker.habits for form in habit.templates.tolist()[:2]]
    reads = [form for form in usual if library.templates[form].read_only]
    form = draw.choice(reads or usual) if usual else library.pick_template(_DISCOVERY_ACTIONS[0], draw)
    return _spread_script([form], size, span, draw)


def _spread_script(forms: Sequence[int], size: int, span: float, draw: random.Random) -> AttackScript:
    """Return calls of these templates at random times of a span, three in four of the first one, with the caller's salt."""
    times = sorted(draw.random() * span for _ in range(size))
    calls = [
        (time, forms[0] if draw.random() < 0.75 else forms[-1], draw.randrange(USUAL_SALTS), COVER)
        for time in times
    ]
    return AttackScript.from_calls(calls)


# --- the attacker's own calls ---------------------------------------------------------------------


def _discovery_techniques(library: TemplateLibrary) -> list[str]:
    return [action for action in _DISCOVERY_ACTIONS if library.has_operation(action)]


def _discovery_steps(
    library: TemplateLibrary, known: Sequence[str], count: int, draw: random.Random
) -> list[Step]:
    """Return `count` calls, at most twice each on average: who am I, then what is here."""
    count = min(count, len(known) * 2)
    actions = [known[0], *draw.choices(known, k=count - 1)] if count else []
    return [(draw.expovariate(1 / 8), library.pick_template(action, draw), DISCOVERY) for action in actions]


def _shuffled_techniques(library: TemplateLibrary, draw: random.Random) -> list[str]:
    names = [name for name in library.attack_calls if name != LOGIN_TECHNIQUE]
    draw.shuffle(names)
    return names


def _service_overlap(library: TemplateLibrary, name: str, used: set[str]) -> float:
    """Return the share of a technique's calls whose services are in `used`."""
    return float(
        np.mean([library.templates[form].service in used for _, form, _ in library.attack_calls[name]])
    )


def _usual_share(library: TemplateLibrary, name: str, usual: frozenset[str]) -> float:
    """Return the share of a technique's calls that are among the `usual` actions."""
    return float(np.mean([library.action_of(form) in usual for _, form, _ in library.attack_calls[name]]))


def _technique_steps(
    library: TemplateLibrary, names: Sequence[str], size: int, strength: str, draw: random.Random
) -> list[Step]:
    """Return the steps of one technique after the other until there are `size`."""
    steps: list[Step] = []
    while len(steps) < size:
        for name in names:
            steps += _single_technique_steps(library, name, size - len(steps), strength, draw)
    return steps


def _single_technique_steps(
    library: TemplateLibrary, name: str, room: int, strength: str, draw: random.Random
) -> list[Step]:
    """Return the technique's real calls at their real pace.

    If there is no room for all of them, the last ones are kept, because they do the harm.
    """
    if room <= 0:
        return []
    calls = library.attack_calls[name]
    calls = calls[-min(room, 4 if strength in HIDING_STRENGTHS else 40, len(calls)) :]
    gaps = [
        30 + draw.expovariate(1 / 60),
        *(after - before for (before, *_), (after, *_) in pairwise(calls)),
    ]
    return [(gap + draw.random(), form, name) for gap, (_, form, _) in zip(gaps, calls, strict=True)]


def _with_times(steps: Sequence[Step], span: float, draw: random.Random) -> list[Call]:
    """Turn gaps into seconds, shortened to fit `span`. All have one salt, so that one instance in real records stays one."""
    times = np.cumsum([gap for gap, _, _ in steps])
    times *= min(1.0, span / max(times[-1], 1.0))
    salt = draw.randrange(200)
    return [(time, form, salt, name) for time, (_, form, name) in zip(times.tolist(), steps, strict=True)]


# --- the victim's, made by the attacker -----------------------------------------------------------


def _stretch(calls: Sequence[Call], span: float, draw: random.Random) -> list[Call]:
    """Stretch the calls so that they begin in the first half of `span` and end in the second: a disguised attacker is slow."""
    begin, end = draw.uniform(0.0, 0.5) * span, draw.uniform(0.5, 1.0) * span
    first, last = calls[0][0], calls[-1][0]
    slower = (end - begin) / max(last - first, 1.0)
    return [(begin + (time - first) * slower, form, salt, name) for time, form, salt, name in calls]


def _cover_calls(habits: Sequence[Habit], count: int, span: float, draw: random.Random) -> list[Call]:
    """Return `count` calls of the victim's kind: runs of its habits, favourite ones most often."""
    rng = np.random.default_rng(draw.getrandbits(64))
    found: list[Call] = []
    while len(found) < count:
        habit = pick_habit(habits, draw.random())
        times, forms = (column.tolist() for column in habit.simulate(rng))
        begin = draw.random() * span
        run = [
            (begin + time, form, draw.randrange(USUAL_SALTS), COVER)
            for time, form in zip(times, forms, strict=True)
        ]
        found += run[: count - len(found)]
    return found
