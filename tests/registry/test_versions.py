"""Which version of a bank is served, what was served before, and what a crash in between cannot spoil."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fingerprint.core import private_files
from fingerprint.core.errors import FingerprintError
from fingerprint.registry import versions
from fingerprint.registry.versions import VersionDecision

PUBLISH, BACK = (
    VersionDecision("publish", "2026-02-01T00:00:00Z", "ada", "because"),
    VersionDecision("rollback"),
)


def bank_folder(folder: Path, *names: str) -> Path:
    """Versions that were written in this order."""
    for age, name in enumerate(names):
        root = folder / "versions" / name
        root.mkdir(parents=True)
        (root / "manifest.json").write_text("{}")
        os.utime(root / "manifest.json", (1_700_000_000 + age,) * 2)
    return folder


def served(folder: Path, *names: str) -> Path:
    for name in names:
        versions.serve_version(folder, name, PUBLISH)
    return folder


def test_the_history_says_what_was_served_when_by_whom_and_why(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b"), "a", "b")
    assert versions.require_served_version(tmp_path) == "b"
    assert versions.decision_history(tmp_path) == [
        {
            "version": now,
            "before": was,
            "action": "publish",
            "at": PUBLISH.at,
            "by": "ada",
            "why": "because",
            "forced": False,
        }
        for was, now in ((None, "a"), ("a", "b"))
    ]


def test_serving_what_is_served_changes_nothing(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a"), "a", "a")
    assert len(versions.decision_history(tmp_path)) == 1


def test_rolling_back_twice_goes_back_two_versions_and_then_there_is_none(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b", "c")
    assert [versions.roll_back(tmp_path, BACK) for _ in range(2)] == ["b", "a"]
    with pytest.raises(FingerprintError, match="no version before a"):
        versions.roll_back(tmp_path, BACK)
    assert versions.require_served_version(tmp_path) == "a"


def test_after_a_rollback_the_next_one_published_rolls_back_to_where_it_was(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b")
    versions.roll_back(tmp_path, BACK)
    served(tmp_path, "c")
    assert versions.roll_back(tmp_path, BACK) == "a"


def test_who_died_between_the_line_and_the_pointer_has_served_nothing(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b", "c")
    (tmp_path / "CURRENT").write_text("b\n")  # as it was when the line of c was written
    assert versions.previous_version(tmp_path) == "a"
    served(tmp_path, "c")
    assert versions.previous_version(tmp_path) == "b"


def test_the_line_and_then_the_pointer_are_on_disk_before_it_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else CURRENT may be empty after a loss of power, and no program starts."""
    synced = []

    def fsync(descriptor: int) -> None:
        file = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append((file.name, file.read_text() if file.is_file() else sorted(os.listdir(file))))

    monkeypatch.setattr(os, "fsync", fsync)
    served(bank_folder(tmp_path, "a"), "a")
    (line, _), (staged, content), (folder, names) = synced
    assert (line, content, folder) == ("HISTORY.jsonl", "a\n", tmp_path.name)
    assert staged.startswith(private_files.STAGING_PREFIX)
    assert "CURRENT" in names
    assert staged not in names


