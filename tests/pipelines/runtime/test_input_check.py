"""Input that is not CloudTrail is an error with exit status 2 and the most frequent reason, never a quiet day."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from fingerprint.adapters import files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import ALL_TIME
from pipelines import cli, replay
from pipelines.cli.console import no_progress
from pipelines.runtime import input_check, wiring
from tests.streaming.test_rekeying import record
from tests.support import sample_organisation
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_clients import on


def write_csv(folder: Path) -> Path:
    file = folder / "events.csv"
    file.write_text("eventTime,eventName,user\n2026-01-14T10:00:00Z,GetUser,maria\n")
    return file


def write_zip(folder: Path) -> Path:
    file = folder / "events.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.json", '{"Records": []}')
    return file


def write_zipped_csv(folder: Path) -> Path:
    file = folder / "t.csv.gz"
    file.write_bytes(gzip.compress(write_csv(folder).read_bytes()))
    return file


def write_zipped_tar(folder: Path) -> Path:
    file = folder / "t.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(write_csv(folder), "events.csv")
    return file


def write_google_log(folder: Path) -> Path:
    record = {"protoPayload": {"methodName": "x"}, "timestamp": "2026-01-14T10:00:00Z"}
    return sample_organisation.write(folder / "google.jsonl", [record] * 3)


def write_other_json(folder: Path) -> Path:
    return sample_organisation.write(folder / "other.jsonl", [{"level": "info", "text": "started"}])


def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return the error of a command that ends with status 2."""
    monkeypatch.setattr(sys, "argv", ["fingerprint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (write_csv, "a table (CSV)"),
        (write_zip, "a ZIP archive"),
        (write_zipped_csv, "a table (CSV)"),
        (write_zipped_tar, "a tar archive"),
        (write_google_log, "an audit log of Google Cloud"),
        (write_other_json, "no usable eventTime"),
    ],
)
@pytest.mark.parametrize("command", ["score", "train"])
def test_a_file_of_another_kind_is_refused_with_the_most_frequent_reason(
    command: str,
    write,
    reason: str,
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    bank = organisation.bank if command == "score" else tmp_path / "bank"
    error = refusal(monkeypatch, capsys, command, write(tmp_path), "--bank", bank, "--json")
    assert "nothing in the input is a CloudTrail record" in error
    assert reason in error


def test_random_bytes_look_like_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = tmp_path / "noise.jsonl"
    noise.write_bytes(bytes(range(128, 256)) + b",,,\n")
    error = refusal(monkeypatch, capsys, "train", noise, "--bank", tmp_path / "bank", "--json")
    assert "nothing in the input is a CloudTrail record" in error
    assert "CSV" not in error


def test_workers_refuse_the_same(
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ("--bank", organisation.bank, "--workers", "dask")
    error = refusal(monkeypatch, capsys, "score", write_csv(tmp_path), "--json", *where)
    assert "nothing in the input is a CloudTrail record" in error


NO_EVENTS = {
    "empty.json": (b"", "it holds no record"),
    "records.json": (b'{"Records":[]}', "it holds no record"),
    "list.json": (b"[]", "it holds no record"),
    "digest.json": (
        b'{"awsAccountId":"111122223333","digestStartTime":"2026-01-14T10:00:00Z","logFiles":[]}',
        "1 skipped, because CloudTrail writes them beside its events (digest files)",
    ),
    "later.jsonl": (
        b'{"eventID":"e","eventTime":"2090-01-14T10:00:00Z","eventSource":"s3.amazonaws.com","eventName":"ListBuckets",'
        b'"userIdentity":{"type":"IAMUser","accountId":"111122223333","userName":"alice"}}',
        "all of its events are dated in the future; is the clock of this machine right?",
    ),
}


@pytest.mark.parametrize("name", NO_EVENTS)
@pytest.mark.parametrize("command", ["score", "train"])
def test_input_without_any_event_is_refused_and_says_what_it_holds(
    command: str,
    name: str,
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    content, reason = NO_EVENTS[name]
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    bank = organisation.bank if command == "score" else tmp_path / "new" / "bank"
    error = refusal(monkeypatch, capsys, command, tmp_path / name, "--bank", bank, "--json")
    assert error == f"fingerprint: there is no event in the input: {reason}"
    assert not (tmp_path / "new").exists()  # a training that failed leaves no empty bank


def test_a_run_that_goes_on_from_a_state_may_read_nothing(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    for name, (content, _) in NO_EVENTS.items():
        (tmp_path / name).write_bytes(content)
        ran = sample_organisation.run(
            [tmp_path / name], organisation.bank, tmp_path, scorer_state=tmp_path / "state"
        )
        assert ran.figures["events"] == 0


def test_single_bad_files_are_not_refused(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    mixed = sample_organisation.run(
        [organisation.new[0], write_csv(tmp_path)], organisation.bank, tmp_path / "b"
    )
    assert mixed.figures["events"] > 0
    assert mixed.figures["rejects"] == 1


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="the folder is empty"):
        files.find_files([str(tmp_path)])


def test_a_folder_with_other_files_says_so(tmp_path: Path) -> None:
    write_csv(tmp_path)
    with pytest.raises(FingerprintError, match=r"no files of records .* such as events\.csv"):
        files.find_files([str(tmp_path)])


def test_the_name_of_another_file_is_told_harmless_and_short(tmp_path: Path) -> None:
    (tmp_path / f"evil\x1b[2J\u202e{'x' * 200}.csv").touch()
    with pytest.raises(FingerprintError, match=r"such as evil\\x1b\[2J\\u202ex{80,90}…$") as refused:
        files.find_files([str(tmp_path)])
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "command",
    [("score",), ("score", "--workers", "dask"), ("train",), ("explain", "--event", "e1")],
    ids=" ".join,
)
def test_files_that_a_folder_has_beside_the_records_are_told_once(
    command: tuple[str, ...],
    organisation: sample_organisation.SampleOrganisation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    write_other_json(folder)
    for name in ("a.csv", "b.csv", "c.parquet"):
        (folder / name).touch()
    monkeypatch.chdir(tmp_path)
    bank = tmp_path / "bank" if command == ("train",) else organisation.bank
    monkeypatch.setattr(sys, "argv", ["fingerprint", *command, str(folder), "--bank", str(bank), "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    told = [line for line in capsys.readouterr().err.splitlines() if "passed over" in line]
    assert told == ["passed over 3 files not named as CloudTrail records: 2 .csv, 1 .parquet"]


def test_a_replay_tells_what_it_passes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_other_json(tmp_path)
    (tmp_path / "README").touch()
    monkeypatch.setattr(wiring, "open_producer", lambda _: nullcontext())
    monkeypatch.setattr(replay, "replay_records", lambda *_: {})
    replay.run_replay([str(tmp_path)], None, Settings(), no_progress)
    assert (
        capsys.readouterr().err == "passed over 1 file not named as CloudTrail records: 1 without a suffix\n"
    )


def test_a_replay_lists_its_sources_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket of years is listed for minutes."""
    broker, listed = MemoryBroker(), []
    broker.create_topic("raw")
    listing = files._list_source
    monkeypatch.setattr(files, "_list_source", lambda *given: listed.append(given[1]) or listing(*given))
    sources = [sample_organisation.write(tmp_path / name, [record(0)]) for name in ("a.jsonl", "b.jsonl")]
    settings = Settings.model_validate({"kafka": on(broker)})
    figures = replay.run_replay([str(each) for each in sources], "raw", settings, no_progress)
    assert (figures["records"], listed) == (2, [str(each) for each in sources])


def test_suffixes_of_files_are_told_harmless_and_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who may write to a folder chooses the names in it."""
    hostile = [".evil\x1b[2J\u202e\n", f".{'x' * 200}"]
    names = [f"{number}{suffix}" for suffix in hostile for number in range(2)]
    for name in ("a.jsonl", *names, *(f"{number}.s{number}" for number in range(9))):
        (tmp_path / name).touch()
    input_check.report_passed_over(files.find_files_in_span([str(tmp_path)], ALL_TIME))
    told = capsys.readouterr().err
    assert told.startswith("passed over 13 files not named as CloudTrail records: 2 .")
    assert f"2 .{'x' * 18}…" in told
    assert r"2 .evil\x1b[2j\u202e\…" in told
    assert told.endswith(", 6 others\n")
    assert told[:-1].isprintable()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_an_unreadable_folder_says_permission_denied(tmp_path: Path) -> None:
    """Run as another user: root reads everything."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o700)
    sample_organisation.write(folder / "in.jsonl", [{"eventName": "x"}])
    code = (
        "import os, sys\n"
        "from fingerprint.adapters import files\n"
        "for above in sys.argv[2:]: os.chmod(above, 0o755)\n"
        "os.setuid(65534)\n"
        "files.find_files([sys.argv[1]])"
    )
    above = [each for each in folder.parents if not each.stat().st_mode & stat.S_IXOTH]
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, str(folder), *map(str, above)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "permission denied" in ended.stderr.lower()


def test_a_first_bank_without_a_ready_entity_is_kept_and_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"eventTime": "2026-01-14T10:00:00Z", "eventSource": "iam.amazonaws.com", "eventName": "GetUser"}
    identity = {"type": "IAMUser", "arn": "arn:aws:iam::111122223333:user/maria", "accountId": "111122223333"}
    minutes = [
        record | {"eventTime": f"2026-01-14T10:0{n}:00Z", "eventID": f"e{n}", "userIdentity": identity}
        for n in range(6)
    ]
    source = sample_organisation.write(tmp_path / "five_minutes.jsonl", minutes)
    monkeypatch.chdir(tmp_path)

    def train(*more: str) -> tuple[int, str, str]:
        monkeypatch.setattr(
            sys, "argv", ["fingerprint", "train", str(source), "--bank", "bank", "--json", *more]
        )
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    status, out, error = train()
    assert status == 3
    assert not json.loads(out)["served"]
    assert "no entity is ready" in error
    assert "--allow-immature" in error
    status, out, _ = train("--allow-immature")
    assert (status, json.loads(out)["served"]) == (0, True)
