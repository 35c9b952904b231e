"""The model repository of Triton: what is there is whole, also after a program that filled it was killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from fingerprint.adapters.triton.repository import ModelRepository
from fingerprint.detection.triton_model import open_numbered_bank
from tests.support.sample_organisation import SampleOrganisation


@pytest.fixture
def repository(organisation: SampleOrganisation, tmp_path: Path) -> ModelRepository:
    """A repository in which the organisation's bank is served."""
    filled = ModelRepository(tmp_path / "served")
    filled.set_served_versions([filled.add_version(organisation.bank)])
    return filled


def names(repository: ModelRepository) -> set[str]:
    return {each.name for each in repository.folder.iterdir()}


def test_a_version_whose_removal_was_broken_off_is_filled_again(
    repository: ModelRepository, organisation: SampleOrganisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for whole: a rollback to it was refused by the server until someone deleted the folder."""
    [number] = repository.served_versions()

    def killed(folder: Path, **_: object) -> None:
        next(Path(folder).rglob("stack*.safetensors")).unlink()
        raise KeyboardInterrupt

    repository.set_served_versions([])
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            repository.remove_unserved()
    assert repository.add_version(organisation.bank) == number
    assert open_numbered_bank(repository.folder / str(number) / "bank", number)


def test_what_killed_programs_left_is_removed_after_a_day(repository: ModelRepository) -> None:
    whole, left = names(repository), {".staged-folder", ".staged-file", ".lost"}
    (repository.folder / ".staged-folder" / "bank").mkdir(parents=True)
    (repository.folder / ".staged-file").touch()
    (repository.folder / ".lost").mkdir()
    repository.remove_unserved()
    assert names(repository) == whole | left, "another program may be writing it"
    for name in left:
        os.utime(repository.folder / name, (0, time.time() - 25 * 3600))
    repository.remove_unserved()
    assert names(repository) == whole | {".lost"}, "which is none of ours"
