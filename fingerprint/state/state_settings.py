"""The settings that define what a state counts; state with other values of them is refused.

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

# Settings that define what an activity series counts; bank and scorer must agree in them.
SERIES_SETTINGS = ("spectral.interval_seconds", "entities.granularity", "entities.person_role_patterns")
# For state that is continued, also the setting that defines which intervals are closed.
STATE_SETTINGS = (*SERIES_SETTINGS, "spectral.allowed_lateness_seconds")


class ChangedSetting(NamedTuple):
    """A setting that changed: its name (`section.key`), its value when the state was counted, and its value now."""

    name: str
    was: Any
    now: Any


def state_settings(settings: Settings) -> dict[str, Any]:
    """Return the values of STATE_SETTINGS by name, fit for JSON."""
    return select_settings(settings.model_dump(mode="json"), STATE_SETTINGS)


def select_settings(sections: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return the settings with these names (`section.key`) from sections that are fit for JSON."""
    split = {name: name.partition(".") for name in names}
    return {name: sections[section][key] for name, (section, _, key) in split.items()}


def changed_settings(counted: Mapping[str, Any], current: Mapping[str, Any]) -> list[ChangedSetting]:
    """Return the settings of a state that have other values now."""
    return [
        ChangedSetting(name, was, current.get(name))
        for name, was in counted.items()
        if was != current.get(name)
    ]
