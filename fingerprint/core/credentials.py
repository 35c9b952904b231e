"""Find passwords and tokens inside text, so that settings refuse them and no sentence, log line or traceback repeats them.

Example:
    >>> mask_credentials("cannot reach postgresql://alerts:hunter2@db/alerts?sslpassword=hunter2")
    'cannot reach postgresql://alerts:***@db/alerts?sslpassword=***'
    >>> holds_credentials("postgresql://alerts@db/alerts?password_file=/run/secrets/database")
    False

A credential is a password before the `@` of a URL, anything there of http:// and https:// (a token may stand for the name), and
the value of a query parameter that is called like one, as in presigned URLs. Both expressions take time linear in the text:
attackers write what is logged.
"""

from __future__ import annotations

import re

MASK = "***"

_USERINFO = re.compile(  # the password of a database may hold what ends a host elsewhere
    r"(https?://)[^\s/?#]+@|(?<!http)(?<!https)(://[^\s/?#@:]{0,200}:)[^\s@]{1,200}@", re.IGNORECASE
)
_PARAMETER = re.compile(r"(^|[?&;\s])([\w.-]++)=([^\s&;'\"<>]++)")
_SECRET = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|signature|credential|(api|access|account)[_-]?key|^sig$|^key$",
    re.IGNORECASE,
)


def holds_credentials(text: str) -> bool:
    """Return whether `mask_credentials` would change the text."""
    return mask_credentials(text) != text


def mask_credentials(text: str) -> str:
    """Return the text with every credential replaced by MASK; what is masked already stays as it is."""
    return _PARAMETER.sub(_parameter, _USERINFO.sub(_userinfo, text))


def _userinfo(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}{MASK}@"


def _parameter(found: re.Match[str]) -> str:
    before, name, _ = found.groups()
    secret = _SECRET.search(name) and not name.lower().endswith("file")
    return f"{before}{name}={MASK}" if secret else found[0]
