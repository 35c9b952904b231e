"""The settings that say what a state counts: a state of others would mean something else, and is refused.

Example:
    >>> from fingerprint.core.settings import Settings
    >>> counted = state_settings(Settings())
    >>> changed_settings(counted, state_settings(Settings(spectral={"interval_seconds": 1800})))
    [ChangedSetting(name='spectral.interval_seconds', was=3600, now=1800)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fingerprint.core.settings import Settings

# What an activity series counts: a bank with others does not fit a scorer's.
SERIES_SETTINGS = ("spectral.interval_seconds", "entities.granularity", "entities.person_role_patterns")
# And which intervals are closed, for a state that goes on.
STATE_SETTINGS = (*SERIES_SETTINGS, "spectral.allowed_lateness_seconds")


class ChangedSetting(NamedTuple):
    """A setting by its name (`section.key`), what it was when a state was counted, and what it is now."""

    name: str
    was: Any
    now: Any


def state_settings(settings: Settings) -> dict[str, Any]:
    """Return what STATE_SETTINGS are, by name, fit for JSON."""
    return select_settings(settings.model_dump(mode="json"), STATE_SETTINGS)


def select_settings(sections: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return the settings of these names (`section.key`) from sections that are fit for JSON."""
    split = {name: name.partition(".") for name in names}
    return {name: sections[section][key] for name, (section, _, key) in split.items()}


def changed_settings(counted: Mapping[str, Any], current: Mapping[str, Any]) -> list[ChangedSetting]:
    """Return which of the settings that a state was counted with are others now."""
    return [
        ChangedSetting(name, was, current.get(name))
        for name, was in counted.items()
        if was != current.get(name)
    ]
