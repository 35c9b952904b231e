"""A bank on disk: what is in it, what is refused, and by which name."""

from __future__ import annotations

import json
import mmap
import re
import shutil
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fingerprint.compute import hashing, mapped_arrays
from fingerprint.compute.arrays import identity_placement
from fingerprint.core.errors import FingerprintError
from fingerprint.estimators.call_paths import KnownPaths
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, versions
from fingerprint.sources.active import SOURCE
from tests.support import sample_organisation
from tests.support.sample_organisation import SETTINGS, SampleOrganisation


@pytest.fixture
def bank(organisation: SampleOrganisation, tmp_path: Path) -> Path:
    return Path(shutil.copytree(organisation.bank, tmp_path / "bank"))


def version_of(bank: Path) -> Path:
    return bank / "versions" / (bank / "CURRENT").read_text().strip()


def test_training_says_how_many_entities_are_ready_and_what_the_others_fall_back_to(
    organisation: SampleOrganisation,
) -> None:
    figures = organisation.trained
    waiting = figures["waiting"]
    stack = bank_files.open_bank(organisation.bank).fingerprints
    assert figures["ready"]["entity"] + waiting["entities"] == (stack["level"] == 0).sum()
    assert (
        sum(waiting["fall_back_to"].values()) == waiting["entities"] == sum(waiting["ready_in_days"].values())
    )
    assert figures["records"] == sum(figures[name] for name in ("events", "rejects", "duplicates", "skipped"))


def test_every_entity_falls_back_to_its_own_principal_and_that_to_its_peers(
    organisation: SampleOrganisation,
) -> None:
    stack = bank_files.open_bank(organisation.bank).fingerprints
    parents = stack.loc[stack["parent"].clip(lower=0)].reset_index(drop=True)
    entities = stack["level"] == 0
    assert (parents["key"][entities] == stack["key"][entities].str.split("|").str[0]).all()
    assert (parents["level"][1:] > stack["level"][1:]).all()


def test_the_first_event_finds_all_lookup_tables_built(organisation: SampleOrganisation) -> None:
    """Those of a large bank take longer than an event may."""
    bank = bank_files.open_bank(organisation.bank).with_lookups_built()
    built = set(vars(bank))
    stranger = pd.DataFrame({"principal": ["123456789012:user/unheard-of"], "kind": ["user"], "role": [None]})
    principal = hashing.hash_with_bucket(stranger["principal"])
    row, _ = bank.resolve(principal, principal, stranger)
    assert bank.whole[row] == -1
    assert bank.peers[row] >= -1
    assert not bank.knows_account_of(stranger["principal"].iloc[0])
    assert bank.same_person(str(bank.people["principal"].iloc[0])) is not None
    assert bank.value_texts(bank.words["code"].to_numpy()[:1])
    assert set(vars(bank)) == built | {"on_host"}


def test_a_person_is_known_at_the_roles_that_were_learned_and_by_their_fingerprints(
    organisation: SampleOrganisation,
) -> None:
    bank = bank_files.open_bank(organisation.bank)
    people = [each for each in bank.people["principal"] if SOURCE.person_and_access(each)[0]]
    assert people
    ready = set(bank.fingerprints["key"][bank.fingerprints["ready"] & (bank.fingerprints["level"] == 1)])
    for principal in people:
        person, _ = SOURCE.person_and_access(principal)
        names, rows = bank.same_person(f"1:role/New/{person.upper()}")
        same = {each for each in people if SOURCE.person_and_access(each)[0].casefold() == person.casefold()}
        assert set(names) == same
        assert set(bank.fingerprints["key"].iloc[rows]) == same & ready
        assert set(bank.same_person(principal)[0]) == same - {principal}
    assert bank.same_person("1:role/New/eve")[0] == bank.same_person("1:user/ann")[0] == []


def test_a_bank_knows_the_accounts_of_its_principals(organisation: SampleOrganisation) -> None:
    bank = bank_files.open_bank(organisation.bank, SETTINGS.bank)
    own = bank.people["principal"].str.partition(":")[0].unique().tolist()
    asked = hashing.hash_strings(pd.Series([*own, "999988887777", ""], dtype=object))
    assert bank.knows_account(asked).tolist() == [True] * len(own) + [False, False]


def test_a_bank_does_not_know_the_account_of_who_called_from_outside(
    organisation: SampleOrganisation,
) -> None:
    bank = bank_files.open_bank(organisation.bank, SETTINGS.bank)
    people = bank.people.astype({"principal": object, "kind": object})
    for kind, is_known in (("role", True), ("account", False)):
        first = people.iloc[:1].assign(principal=f"999988887777:{kind}/AROA1", kind=kind)
        other = replace(bank, people=pd.concat([people, first], ignore_index=True))
        asked = hashing.hash_strings(pd.Series(["999988887777"], dtype=object))
        assert other.knows_account(asked).tolist() == [is_known]


