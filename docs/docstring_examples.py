"""Griffe extension: show the `Example:` block of a docstring as code, whether it holds Python or shell lines."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

BLOCK = re.compile(r"^Example:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)


class DocstringExamples(griffe.Extension):
    """Turn the block into a fenced one before the docstring is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute in place."""
        if obj.docstring:
            obj.docstring.value = BLOCK.sub(_fenced, obj.docstring.value)


def _fenced(block: re.Match[str]) -> str:
    code = textwrap.dedent(block[1]).strip("\n")
    language = "pycon" if code.startswith(">>>") else "console"
    return f"Example\n\n```{language}\n{code}\n```\n\n"
