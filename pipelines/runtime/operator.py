"""Who is at the keyboard: for notes of what people decided."""

from __future__ import annotations

import getpass
import os
import socket


def login_name() -> str:
    """The name of the login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"


def process_name() -> str:
    """This process among all that run: the machine's name and its number there."""
    return f"{socket.gethostname()}:{os.getpid()}"


def operator_name() -> str:
    """For the audit: no account has a name with a colon, so it tells the console from the desk's people."""
    return f"console:{login_name()}"
