"""Settings: described, bounded, loaded from file, environment and options, and refused in one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import (
    Autoencoder,
    Kafka,
    Settings,
    Workers,
    describe_settings,
    load_settings,
    read_secret,
)

MOST_SETTINGS = 155


def test_there_are_few_settings_and_each_is_described() -> None:
    found = describe_settings()
    assert len({each.name for each in found}) == len(found) <= MOST_SETTINGS
    for each in found:
        assert re.fullmatch(r"\S.+\.", each.description), each.name


def _refusal_of(environment: dict[str, str]) -> str:
    """Return why an environment is refused, or nothing."""
    try:
        load_settings(environment=environment)
    except FingerprintError as error:
        return str(error)
    return ""


def test_every_setting_has_the_variable_that_its_description_names() -> None:
    for each in describe_settings():
        variable = each.environment.replace("__NAME__", "__SOC__")
        assert "there is no" not in _refusal_of({variable: "no value of any setting"}), each.name


def test_defaults_are_shown_as_toml_writes_them() -> None:
    shown = {each.name: each.default for each in describe_settings()}
    assert shown["kafka.bootstrap_servers"] == '["127.0.0.1:9092"]'
    assert shown["kafka.tls"] == "false"
    assert shown["triton.url"] == ""
    assert shown["reading.batch_records"] == "20000"


def test_the_types_are_words_for_people() -> None:
    shown = {each.name: each.type for each in describe_settings()}
    assert shown["kafka.compression_type"] == "one of: none, gzip, lz4, zstd"
    assert shown["voting.detectors"] == "list of text"
    assert shown["deliver.NAME.url"] == "text (secret)"
    assert shown["alerts.threshold"] == "number"


# --- sources ----------------------------------------------------------------------------------------------------------


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[spectral]\nvote_share = 0.1\nwarm_up_days = 3\nhistory_days = 14\n")
    loaded = load_settings(
        file,
        {"FINGERPRINT_SPECTRAL__VOTE_SHARE": "0.2", "FINGERPRINT_SPECTRAL__HISTORY_DAYS": "15"},
        {"spectral": {"vote_share": 0.3, "warm_up_days": None}},
    )
    spectral = loaded.spectral
    assert (spectral.vote_share, spectral.history_days, spectral.warm_up_days) == (0.3, 15, 3)


def test_lists_in_the_environment_are_items_between_commas() -> None:
    loaded = load_settings(
        environment={
            "FINGERPRINT_KAFKA__BOOTSTRAP_SERVERS": "a:9092, b:9092",
            "FINGERPRINT_DELIVER__SOC__URL_FILE": "/run/secrets/soc",
            "FINGERPRINT_DELIVER__SOC__NOTIFY_ON": "new,decided",
            "FINGERPRINT_WEB__OIDC__SCOPES": "openid",
        }
    )
    assert loaded.kafka.bootstrap_servers == ("a:9092", "b:9092")
    assert loaded.deliver["soc"].notify_on == ("new", "decided")
    assert loaded.web.oidc.scopes == ("openid",)


def test_a_table_in_the_environment_is_json() -> None:
    loaded = load_settings(environment={"FINGERPRINT_WEB__OIDC__ROLES": '{"soc": "analyst"}'})
    assert loaded.web.oidc.roles == {"soc": "analyst"}
    with pytest.raises(FingerprintError, match="expected JSON"):
        load_settings(environment={"FINGERPRINT_WEB__OIDC__ROLES": "soc=analyst"})


def test_settings_that_are_built_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bank's own settings must not change with the process that opens it."""
    monkeypatch.setenv("FINGERPRINT_VOTING__QUORUM", "1")
    assert Settings().voting.quorum == Settings.model_validate({}).voting.quorum == 2
    assert load_settings().voting.quorum == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("VOTING__QUORM", "1", "setting voting.quorm: there is no 'quorm'; did you mean quorum?"),
        ("VOTNG__QUORUM", "1", "setting FINGERPRINT_VOTNG__QUORUM: there is no 'votng'; did you mean voting?"),
        ("NONSENSE", "1", "setting FINGERPRINT_NONSENSE: there is no 'nonsense'"),
        ("VOTING", "1", "setting FINGERPRINT_VOTING: name it FINGERPRINT_<SECTION>__<KEY>, with two underscores"),
        ("BACKEND__X", "cpu", "setting FINGERPRINT_BACKEND__X: backend is no section; name it FINGERPRINT_BACKEND"),
        ("VOTING__QUORUM", "two", "setting voting.quorum: expected a whole number"),
        ("VOTING__QUORUM", "0", "setting voting.quorum: expected more than 0"),
        ("KAFKA__TLS", "perhaps", "setting kafka.tls: expected true or false"),
        ("KAFKA__CLIENT", "java", "setting kafka.client: expected 'kafka-python', 'confluent' or package.module:factory"),
        ("ALERTS__THRESHOLD", "-3", "setting alerts.threshold: expected at least 1"),
        ("ALERTS__THRESHOLD", "360", "setting alerts.threshold: expected at most 37"),
        ("WEB__TRUSTED_PROXIES", "9", "setting web.trusted_proxies: expected at most 8"),
        ("DELIVER__SOC__COLOUR", "red", "setting deliver.soc.colour: there is no 'colour'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence_in_our_words(variable: str, value: str, sentence: str) -> None:
    with pytest.raises(FingerprintError) as caught:
        load_settings(environment={f"FINGERPRINT_{variable}": value})
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_every_bad_name_and_value_is_told_with_the_nearest_known_name(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[kafka]\nbrokers = "a:1"\ngroup = "x"\n[voting]\nquorum = "two"\n[spectrl]\n')
    with pytest.raises(FingerprintError) as refused:
        load_settings(file, {})
    told = str(refused.value).removeprefix("setting ").split("; setting ")
    assert sorted(told) == [
        "kafka.brokers: there is no 'brokers'; did you mean bootstrap_servers?",
        "kafka.group: there is no 'group'; did you mean group_id?",
        "spectrl: there is no 'spectrl'; did you mean spectral?",
        "voting.quorum: expected a whole number",
    ]
    with pytest.raises(
        FingerprintError, match=r"VOTNG.*did you mean voting\?.*; setting FINGERPRINT_KAFKA: name it"
    ):
        load_settings(environment={"FINGERPRINT_VOTNG__X": "1", "FINGERPRINT_KAFKA": "1"})


def test_a_copy_with_an_unknown_name_is_refused() -> None:
    """pydantic's own copy would take it silently, and nothing would change."""
    assert Autoencoder().model_copy(update={"max_epochs": 3}).max_epochs == 3
    with pytest.raises(ValueError, match="Autoencoder has no setting epochs"):
        Autoencoder().model_copy(update={"epochs": 3})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("database", "url", "postgresql://me:hunter2@db/fingerprint"),
        ("checkpoints", "url", "https://hunter2@bucket/path"),
        ("kafka", "bootstrap_servers", ["user:hunter2@broker:9092", "https://user:hunter2@broker"]),
    ],
)
def test_a_credential_is_refused_and_not_repeated(section: str, key: str, value: object) -> None:
    with pytest.raises(FingerprintError, match="it holds a password or token") as caught:
        load_settings(environment={}, options={section: {key: value}})
    assert "hunter2" not in str(caught.value)


