"""Look up what is locked among known vulnerabilities: `make audit`. It needs a network, and says so where there is none.

Example:
    $ python deploy/audit.py
    locks/serve.txt: no known vulnerability
    ...

Exit status: 0 where nothing is known, 1 where something is, 3 where nobody could be asked. That is no answer, and never a pass.
"""

from __future__ import annotations

import json
import subprocess
import sys

from locks import LOCKS

NOT_ASKED = 3


def audit(lock: str) -> tuple[int, list[str]]:
    """Return pip-audit's verdict on a lock: 0, 1 or NOT_ASKED, and its sentences."""
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run([*command, "--requirement", lock], capture_output=True, text=True)  # noqa: S603
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return NOT_ASKED, [f"NOT AUDITED, the advisories cannot be reached: {reason}"]
    found = [
        f"{each['name']} {each['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for each in packages
        for flaw in each.get("vulns", [])
    ]
    skipped = [f"{each['name']} was skipped: {each['skip_reason']}" for each in packages if "skip_reason" in each]
    return int(bool(found)), (found or ["no known vulnerability"]) + skipped


def main() -> None:
    worst = 0
    for lock in sorted(LOCKS.glob("*.txt")):
        verdict, sentences = audit(str(lock))
        worst = max(worst, verdict)
        for sentence in sentences:
            print(f"locks/{lock.name}: {sentence}")
        if verdict == NOT_ASKED:
            break  # the next would wait for the same
    sys.exit(worst)


if __name__ == "__main__":
    main()
