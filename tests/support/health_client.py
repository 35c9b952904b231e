"""What the health server of a program answers, on this machine.

Example:
    >>> answered(9464, "/readyz")
    (200, 'ok\\n')
"""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import urlopen


def answered(port: int, path: str) -> tuple[int, str]:
    """Status and body; 0 and nothing before it listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except OSError:
        return 0, ""
