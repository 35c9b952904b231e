"""Secrets are made once, whole, and never shown."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from pipelines.commands.secrets import DEFAULT_NAMES, create_secrets, print_secrets, rotate_secrets
from tests.support.forked import fingerprint


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_missing_is_made_for_its_owner_and_for_the_group_where_others_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "secrets"
    before = os.umask(0o077)
    try:
        made = create_secrets(folder, DEFAULT_NAMES)
    finally:
        os.umask(before)
    assert made == [{"name": name, "did": "made"} for name in ("database-password", "triton-control")]
    assert mode(folder) == 0o750
    assert {name: mode(folder / name) for name in DEFAULT_NAMES} == {
        "database-password": 0o440,
        "triton-control": 0o400,
    }
    assert sorted(os.listdir(folder)) == sorted(DEFAULT_NAMES)  # nothing half done is left


def test_each_may_lie_in_a_folder_of_its_own_so_that_one_can_be_mounted_without_the_others(
    tmp_path: Path,
) -> None:
    names = ["store/database-password", "triton/triton-control"]
    assert [row["did"] for row in create_secrets(tmp_path, names) + create_secrets(tmp_path, names)] == [
        "made"
    ] * 2 + ["kept"] * 2
    assert (tmp_path / "triton" / "triton-control").read_text().startswith("fingerprint-control=")
    assert [mode(tmp_path / name) for name in names] == [0o440, 0o400]
    assert {mode(tmp_path / name) for name in ("store", "triton")} == {0o750}
    rotate_secrets(tmp_path, names[:1])
    assert os.listdir(tmp_path / "triton") == ["triton-control"]


def test_a_secret_is_long_random_and_of_the_form_its_reader_wants(tmp_path: Path) -> None:
    for number in range(5):
        create_secrets(tmp_path / str(number), DEFAULT_NAMES)
    passwords = {(tmp_path / str(number) / "database-password").read_text() for number in range(5)}
    assert len(passwords) == 5
    assert {len(each) for each in passwords} == {43}  # 32 bytes in base64
    header, _, value = (tmp_path / "0" / "triton-control").read_text().partition("=")
    assert (header, len(value)) == ("fingerprint-control", 43)


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "database-password").write_text("chosen by someone")
    made = create_secrets(tmp_path, DEFAULT_NAMES)
    again = create_secrets(tmp_path, DEFAULT_NAMES)
    assert [row["did"] for row in made] == ["kept", "made"]
    assert [row["did"] for row in again] == ["kept", "kept"]
    assert (tmp_path / "database-password").read_text() == "chosen by someone"


def test_of_programs_that_start_together_one_makes_it_and_all_read_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create_secrets(tmp_path, ["database-password"])[0]["did"], range(40)))
    assert sorted(made) == ["kept"] * 39 + ["made"]
    assert os.listdir(tmp_path) == ["database-password"]


def test_an_empty_file_is_no_secret_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "database-password").touch()
    with pytest.raises(FingerprintError, match="database-password exists and holds no secret: remove it"):
        create_secrets(tmp_path, DEFAULT_NAMES)


@pytest.mark.parametrize(
    "wrong", ["../database-password", "", "a b", ".hidden", "database-password.old", "a/../b", "a/b/c"]
)
def test_a_name_that_is_no_plain_file_is_refused(tmp_path: Path, wrong: str) -> None:
    for work in (create_secrets, rotate_secrets):
        with pytest.raises(FingerprintError, match="is no name of a secret"):
            work(tmp_path / "secrets", [wrong])
    assert not list(tmp_path.iterdir())


def test_a_new_value_leaves_the_old_one_beside_it_for_its_owner(tmp_path: Path) -> None:
    create_secrets(tmp_path, DEFAULT_NAMES)
    first = {name: (tmp_path / name).read_text() for name in DEFAULT_NAMES}
    for _ in range(2):
        old = (tmp_path / "database-password").read_text()
        assert rotate_secrets(tmp_path, ["database-password"]) == [
            {"name": "database-password", "did": "rotated"}
        ]
        assert (tmp_path / "database-password").read_text() != old
        assert (tmp_path / "database-password.old").read_text() == old
    assert (mode(tmp_path / "database-password"), mode(tmp_path / "database-password.old")) == (0o440, 0o400)
    assert (tmp_path / "triton-control").read_text() == first["triton-control"]


def test_anyone_who_reads_while_a_secret_is_changed_reads_one_of_the_two(tmp_path: Path) -> None:
    create_secrets(tmp_path, ["database-password"])
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(lambda: [rotate_secrets(tmp_path, ["database-password"]) for _ in range(50)])
        read = [(tmp_path / "database-password").read_text()]
        while not changing.done():
            read.append((tmp_path / "database-password").read_text())
        changing.result()
    assert {len(each) for each in read} == {43}


def test_only_names_are_ever_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_secrets(create_secrets(tmp_path, DEFAULT_NAMES) + rotate_secrets(tmp_path, ["database-password"]))
    assert capsys.readouterr().out == (
        "made       database-password\nmade       triton-control\nrotated    database-password\n"
    )


def test_the_command_makes_both_and_changes_one(tmp_path: Path) -> None:
    def command(*arguments: str) -> str:
        process = fingerprint("secrets", "make", str(tmp_path), *arguments, environment=os.environ)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out

    assert [row["did"] for row in json.loads(command("--json"))] == ["made", "made"]
    assert command("--rotate", "triton-control") == "rotated    triton-control\n"
    assert command("web-cookie") == "made       web-cookie\n"
