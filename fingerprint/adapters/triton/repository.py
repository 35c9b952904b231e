"""The model repository that a Triton server serves, filled from banks.

Example:
    >>> repository = ModelRepository(Path("triton"), instances=2)
    >>> number = repository.add_version(Path("bank"))
    >>> repository.set_served_versions([number])

    triton/fingerprint/
      config.pbtxt                  models/fingerprint/config.pbtxt, how many instances, which versions; replaced as a whole
      <number of a bank version>/   (`detection.triton_model.version_number`)
        model.py                    models/fingerprint/model.py, as this installation has it
        bank/                       CURRENT and versions/<version>/: hard links to the bank's files if possible, else copies

What is there is complete: a version is made beside and moved into place. The official container serves the same folder. This
module needs no client of Triton's.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fingerprint.core import private_files, settings
from fingerprint.core.errors import FingerprintError
from fingerprint.detection.triton_model import version_number
from fingerprint.registry import signatures
from fingerprint.registry.bank_files import DEFAULT_OPTIONS, open_bank
from fingerprint.registry.versions import LEFTOVER_SECONDS

MODEL_NAME = "fingerprint"
_PACKAGE_FOLDER = Path(__file__).parents[2]
# In an installed wheel, in a checkout
_TEMPLATES = (_PACKAGE_FOLDER / "_models" / MODEL_NAME, _PACKAGE_FOLDER.parent / "models" / MODEL_NAME)
_SERVED_VERSIONS_LINE = re.compile(
    r"^version_policy \{ specific \{ versions: \[ ([\d, ]*) \] \} \}$", re.MULTILINE
)
_INSTANCE_COUNT = re.compile(r"(?<=KIND_AUTO )count: \d+")


class ModelRepository:
    """One folder, filled by one program at a time."""

    def __init__(self, folder: Path, instances: int = 2) -> None:
        self.folder, self.instances = folder / MODEL_NAME, instances

    def served_versions(self) -> list[int]:
        """Return the numbers of the versions that the server is told to serve, the newest last."""
        try:
            found = _SERVED_VERSIONS_LINE.search((self.folder / "config.pbtxt").read_text())
        except FileNotFoundError:
            return []
        return [int(each) for each in found[1].split(",")] if found else []

    def bank_versions(self) -> dict[int, str]:
        """Return the bank version of each number that is here, served or not."""
        here = [each for each in self.folder.glob("*/bank/CURRENT") if each.parts[-3].isdecimal()]
        return {int(each.parts[-3]): each.read_text().strip() for each in here}

    def add_version(self, bank: Path, options: settings.Bank = DEFAULT_OPTIONS) -> int:
        """Put the bank's current version here, verified, not served yet; return its number.

        The versions that are served are brought up to date, too: a server that cannot load one version refuses all. Raise
        FingerprintError if the bank is damaged, or not signed as `options` demand.
        """
        version = open_bank(bank, options).version
        target = self.folder / str(version_number(version))
        staged = self._hidden_path()
        try:
            if not target.exists():
                self._fill(staged, bank, version)
                staged.rename(target)
            versions = self.bank_versions()
            for number in {version_number(version), *self.served_versions()} & versions.keys():
                self._update(self.folder / str(number), bank, versions[number])
        except OSError as error:
            raise FingerprintError(
                f"cannot write the model repository {self.folder}: {error.strerror or error}"
            ) from None
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return version_number(version)

    def _fill(self, staged: Path, bank: Path, version: str) -> None:
        inside = staged / "bank" / "versions"
        inside.mkdir(parents=True)
        shutil.copytree(bank / "versions" / version, inside / version, copy_function=_link_or_copy)
        (staged / "bank" / "CURRENT").write_text(version + "\n")
        shutil.copyfile(_template_file("model.py"), staged / "model.py")

    def _update(self, target: Path, bank: Path, version: str) -> None:
        """Bring model.py and the signatures up to date: an older image's may not fit, an older key's may not count.

        Of a bank's version, nothing else is ever written again.
        """
        self._replace(target / "model.py", _template_file("model.py"))
        signed = Path("versions", version, signatures.SIGNATURES_FILE)
        if (bank / signed).exists():
            self._replace(target / "bank" / signed, bank / signed)

    def _replace(self, target: Path, source: Path) -> None:
        """Copy a file over another one as a whole: the server may be reading it."""
        copy = partial(shutil.copyfile, source)
        private_files.replace_file(target, copy, staged_in=self.folder)

    def set_served_versions(self, numbers: Sequence[int]) -> None:
        """Set which versions are served, the newest last; none: there is no model here."""
        config = self.folder / "config.pbtxt"
        if not numbers:
            config.unlink(missing_ok=True)
            return
        policy = f"version_policy {{ specific {{ versions: [ {', '.join(map(str, numbers))} ] }} }}"
        config_text = _INSTANCE_COUNT.sub(
            f"count: {self.instances}", _template_file("config.pbtxt").read_text()
        )
        private_files.replace_file(config, lambda staged: staged.write_text(f"{config_text}\n{policy}\n"))

    def remove_unserved(self) -> None:
        """Remove versions that are not served, and what killed programs left.

        A server that still has a version open keeps what it has mapped.
        """
        served = {str(number) for number in self.served_versions()}
        for each in self.folder.glob("[0-9]*"):
            if each.name.isdecimal() and each.name not in served:
                with suppress(OSError):
                    # A half-removed version must not look like one.
                    shutil.rmtree(each.rename(self._hidden_path()))
        for each in self._leftovers():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)

    def _leftovers(self) -> Iterator[Path]:
        """Yield what is being made or removed for more than a day, because no program takes that long."""
        for each in self.folder.glob(f"{private_files.STAGING_PREFIX}*"):
            with suppress(FileNotFoundError):  # an active writer may have moved it
                if time.time() - each.lstat().st_mtime > LEFTOVER_SECONDS:
                    yield each

    def _hidden_path(self) -> Path:
        """Return a new path for a folder that is being made or removed."""
        return self.folder / f"{private_files.STAGING_PREFIX}{secrets.token_hex(8)}"


def _template_file(name: str) -> Path:
    for place in _TEMPLATES:
        if (place / name).is_file():
            return place / name
    raise FingerprintError(
        f"models/{MODEL_NAME}/{name} is missing from this installation: install the package again"
    )


def _link_or_copy(source: str, target: str) -> None:
    """Give a file a second name; copy it where the file systems differ. Files of a bank are never written again."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
