"""Look up what is locked among known vulnerabilities: `make audit`. It needs a network, and says so where there is none.

Example:
    $ python deploy/audit.py
    locks/serve.txt: no known vulnerability
    ...

Exit status: 0 where nothing is known, 1 where something is, 3 where a package could not be asked about. That is no
answer, and never a pass: an index without advisories (a mirror) leaves every package out, which pip-audit alone would call well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from locks import LOCKS

NOT_ASKED = 3


def audit(lock: Path) -> tuple[int, list[str]]:
    """Return pip-audit's verdict on a lock, and its sentences."""
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off"]
    asked = [*command, "--format", "json", "--requirement", str(lock)]
    done = subprocess.run(asked, capture_output=True, text=True)  # noqa: S603 - this Python's own module
    try:
        return verdict(json.loads(done.stdout)["dependencies"])
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return NOT_ASKED, [f"NOT AUDITED, the advisories cannot be reached: {reason}"]


def verdict(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return 0, 1 or NOT_ASKED for what pip-audit says of packages, and a sentence for each flaw."""
    found = [
        f"{each['name']} {each['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in packages
        for flaw in each.get("vulns", [])
    ]
    if reasons := [each["skip_reason"] for each in packages if "skip_reason" in each]:
        missing = f"NOT AUDITED: {len(reasons)} of {len(packages)} packages, the first because: {reasons[0]}"
        return NOT_ASKED, [*found, missing]
    return int(bool(found)), found or ["no known vulnerability"]


def main() -> None:
    worst = 0
    for lock in sorted(LOCKS.glob("*.txt")):
        status, sentences = audit(lock)
        worst = max(worst, status)
        for sentence in sentences:
            print(f"locks/{lock.name}: {sentence}")
        if status == NOT_ASKED:
            break  # the next would wait for the same
    sys.exit(worst)


if __name__ == "__main__":
    main()
