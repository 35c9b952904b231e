"""Find passwords and tokens in text, so that settings refuse them and no message, log line or traceback repeats them.

Example:
    >>> mask_credentials("cannot reach postgresql://alerts:hunter2@db/alerts?sslpassword=hunter2")
    'cannot reach postgresql://alerts:***@db/alerts?sslpassword=***'
    >>> holds_credentials("postgresql://alerts@db/alerts?password_file=/run/secrets/database")
    False

A credential is

- the password before the `@` of a URL; in http:// and https:// also the name, which may be a token;
- the value of a query parameter with a name such as `token`, as in presigned URLs.

Both expressions take time linear in the text, because attackers write text that is logged.
"""

from __future__ import annotations

import re

MASK = "***"

_USERINFO = re.compile(  # a database password may contain `/`, `?` and `#`, which end the host in http URLs
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
    """Return the text with every credential replaced by MASK; masked text stays as it is."""
    return _PARAMETER.sub(_parameter, _USERINFO.sub(_userinfo, text))


def _userinfo(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}{MASK}@"


def _parameter(found: re.Match[str]) -> str:
    before, name, _ = found.groups()
    secret = _SECRET.search(name) and not name.lower().endswith("file")
    return f"{before}{name}={MASK}" if secret else found[0]