def test_a_bank_holds_no_ids(organisation: SampleOrganisation) -> None:
    records = [json.loads(line) for line in sample_organisation.lines_of(organisation.learned)]
    ids = {str(record.get(name)).encode() for record in records for name in ("eventID", "requestID")}
    ids |= {str(record["userIdentity"].get("accessKeyId")).encode() for record in records}
    ids -= {b"None", b""}
    stored = b"".join(file.read_bytes() for file in version_of(organisation.bank).glob("*.safetensors"))
    stored += b"".join(
        pd.read_parquet(file).to_json().encode() for file in version_of(organisation.bank).glob("*.parquet")
    )
    assert len(ids) > 1000
    assert all(re.fullmatch(rb"[\w-]{16,}", each) for each in ids)
    words = b" ".join(re.findall(rb"[\w-]{16,}", stored))  # whatever could hold one
    assert not [each for each in ids if each in words]
    assert not [
        name for name in bank_files.open_bank(organisation.bank).scorer_state if name.startswith("repeats")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "fingerprints.parquet",
        "people.parquet",
        "words.parquet",
        "stack.safetensors",
        "scorer_state.safetensors",
    ],
)
def test_one_flipped_bit_in_a_bank_is_refused_by_the_name_of_the_file(bank: Path, name: str) -> None:
    file = version_of(bank) / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(FingerprintError, match=name):
        bank_files.open_bank(bank)


def test_a_bank_without_one_of_its_files_is_refused_by_the_name_of_the_file(bank: Path) -> None:
    (version_of(bank) / "words.parquet").unlink()
    with pytest.raises(FingerprintError, match=r"lacks words\.parquet"):
        bank_files.open_bank(bank)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format": 3}', '{"files": 3, "format": 3}', '{"files": {"a": 3}, "format": 3}', "\x00"],
)
def test_a_manifest_that_is_none_is_refused(bank: Path, content: str) -> None:
    (version_of(bank) / "manifest.json").write_text(content)
    with pytest.raises(FingerprintError, match="manifest"):
        bank_files.open_bank(bank)


@pytest.mark.parametrize(
    ("change", "way_out"),
    [
        ({"format": 2}, r"reads \d+: train it again"),
        ({"format": 99}, r"reads \d+: upgrade this program, or train it again"),
        ({"features": ["action", "moon"]}, "train it again"),
    ],
)
def test_a_bank_of_another_format_or_with_other_features_is_refused(
    bank: Path, change: dict[str, object], way_out: str
) -> None:
    file = version_of(bank) / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FingerprintError, match=way_out):
        bank_files.open_bank(bank)


def test_a_bank_from_before_call_paths_is_read_and_has_none(bank: Path) -> None:
    file = version_of(bank) / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 17}))
    older = bank_files.open_bank(bank).scorer_state
    without = {name: array for name, array in older.items() if not name.startswith("path.")}
    assert not len(KnownPaths.from_bank(without, identity_placement).table)


@pytest.mark.parametrize("content", ["", "../../etc", "2020-01-01-00000000", "a\0b", "\udcff"])
def test_a_pointer_that_names_no_version_is_refused(bank: Path, content: str) -> None:
    (bank / "CURRENT").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FingerprintError, match="bank"):
        bank_files.open_bank(bank)


def test_a_folder_without_a_bank_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="fingerprint train"):
        bank_files.open_bank(tmp_path)


def test_publishing_again_changes_nothing_and_mends_what_was_damaged(
    organisation: SampleOrganisation, bank: Path
) -> None:
    good = bank_files.open_bank(organisation.bank)
    bank_files.publish_version(good, bank)
    before = {file: file.read_bytes() for file in sorted(bank.rglob("*")) if file.is_file()}
    (version_of(bank) / "words.parquet").write_bytes(b"damaged")
    assert bank_files.publish_version(good, bank) == good.version
    assert {file: file.read_bytes() for file in sorted(bank.rglob("*")) if file.is_file()} == before


# --- what is too large, or in pieces ---------------------------------------------------------------------------------


def test_a_bank_larger_than_what_is_read_is_refused_before_it_is_read(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_files, "MAX_BYTES", 1000)
    for file in version_of(bank).glob("*.safetensors"):
        file.chmod(0)  # no one may look
        file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(FingerprintError, match="more than the 1,000 that are read"):
        bank_files.open_bank(bank)


def test_a_file_that_is_cut_off_is_refused_by_its_length(bank: Path) -> None:
    file = version_of(bank) / "stack.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        FingerprintError, match=r"stack\.safetensors is damaged: it has [\d,]+ bytes, the manifest says"
    ):
        bank_files.open_bank(bank)


