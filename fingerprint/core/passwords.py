"""Passwords that are too easy to guess: short ones, common ones, and words of the product or the account's own name.

Example:
    >>> weak_password("password1234", "maria")
    'this password is easy to guess (this is a very common password): choose a longer one, or several words'
    >>> weak_password("four plain english words", "maria") is None
    True

Length counts, composition does not (NIST SP 800-63B-4, ASVS 5 6.2). zxcvbn estimates the number of guesses from lists of 30,000
common passwords, of words and of names, and from keyboard rows, sequences, repeats and dates.
"""

from __future__ import annotations

import re
import unicodedata

MIN_LENGTH, MAX_LENGTH = 12, 1024  # characters
MIN_GUESSES = 10**8  # online, a name can be tried 769 times a day (docs/how-to/accounts.md)
MAX_CHECKED_LENGTH = 32  # characters that zxcvbn is given: it takes half a second of CPU at worst
# Words of the product, which attackers try first
PRODUCT_WORDS = ("fingerprint", "cloudtrail", "aws", "analyst", "admin", "security", "alert", "queue")
WORD_PATTERN = re.compile(r"\w{3,}")


def weak_password(password: str, name: str, organisation: str = "") -> str | None:
    """Return a sentence that says why a password is refused; None for a good one. It must not use `name` or `organisation`."""
    typed = unicodedata.normalize("NFC", password)
    if len(typed) < MIN_LENGTH:
        return f"a password has at least {MIN_LENGTH} characters"
    if len(typed) > MAX_LENGTH:
        return f"a password has at most {MAX_LENGTH:,} characters"
    if name and typed.strip().casefold() == name.casefold():
        return "a password is not the name"
    known = [*PRODUCT_WORDS, name, *WORD_PATTERN.findall(f"{name} {organisation}".casefold())]
    # late: its word lists take a while to load, and most commands check no password
    from zxcvbn import zxcvbn

    estimate = zxcvbn(typed[:MAX_CHECKED_LENGTH], user_inputs=known)
    if estimate["guesses"] >= MIN_GUESSES:
        return None
    reason = str(estimate["feedback"]["warning"]).rstrip(".")
    reason = f" ({reason[0].lower()}{reason[1:]})" if reason else ""
    return f"this password is easy to guess{reason}: choose a longer one, or several words"
