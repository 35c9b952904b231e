"""Attack tools: programs and systems made for attacks. A principal that uses one for the first time is hardly at its usual work.

Example:
    >>> is_made_for_attacks("Boto3 kali"), is_made_for_attacks("Boto3 linux")
    (True, False)

A secret scanner calls only with a key that it found. An attacker chooses the name of a program, so the lack of such a name proves
nothing.
"""

from __future__ import annotations

ATTACK_SYSTEMS = ("kali", "parrot", "pentoo", "blackarch")  # distributions of Linux
ATTACK_PROGRAMS = frozenset(("trufflehog", "pacu", "cloudfox", "weirdaal", "enumerate-iam", *ATTACK_SYSTEMS))


def is_made_for_attacks(program: str) -> bool:
    """Return whether a program's text (name and operating system) names one that is made for attacks."""
    return not ATTACK_PROGRAMS.isdisjoint(program.lower().split())
