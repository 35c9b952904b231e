"""Helm for the tests: the machine's own, or built once from its Go module.

Example:
    >>> said(program(), "version", "--template", "{{.Version}}")
    'v3.19.0'

It is built into `build/services/helm`, or into the folder that HELM_TEST_PACKAGES names: some minutes once, with Go and
its module proxy, and without root.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.services.atomic_install import into_place
from tests.support.services.debian_packages import Unavailable, said

HERE = Path(__file__).parent
MODULE, VERSION = "helm.sh/helm/v3", "v3.19.0"


def program() -> Path:
    """Helm 3. Unavailable where it cannot be had."""
    if found := shutil.which("helm"):
        return Path(found)
    folder = Path(os.environ.get("HELM_TEST_PACKAGES") or HERE.parents[2] / "build/services/helm")
    if not folder.is_dir():
        _build(folder.absolute())
    return folder / "helm"


def _build(folder: Path) -> None:
    if not (go := shutil.which("go")):
        raise Unavailable(
            f"the tests of the chart need Helm 3, or Go to build {MODULE} {VERSION}: install one"
        )
    staged = folder.with_name(f"{folder.name}.{os.getpid()}")
    staged.mkdir(parents=True)
    (staged / "go.mod").write_text(f"module chart/helm\ngo 1.24.0\nrequire {MODULE} {VERSION}\n")
    building = os.environ | {"CGO_ENABLED": "0"}
    known = f"-X {MODULE}/pkg/chartutil.k8sVersionM"  # which Kubernetes `template` takes for granted
    stamp = f"-ldflags=-s -w -X {MODULE}/internal/version.version={VERSION} {known}ajor=1 {known}inor=34"
    try:
        fast = "-gcflags=all=-N -l"  # to build: 127 seconds of CPU, 193 without; it renders a chart once, not all day
        said(
            *(go, "build", "-mod=mod", stamp, fast, "-o", "helm", f"{MODULE}/cmd/helm"),
            cwd=staged,
            env=building,
        )
        into_place(staged, folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
