"""Severity words of attacks and of harmless alerts, by rarity alone and with impact; and what rarity alone would hide.

Example:
    >>> figures = severity_figures(alerts, attack_events={"e1"})
    >>> figures["rarity"]["high"]["attack_alerts"], figures["urgency"]["high"]["attack_alerts"]
    (18, 37)
    >>> figures["hidden_actions"], figures["alerts_with_grave_action"]
    (21, 40)

An alert is an attack's if it holds an event that labels call one. An action is hidden if the alert's gravest new one (severe or
grave) is not the one that rarity alone would have named in the title: the most surprising new action.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fingerprint.alerting.impact import action_nats
from fingerprint.core.alert import GRAVE_OR_SEVERE, MINIMUM_URGENCY, Alert
from fingerprint.evaluation.metrics import Figures

WORDS = ("critical", "high", "medium")  # severities from which alerts are counted


def severity_figures(alerts: Sequence[Alert], attack_events: Collection[str]) -> Figures:
    """Return how many alerts of attacks, and harmless ones, reach each severity by rarity alone and by urgency.

    Counts add up over organisations (`statistics.pool_figures`).
    """
    attack_ids = set(attack_events)
    attack = [not attack_ids.isdisjoint(alert.event_ids) for alert in alerts]
    attacks = [alert for alert, is_attack in zip(alerts, attack, strict=True) if is_attack]
    harmless = [alert for alert, is_attack in zip(alerts, attack, strict=True) if not is_attack]
    grave = [alert for alert in attacks if _gravest(alert)]
    return {
        "attack_alerts": len(attacks),
        "harmless_alerts": len(harmless),
        **{
            measure: {
                word: {
                    "attack_alerts": _count_from(attacks, measure, word),
                    "harmless_alerts": _count_from(harmless, measure, word),
                }
                for word in WORDS
            }
            for measure in ("rarity", "urgency")
        },
        "alerts_with_grave_action": len(grave),
        "hidden_actions": sum(_gravest(alert) != _most_surprising(alert) for alert in grave),
        "harmless_alerts_with_grave_action": sum(bool(_gravest(alert)) for alert in harmless),
    }


def _count_from(alerts: Sequence[Alert], measure: str, word: str) -> int:
    return sum(getattr(alert, measure) >= MINIMUM_URGENCY[word] for alert in alerts)


def _gravest(alert: Alert) -> str:
    """Return the gravest action of an alert that counts and is severe or grave; empty without one."""
    counted = (row for row in alert.impact_of if row.gravity in GRAVE_OR_SEVERE and action_nats(row) > 0)
    return next((row.action for row in counted), "")


def _most_surprising(alert: Alert) -> str:
    """Return the action that rarity alone would name: the most surprising new one; empty without a new one."""
    new = [each for each in alert.drivers if (each.feature, each.rarity) == ("action", "unseen")]
    return max(new, key=lambda each: each.surprise).seen if new else ""
