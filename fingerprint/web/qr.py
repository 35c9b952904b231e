"""QR codes as SVG within a page: the Content-Security-Policy needs no exception for them.

Example:
    >>> qr_code("otpauth://totp/Fingerprint:maria?secret=...")
    Markup('<svg width="..." ...')
"""

from __future__ import annotations

import segno
from markupsafe import Markup

MODULE_PIXELS = 4  # pixels of a square


def qr_code(text: str) -> Markup:
    """Return a QR code, black on white also where the page is dark: not every camera reads the other way round."""
    made = segno.make(text, micro=False)
    svg = made.svg_inline(
        scale=MODULE_PIXELS, light="#fff", dark="#000", title="QR code for an authenticator app"
    )
    return Markup(svg)  # noqa: S704  segno writes paths, and escapes the title