def test_a_receivers_url_is_masked(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[deliver.soc]\nurl = "https://hooks.example.com/hunter2"\n')
    loaded = load_settings(file, {})
    assert "hunter2" not in repr(loaded)
    assert "hunter2" not in loaded.model_dump_json()
    assert loaded.deliver["soc"].target_url() == "https://hooks.example.com/hunter2"
    assert loaded.without_receivers().deliver == {}


def test_a_settings_file_that_is_not_there_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match=r"new one\.toml: there is none: `fingerprint config init '"):
        load_settings(tmp_path / "new one.toml", {})


def test_a_secret_is_its_file_without_the_last_newline(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\r\n")
    file.chmod(0o600)
    assert read_secret(str(file)) == "hunter2"
    assert read_secret(None) is None
    with pytest.raises(FingerprintError, match="nowhere of the settings cannot be read: No such file"):
        read_secret(str(tmp_path / "nowhere"))


def test_files_of_a_scheduler_are_checked_before_it_is_asked(tmp_path: Path) -> None:
    options = Workers(scheduler="tls://a:1", ca_file=str(tmp_path / "ca"), certificate_file="c", key_file="k")
    with pytest.raises(FingerprintError, match="ca of the settings cannot be read"):
        options.check_files()


# --- Kafka ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "topic", "shared"),
    [
        ("raw_topic", "fingerprint.events", "fingerprint.events, fingerprint.events.dlq"),
        ("votes_topic", "fingerprint.alerts", "fingerprint.alerts"),
        ("alerts_topic", "cloudtrail.dlq", "cloudtrail.dlq"),
        ("feed_gaps_topic", "cloudtrail", "cloudtrail"),
    ],
)
def test_one_topic_for_two_uses_is_refused(name: str, topic: str, shared: str) -> None:
    with pytest.raises(FingerprintError, match="must all differ") as refused:
        load_settings(environment={f"FINGERPRINT_KAFKA__{name.upper()}": topic})
    assert f" {shared} would be one topic for two uses" in str(refused.value)


def test_kafkas_timeouts_are_its_own_milliseconds() -> None:
    kafka = Kafka(request_timeout_ms=1_500, delivery_timeout_ms=500)
    assert (kafka.request_timeout_seconds, kafka.delivery_timeout_seconds) == (1.5, 0.5)


# --- cost -------------------------------------------------------------------------------------------------------------


def test_importing_settings_brings_no_heavy_library() -> None:
    code = (
        "import sys, fingerprint.core.settings as s; s.load_settings(environment={})\n"
        "print(sorted({'numpy', 'pandas', 'pydantic_settings', 'sqlalchemy', 'kafka'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = b", "line 1, column 5: a value is missing or is not TOML: write text in quotes"),
        ("a = ", "end of file: a value is missing"),
        ("a", "end of file: a key has no value: write key = value"),
        ("a = 1 b = 2", "line 1, column 7: there is more after the value"),
        ("[a", "end of file: a section has no end"),
        ("a = 1\na = 2\n", "line 2, column 6: this key stands there twice"),
        ("[a]\n[a]", "line 2, column 3: this section stands there twice"),
        ('a = "x', "end of file: a text has no end: close its quotes"),
        ("a = {b=1", "end of file: a list or table has no end"),
        ("= 3", "line 1, column 1: this is no key and no section"),
        ("a = '''x", "end of file: this is not TOML: compare with `fingerprint config init`"),
    ],
)
def test_a_file_that_is_not_toml_is_told_in_our_words_with_what_to_write(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(FingerprintError) as refused:
        load_settings(file, {})
    assert str(refused.value).startswith(f"settings file {file}, {told}")


def test_a_file_that_is_not_text_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(FingerprintError, match="it is not text in UTF-8"):
        load_settings(file, {})
