"""Programs and systems that are made for attacks: who calls with one that is new to them is hardly at their usual work.

Example:
    >>> is_made_for_attacks("Boto3 kali"), is_made_for_attacks("Boto3 linux")
    (True, False)

A secret scanner calls only with a key that it found. What an attacker's program calls itself is the attacker's choice, so the
lack of such a name says nothing.
"""

from __future__ import annotations

ATTACK_SYSTEMS = ("kali", "parrot", "pentoo", "blackarch")  # distributions of Linux
ATTACK_PROGRAMS = frozenset(("trufflehog", "pacu", "cloudfox", "weirdaal", "enumerate-iam", *ATTACK_SYSTEMS))


def is_made_for_attacks(program: str) -> bool:
    """Return whether the text of a program, its name and operating system, names one that is made for attacks."""
    return not ATTACK_PROGRAMS.isdisjoint(program.lower().split())
