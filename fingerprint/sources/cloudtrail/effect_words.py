"""Words of a title for the effect of a request: whose key, which machines, whom it lets in.

Example:
    >>> request_words("encrypts stored data with a key that only the caller has")
    'with a key that only the caller has'
    >>> access_words("changes who may assume a role", "account 210987654321")
    'to let account 210987654321 assume it'

The name of an action does not say these. The words follow a call that was made or tried, so they are no sentence of their own. An
effect is one of `impact_effects`, with or without its detail.
"""

from __future__ import annotations

from fingerprint.sources.cloudtrail.impact_effects import (
    CODE_OF_OTHERS,
    COSTLY_MACHINES,
    LAYER_OF_OTHERS,
    LETS_OTHERS,
)

ELSEWHERE_WORDS = "with an instance's credentials, used outside that instance"
_REQUEST_WORDS = {
    "encrypts stored data with a key that only the caller has": "with a key that only the caller has",
    "encrypts stored data with a key of another account": "with a key of another account",
    "encrypts logs with a key of another account": "with a key of another account",
    "replaces a machine's start script": "with another start script",
    COSTLY_MACHINES: "for machines that cost much",
    CODE_OF_OTHERS: "with other code, or another role",
}
_ACCESS_WORDS = {
    "changes who may assume a role": "to let {} assume it",
    "makes a role that outsiders may assume": "to let {} assume it",
    "opens stored data to outsiders": "to share it with {}",
    "shares images or snapshots with another account": "to share them with {}",
    "sends data to another account": "to send data to {}",
    "changes where data are sent": "to send data to {}",
    "copies stored data away": "to copy it to {}",
    LAYER_OF_OTHERS: "with a layer of {}",
    LETS_OTHERS[0]: "to let {} use it",
    "changes who administers a data lake": "to let {} administer it",
    "lets others use a directory": "to share it with {}",
    "lets others reach a resource, or send to it": "to open it to {}",
    "changes what code runs, or who may start it": "to open it to {}",
}


def request_words(effect: str) -> str:
    """Return the words for how a request changes the effect of a call; empty if the name of the action says it all."""
    return next((words for each, words in _REQUEST_WORDS.items() if effect.startswith(each)), "")


def access_words(effect: str, accounts: str) -> str:
    """Return the words for the effect of a call on `accounts`, such as `account 210987654321`."""
    words = next((words for each, words in _ACCESS_WORDS.items() if effect.startswith(each)), "for {}")
    return words.replace("{}", accounts)
