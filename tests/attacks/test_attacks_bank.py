"""Someone writes the bank's folder: what was edited, added or exchanged is refused, and the bank before judges on."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fingerprint.core import settings as settings_
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.detection import triton_model
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, signatures, versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from fingerprint.registry.catalog import BankListing
from fingerprint.registry.signatures import FileSigner
from fingerprint.training import promotion_gate
from pipelines.commands.bank import generate_key_pair, sign_version, verify_versions
from pipelines.runtime import promotion
from tests.registry.test_bank import mend_manifest, version_of
from tests.support import sample_organisation
from tests.support.running_stream import live, serve
from tests.support.stream_environment import Place, Records, Said

Edit = Callable[[Path], object]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two pairs of keys: ours, theirs."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        signatures.generate_keys(folder / name)
    return folder


@pytest.fixture(scope="module")
def wanted(keys: Path) -> settings_.Bank:
    """What a scorer is set to."""
    return settings_.Bank(verify_key_files=(str(keys / "ours.pub"),))


@pytest.fixture(scope="module")
def signs(keys: Path, wanted: settings_.Bank) -> Settings:
    """What a training is set to."""
    bank = wanted.model_copy(update={"signing_key_file": str(keys / "ours")})
    return sample_organisation.SETTINGS.model_copy(update={"bank": bank})


@pytest.fixture(scope="module")
def learned(bank: Bank) -> Bank:
    """As a training leaves it."""
    return replace(bank, files=None)


@pytest.fixture
def signed(learned: Bank, signs: Settings, tmp_path: Path) -> Path:
    """A bank that the gate let pass, and that is signed."""
    assert promotion.offer_bank(learned, tmp_path / "bank", signs).passed
    return tmp_path / "bank"


# --- edits ------------------------------------------------------------------------------------------------------------


def says(**change: Any) -> Edit:
    """An edit of the manifest."""

    def edit(root: Path) -> None:
        manifest = json.loads((root / "manifest.json").read_text())
        (root / "manifest.json").write_text(json.dumps({**manifest, **change}))

    return edit


def lists(name: str) -> Edit:
    def edit(root: Path) -> None:
        files = json.loads((root / "manifest.json").read_text())["files"]
        says(files=files | {name: files["words.parquet"]})(root)

    return edit


def linked(root: Path) -> None:
    """The right content, which someone elsewhere may exchange."""
    elsewhere = root.parent.parent / "words.parquet"
    shutil.move(root / "words.parquet", elsewhere)
    (root / "words.parquet").symlink_to(elsewhere)


def piped(root: Path) -> None:
    (root / "words.parquet").unlink()
    os.mkfifo(root / "words.parquet")


def exchanged(root: Path) -> None:
    shutil.move(root / "words.parquet", root / "aside")
    shutil.move(root / "people.parquet", root / "words.parquet")
    shutil.move(root / "aside", root / "people.parquet")


def evil_shard(root: Path) -> None:
    save_file({"repeats.key": np.arange(9, dtype=np.uint64)}, root / "scorer_state.evil.00000.safetensors")


def loosened(root: Path) -> None:
    """Everything is usual, for everybody; and the manifest believes it."""
    stack = load_file(root / "stack.safetensors")
    stack["baseline.center"] += 50
    save_file(stack, root / "stack.safetensors")
    mend_manifest(root, "stack.safetensors")


def deep(root: Path) -> None:
    (root / "manifest.json").write_text("[" * 100_000)


def to_sea(root: Path) -> None:
    """The folder itself is a link."""
    shutil.move(root, root.with_name("aside"))
    root.symlink_to("aside")


PLAIN = {  # refused whether a key is set or not
    "a_watermark_of_2099": (says(watermark=4_070_908_800), "event time has come to 2099-01-01"),
    "a_watermark_of_this_hour": (says(watermark=int(time.time()) + 600), "was changed"),
    "trained_until_2099": (says(trained_until=4_070_908_800), "trained_until after its watermark"),
    "arrived_until_2099": (says(arrived_until=4_070_908_800), "event time has come to 2099-01-01"),
    "a_later_end": (says(span=["2026-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"]), "was changed"),
    "more_votes_a_day": (says(quality={"edge": 1e9}), "was changed"),
    "the_name_of_another_version": (says(version="2026-01-01-00000000"), "another version by its manifest"),
    "a_shard_that_no_one_listed": (evil_shard, r"holds 'scorer_state\.evil\.00000\.safetensors'"),
    "a_hidden_file": (lambda root: (root / ".x").write_bytes(b"x"), r"holds '\.x'"),
    "a_folder": (lambda root: (root / "more").mkdir(), "holds 'more'"),
    "a_file_outside_of_it": (lists("../../CURRENT"), r"lacks \.\./\.\./CURRENT"),
    "a_link": (linked, "a link is not followed"),
    "a_pipe": (piped, "is no plain file|is damaged"),
    "files_exchanged": (exchanged, r"(people|words)\.parquet is damaged"),
    "a_manifest_without_end": (deep, "manifest"),
    "a_link_to_the_folder": (to_sea, "a link is not followed"),
}
SIGNED = {  # what only a signature tells
    "hashes_renewed": (loosened, "no true signature"),
    "a_gate_that_let_it_pass": (says(promotion={"passed": True, "reasons": []}), "no true signature"),
    "no_signature": (lambda root: (root / signatures.SIGNATURES_FILE).unlink(), "is not signed"),
    "a_signature_that_is_none": (
        lambda root: (root / signatures.SIGNATURES_FILE).write_text('{"served": "bm8="}'),
        "no true signature",
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_an_edit_of_a_bank_is_refused_without_a_key(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, name: str
) -> None:
    edit, sentence = PLAIN[name]
    bank = Path(shutil.copytree(organisation.bank, tmp_path / "bank"))
    edit(version_of(bank))
    with pytest.raises(FingerprintError, match=sentence):
        open_bank(bank)
    assert verify_versions(bank, Settings(), (bank / "CURRENT").read_text().strip())["problems"]


@pytest.mark.parametrize("name", [*PLAIN, *SIGNED])
def test_an_edit_of_a_signed_bank_is_refused_by_scorer_web_and_triton(
    signed: Path, signs: Settings, wanted: settings_.Bank, name: str
) -> None:
    number = triton_model.version_number(open_bank(signed, wanted).version)
    edit, sentence = (PLAIN | SIGNED)[name]
    edit(version_of(signed))
    why = f"{sentence}|signature|signed" if name in PLAIN else sentence
    with pytest.raises(FingerprintError, match=why):
        open_bank(signed, wanted)
    with pytest.raises(FingerprintError, match=why):
        BankListing(signed, signs).open_served()
    with pytest.raises(FingerprintError, match=why):
        triton_model.open_numbered_bank(signed, number, wanted)
    assert verify_versions(signed, signs)["problems"]


@pytest.mark.parametrize("content", ["..", ".", ".hidden", "../versions", "a/b", "x" * 5000])
def test_what_is_served_is_a_versions_name_and_no_path(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path, content: str
) -> None:
    bank = Path(shutil.copytree(organisation.bank, tmp_path / "bank"))
    (bank / "CURRENT").write_text(content)
    with pytest.raises(FingerprintError, match="does not name a version"):
        open_bank(bank)
    assert "does not name a version" in verify_versions(bank, Settings())["problems"][0]


def test_a_pipe_in_place_of_what_is_served_keeps_no_one_waiting(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    bank = Path(shutil.copytree(organisation.bank, tmp_path / "bank"))
    (bank / "CURRENT").unlink()
    os.mkfifo(bank / "CURRENT")
    with pytest.raises(FingerprintError, match="does not name a version"):
        open_bank(bank)


# --- signatures -------------------------------------------------------------------------------------------------------


def test_another_ones_signature_is_none(signed: Path, keys: Path, wanted: settings_.Bank) -> None:
    version = versions.require_served_version(signed)
    manifest = (version_of(signed) / "manifest.json").read_bytes()
    bank_files.sign_bank(signed, version, FileSigner(keys / "theirs"), manifest)
    with pytest.raises(FingerprintError, match="no true signature as served"):
        open_bank(signed, wanted)
    both = wanted.model_copy(
        update={"verify_key_files": (*wanted.verify_key_files, str(keys / "theirs.pub"))}
    )
    assert open_bank(signed, both).version == version, "while keys change there are two"


def test_a_bank_that_the_gate_refused_cannot_be_served_by_moving_the_pointer(
    signed: Path, learned: Bank, signs: Settings
) -> None:
    stack = learned.fingerprints.assign(ready=learned.fingerprints["level"] == 3)
    no_one = {name: int(name == "generic") for name in learned.manifest["ready"]}
    poisoned = banks.with_manifest_entries(replace(learned, fingerprints=stack), ready=no_one)
    assert not promotion.offer_bank(poisoned, signed, signs).passed
    assert open_bank(signed, signs.bank, poisoned.version, served=False).version == poisoned.version
    assert verify_versions(signed, signs)["problems"] == []
    (signed / "CURRENT").write_text(poisoned.version)
    with pytest.raises(FingerprintError, match="is not signed as served"):
        open_bank(signed, signs.bank)
    assert "is not signed as served" in verify_versions(signed, signs)["problems"][0]
    promotion.publish_bank(signed, poisoned.version, signs, force="a person says so")
    assert open_bank(signed, signs.bank).version == poisoned.version


def test_what_is_signed_is_what_the_gate_judged_whatever_was_put_there_in_the_meantime(
    signed: Path, learned: Bank, signs: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = banks.with_manifest_entries(learned, outside=2)
    bank_files.write_bank(second, signed, promotion.require_signer(signs.bank))
    judge = promotion_gate.evaluate_promotion

    def slowly(*arguments: Any) -> Any:
        word = judge(*arguments)
        loosened(signed / "versions" / second.version)
        return word

    monkeypatch.setattr(promotion_gate, "evaluate_promotion", slowly)
    with pytest.raises(FingerprintError, match="no true signature"):
        promotion.publish_bank(signed, second.version, signs, force="a person says so")
    assert open_bank(signed, signs.bank).version == learned.version


def test_anyone_who_damages_the_served_bank_does_not_weaken_the_gate(
    signed: Path, learned: Bank, signs: Settings
) -> None:
    second = banks.with_manifest_entries(learned, outside=1)
    assert promotion.offer_bank(second, signed, signs).passed
    loosened(signed / "versions" / second.version)
    with pytest.raises(FingerprintError):
        open_bank(signed, signs.bank)
    no_one = {name: int(name == "generic") for name in learned.manifest["ready"]}
    stack = learned.fingerprints.assign(ready=learned.fingerprints["level"] == 3)
    word = promotion.offer_bank(
        banks.with_manifest_entries(replace(learned, fingerprints=stack), ready=no_one), signed, signs
    )
    assert not word.passed
    assert word.figures["against"] == learned.version, "what was served before"


def test_who_wants_signed_banks_and_cannot_sign_is_told_so_before_it_trains(
    organisation: sample_organisation.SampleOrganisation, wanted: settings_.Bank, keys: Path, tmp_path: Path
) -> None:
    own = sample_organisation.SETTINGS.model_copy(update={"bank": wanted})
    with pytest.raises(FingerprintError, match=r"set bank\.signing_key_file"):
        sample_organisation.train_bank(
            organisation.learned, tmp_path / "bank", own, sample_organisation.no_progress
        )
    theirs = wanted.model_copy(update={"signing_key_file": str(keys / "theirs")})
    shutil.copytree(organisation.bank, tmp_path / "bank", dirs_exist_ok=True)
    with pytest.raises(FingerprintError, match="no true signature"):
        sign_version(tmp_path / "bank", own.model_copy(update={"bank": theirs}))


KMS = '''
from cryptography.hazmat.primitives.serialization import load_pem_private_key

class Service:
    """Keeps the key to itself, and signs messages of 4,096 bytes at most: AWS KMS has ED25519_SHA_512 with RAW messages."""
    def __init__(self, key):
        self._key = key
    def sign(self, content):
        assert len(content) <= 4096
        return self._key.sign(content)

def service():
    return Service(load_pem_private_key(open({file!r}, "rb").read(), None))

def away():
    raise ConnectionError("the service does not answer")
'''


def test_a_key_management_service_signs_by_a_hook(
    organisation: sample_organisation.SampleOrganisation,
    keys: Path,
    wanted: settings_.Bank,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "kms_of_ours.py").write_text(KMS.replace("{file!r}", repr(str(keys / "ours"))))
    monkeypatch.syspath_prepend(tmp_path)
    bank = Path(shutil.copytree(organisation.bank, tmp_path / "bank"))

    def by(hook: str) -> Settings:
        return Settings(bank=wanted.model_copy(update={"signer": hook}))

    for hook, why in (
        ("kms_of_ours:away", "does not answer"),
        ("kms_of_ours", "package.module:factory"),
        ("no_module:at_all", "No module"),
    ):
        with pytest.raises(FingerprintError, match=why):
            sign_version(bank, by(hook))
    with pytest.raises(FingerprintError, match="is not signed"):
        open_bank(bank, wanted)
    sign_version(bank, by("kms_of_ours:service"))
    assert open_bank(bank, wanted).version == organisation.trained["version"]
    assert verify_versions(bank, by("kms_of_ours:service"))["problems"] == []


def test_a_private_key_is_its_owners_alone_and_never_written_over(tmp_path: Path) -> None:
    made = generate_key_pair(tmp_path / "key")
    assert stat.S_IMODE(Path(made["private"]).stat().st_mode) == 0o600
    assert list(signatures.read_public_keys([made["public"]])) == [made["key"]]
    with pytest.raises(FingerprintError, match="cannot write the key"):
        generate_key_pair(tmp_path / "key")
    with pytest.raises(FingerprintError, match="no public Ed25519 key"):
        signatures.read_public_keys([made["private"]])


def test_what_is_not_sound_is_not_signed(signed: Path, signs: Settings) -> None:
    evil_shard(version_of(signed))
    with pytest.raises(FingerprintError, match="which its manifest does not list"):
        sign_version(signed, signs)


# --- while it is judged by --------------------------------------------------------------------------------------------


@pytest.fixture
def place(signed: Path, signs: Settings, tmp_path: Path) -> Place:
    place = Place(tmp_path / "place", signed).create()
    place.configure(
        bank=signs.bank.model_dump() | {"poll_interval_seconds": 0.02}, checkpoints={"interval_seconds": 0.01}
    )
    return place


def test_a_stream_judges_on_by_the_signed_bank_and_says_that_another_was_put_there(
    place: Place, learned: Bank, records: Records, oracle: Said
) -> None:
    """The attacker's bank finds everything usual, has all its hashes and a name of its own."""
    served = versions.require_served_version(place.bank)
    blind = replace(
        learned, baseline=replace(learned.baseline, center=learned.baseline.center + np.float32(50))
    )
    blind = banks.with_manifest_entries(blind, note="everything is usual")
    with live(place) as stream:
        stream.read(records[:500])
        bank_files.write_bank(blind, place.bank)
        serve(place, blind.version)
        stream.until(lambda: bool(stream.program.banks.refusal))
        assert "is not signed" in stream.program.banks.refusal
        stream.read(records[500:])
        stream.until(lambda: stream.program.metrics.bank_refused.collect()[0].samples[0].value == 1)
        assert stream.judged_by() == {served}
    assert not place.said().differences(oracle)


def test_no_one_judges_on_by_an_open_bank_that_was_written_into(place: Place, records: Records) -> None:
    """A link to a file touches it and changes nothing, as when Triton's repository is filled."""
    stack = version_of(place.bank) / "stack.safetensors"
    with live(place) as stream:
        stream.read(records[:200])
        os.link(stack, place.folder / "linked")
        looks = [0.0]
        stream.until(lambda: looks.append(stream.program.banks.next_poll) or len(set(looks)) > 5)  # type: ignore[func-returns-value]
        with stack.open("r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(b"evil evil"[:8])
        with pytest.raises(FingerprintError, match=r"stack\.safetensors was written to"):
            stream.read(records[200:400]) or stream.until(lambda: False)  # type: ignore[func-returns-value]
