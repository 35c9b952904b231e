"""Who is at the keyboard: for notes of what people decided."""

from __future__ import annotations

import getpass
import os


def name() -> str:
    """The name of the login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"


def at_console() -> str:
    """For the audit: no account has a name with a colon, so it tells the console from the desk's people."""
    return f"console:{name()}"