def test_a_line_that_a_crash_cut_off_is_passed_over_and_the_next_one_is_whole(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b")
    file = tmp_path / "HISTORY.jsonl"
    file.write_bytes(file.read_bytes() + b'{"version": "c", "bef')
    served(tmp_path, "c")
    assert [line["version"] for line in versions.decision_history(tmp_path)] == ["a", "b", "c"]
    assert versions.previous_version(tmp_path) == "b"


@pytest.mark.parametrize("line", ["[]", '"a"', '{"version": 3}', "\udcff", "", "[" * 100_000])
def test_lines_that_are_none_spoil_no_history(tmp_path: Path, line: str) -> None:
    served(bank_folder(tmp_path, "a", "b"), "a")
    with (tmp_path / "HISTORY.jsonl").open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")
    served(tmp_path, "b")
    assert versions.previous_version(tmp_path) == "a"


def test_a_refusal_is_in_the_history_and_is_never_rolled_back_to(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a")
    versions.append_decision(tmp_path, "b", VersionDecision("refused", why="it finds nothing"))
    served(tmp_path, "c")
    assert versions.decision_history(tmp_path)[1]["why"] == "it finds nothing"
    assert versions.roll_back(tmp_path, BACK) == "a"


def test_old_versions_are_retired_but_never_what_is_served_or_was_before(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c", "d", "e"), "b", "a")
    assert sorted(versions.remove_old_versions(tmp_path, 2)) == ["c"]
    assert versions.list_bank_versions(tmp_path) == ["e", "d", "b", "a"]
    assert versions.roll_back(tmp_path, BACK) == "b"


def test_versions_that_were_refused_do_not_retire_those_that_were_served(tmp_path: Path) -> None:
    """A fortnight of refusals, and the served ones are there to go back to and to measure drift from."""
    good, refused = ["a", "b", "c", "d"], [f"r{night:02}" for night in range(14)]
    served(bank_folder(tmp_path, *good, *refused), *good)
    for version in refused:
        versions.append_decision(tmp_path, version, VersionDecision("refused", "2026-01-01", "maria", "why"))
    assert sorted(versions.remove_old_versions(tmp_path, 3)) == ["a", *refused[:-3]]
    assert versions.list_served_versions(tmp_path) == ["d", "c", "b"]
    assert versions.list_bank_versions(tmp_path) == [*refused[:-4:-1], "d", "c", "b"]


def test_versions_that_were_refused_are_not_among_those_that_were_served(tmp_path: Path) -> None:
    """Slow drift is measured from one that was served: after five refusals it was measured from a refused one."""
    served(bank_folder(tmp_path, "a", "b", "r1", "r2", "c"), "a", "b")
    for version in ("r1", "r2"):
        versions.append_decision(tmp_path, version, VersionDecision("refused", "2026-01-01", "maria", "why"))
    served(tmp_path, "c", "a")
    assert versions.list_served_versions(tmp_path) == ["a", "c", "b"]
    assert versions.list_served_versions(tmp_path / "nothing") == []


def test_what_killed_writers_left_is_removed_with_old_versions(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "b", "c")
    root, newest = tmp_path / "versions", 1_700_000_002
    left = [".staged-12", ".staged-12.replaced", ".staged-file"]
    fresh, foreign = ".staged-13", [".nfs0001", ".other.old"]
    for name in (*left, fresh, *foreign, ".a.retired"):
        if "json" in name:
            (root / name).write_text("{}")
        else:
            (root / name / "part").mkdir(parents=True)
        age = 3_600 if name in (fresh, ".a.retired") else 90_000
        os.utime(root / name, (newest - age,) * 2)
    assert versions.remove_old_versions(tmp_path, 1) == ["a"]
    assert {each.name for each in root.iterdir()} == {"b", "c", fresh, *foreign}


def test_rolling_back_to_what_was_retired_names_what_is_kept(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b", "c")
    versions.remove_old_versions(tmp_path, 1)
    assert versions.roll_back(tmp_path, BACK) == "b"
    with pytest.raises(FingerprintError, match=r"no version 'a' \(kept: c, b\)"):
        versions.roll_back(tmp_path, BACK)


def test_a_version_that_is_retired_while_versions_are_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer that opens a bank lists its versions without a lock: it must not stop over an old one."""
    bank_folder(tmp_path, "a", "b")
    stat, looks = Path.stat, []

    def stat_once(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        if path.parent.name == "a":
            looks.append(path)
            path.unlink()
        return found

    monkeypatch.setattr(Path, "stat", stat_once)
    assert versions.list_bank_versions(tmp_path) == ["b", "a"]
    assert versions.list_bank_versions(tmp_path) == ["b"]
    assert len(looks) == 1


def test_a_version_that_was_retired_since_it_was_looked_at_is_not_served(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c", "d"), "b", "c", "d")
    assert versions.remove_old_versions(tmp_path, 1) == ["b", "a"]
    with pytest.raises(FingerprintError, match=r"no version 'a' \(kept: d, c\)"):
        versions.serve_version(tmp_path, "a", PUBLISH)
    assert versions.require_served_version(tmp_path) == "d"
    assert len(versions.decision_history(tmp_path)) == 3


def test_a_version_is_not_rolled_back_to_where_another_one_was_expected(tmp_path: Path) -> None:
    served(bank_folder(tmp_path, "a", "b", "c"), "a", "b", "c")
    with pytest.raises(FingerprintError, match="c was served while a was checked"):
        versions.roll_back(tmp_path, BACK, expected="a")
    assert versions.require_served_version(tmp_path) == "c"
    assert versions.roll_back(tmp_path, BACK, expected="b") == "b"


def test_versions_that_are_not_served_are_told_from_no_bank_at_all(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="fingerprint train"):
        versions.require_served_version(tmp_path)
    with pytest.raises(FingerprintError, match="fingerprint bank list"):
        versions.require_served_version(bank_folder(tmp_path, "a"))


@pytest.mark.parametrize("name", ["../../etc", "b", "", ".", "a\0b"])
def test_a_version_that_is_not_kept_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FingerprintError, match="kept: a"):
        versions.version_folder(bank_folder(tmp_path, "a"), name)


def test_many_who_decide_at_once_leave_one_line_each_and_a_chain_without_gaps(tmp_path: Path) -> None:
    names = [f"v{number:02}" for number in range(24)]
    bank_folder(tmp_path, *names)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: versions.serve_version(tmp_path, name, PUBLISH), names))
    lines = [json.loads(line) for line in (tmp_path / "HISTORY.jsonl").read_text().splitlines()]
    assert sorted(line["version"] for line in lines) == names
    assert [line["before"] for line in lines] == [None, *(line["version"] for line in lines[:-1])]
    assert versions.require_served_version(tmp_path) == lines[-1]["version"]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FingerprintError, match="cannot write the bank"):
        versions.serve_version(tmp_path / "file" / "bank", "a", PUBLISH)