def test_a_table_that_expands_to_more_than_a_bank_may_have_is_refused(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_files, "MAX_BYTES", 8_000_000)
    root = version_of(bank)
    pd.DataFrame({"code": np.zeros(3_000_000), "text": ""}).to_parquet(
        root / "words.parquet", compression="zstd"
    )
    mend_manifest(root, "words.parquet")
    assert sum(file.stat().st_size for file in root.iterdir()) < 8_000_000
    with pytest.raises(FingerprintError, match=r"words\.parquet expands to"):
        bank_files.open_bank(bank)


def mend_manifest(root: Path, name: str) -> None:
    """What someone would do who wants a file of their own to be believed."""
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["files"][name] = {
        "bytes": (root / name).stat().st_size,
        "sha256": bank_files._sha256(root / name),
    }
    (root / "manifest.json").write_text(json.dumps(manifest))


def test_a_bank_without_one_of_its_arrays_is_refused(bank: Path) -> None:
    root = version_of(bank)
    (root / "stack.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    mend_manifest(root, "stack.safetensors")
    with pytest.raises(FingerprintError, match=r"cannot be read: .*vocabulary"):
        bank_files.open_bank(bank)


def test_everything_that_is_wrong_with_a_bank_is_named_at_once(bank: Path) -> None:
    root = version_of(bank)
    (root / "words.parquet").unlink()
    (root / "scorer_state.safetensors").write_bytes(b"short")
    (root / "people.parquet").write_bytes(bytes((root / "people.parquet").stat().st_size))
    found = bank_files.find_problems(root)
    for name in ("words.parquet", "scorer_state.safetensors", "people.parquet"):
        assert len([sentence for sentence in found if name in sentence]) == 1
    assert len(found) == 3


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a few rows: those of a small bank would otherwise be too short to be cut."""
    monkeypatch.setattr(mapped_arrays, "ALIGNMENT", mmap.PAGESIZE)
    monkeypatch.setattr(bank_files, "SHARD_BYTES", 1 << 16)


@pytest.mark.usefixtures("_small_pages")
def test_a_bank_in_many_shards_judges_as_one_in_a_single_file(
    organisation: SampleOrganisation, scored: sample_organisation.Run, tmp_path: Path
) -> None:
    good = bank_files.open_bank(organisation.bank)
    bank_files.write_bank(good, tmp_path / "bank")
    versions.serve_version(tmp_path / "bank", good.version, bank_files.PUBLISH_DECISION)
    assert len(list(version_of(tmp_path / "bank").glob("stack.weights.inputs.*"))) > 1
    again = sample_organisation.run(organisation.new, tmp_path / "bank", tmp_path)
    assert again.out.read_bytes() == scored.out.read_bytes()


@pytest.mark.usefixtures("_small_pages")
def test_a_shard_that_is_missing_is_named(organisation: SampleOrganisation, tmp_path: Path) -> None:
    good = bank_files.open_bank(organisation.bank)
    bank_files.write_bank(good, tmp_path)
    gone = sorted((tmp_path / "versions" / good.version).glob("stack.weights.inputs.*"))[-1]
    gone.unlink()
    with pytest.raises(FingerprintError, match=gone.name):
        bank_files.open_bank(tmp_path, version=good.version)


def test_a_bank_that_is_open_may_be_published_again_or_retired(
    organisation: SampleOrganisation, bank: Path
) -> None:
    opened, good = bank_files.open_bank(bank), bank_files.open_bank(organisation.bank)
    shutil.rmtree(bank)
    for part in banks.ARRAY_PARTS:
        for field in fields(getattr(good, part)):
            left, right = (getattr(getattr(each, part), field.name) for each in (opened, good))
            np.testing.assert_array_equal(left, right)


def test_a_version_is_opened_by_its_name_while_another_is_served(
    organisation: SampleOrganisation, bank: Path
) -> None:
    good = bank_files.open_bank(organisation.bank)
    other = banks.with_manifest_entries(good, note="another")
    bank_files.write_bank(other, bank)
    assert bank_files.open_bank(bank).version == good.version
    assert bank_files.open_bank(bank, version=other.version).version == other.version
    with pytest.raises(FingerprintError, match=f"kept: .*{other.version}"):
        bank_files.open_bank(bank, version="no-such")


def test_no_code_loads_what_could_run() -> None:
    """Beside the contract "Nothing is pickled" in pyproject.toml: nothing that unpickles by another name."""
    root = Path(__file__).parents[2]
    words = ("allow_pickle", "torch.load", "torch.save", "read_pickle", "to_pickle", "joblib", "import dill")
    for folder in ("fingerprint", "pipelines", "models"):
        for file in (root / folder).rglob("*.py"):
            assert [word for word in words if word in file.read_text()] == [], file
