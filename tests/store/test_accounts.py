"""Who may work at the alert store: SQLite and PostgreSQL keep the contract; roles and passwords; what hashing costs."""

from __future__ import annotations

import time

import pytest
from argon2 import extract_parameters

from fingerprint.core.account import ROLES, AuthenticationFailed, derive_name, role_includes, token_role
from fingerprint.core.errors import FingerprintError
from fingerprint.core.passwords import weak_password
from fingerprint.core.settings import Web
from fingerprint.store import open_store
from fingerprint.store import secret_hashes as secrets_
from fingerprint.store.accounts import open_account_store
from fingerprint.store.login_throttle import GLOBAL_BACKOFF, PER_NETWORK_BACKOFF
from tests.contracts.account_store import GOOD, HERE, Moment, PeopleContract, PeopleRules


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory):
    return open_store(f"sqlite:///{tmp_path_factory.mktemp('people')}/alerts.sqlite")


@pytest.fixture(scope="module")
def postgresql_store(postgresql):
    store = open_store(postgresql.fresh())
    yield store
    store.close()


class TestSqlite(PeopleRules):
    @pytest.fixture
    def opened(self, sqlite_store):
        return sqlite_store


class TestPostgres(PeopleContract):
    @pytest.fixture
    def opened(self, postgresql_store):
        return postgresql_store


def test_each_role_may_what_those_before_it_may():
    table = [[role_includes(role, needed) for needed in ROLES] for role in ROLES]
    assert table == [[place <= rank for place in range(4)] for rank in range(4)]


def test_a_token_is_never_more_than_its_owner_and_never_more_than_its_scopes():
    assert token_role("analyst", ("read", "triage")) == "analyst"
    assert token_role("admin", ("read",)) == "viewer"
    assert token_role("viewer", ("read", "engineer", "admin")) == "viewer"  # the owner was demoted since
    with pytest.raises(FingerprintError, match="scope"):
        token_role("admin", ())


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Maria Sanz", "maria-sanz"),
        ("m@x.org", "m@x.org"),
        ("…", "person"),
        ("", "person"),
        ("--Ö--bo", "bo"),
        ("A" * 90, "a" * 50),
    ],
)
def test_what_a_provider_calls_someone_becomes_a_name(said, name):
    assert derive_name(said) == name


@pytest.mark.parametrize(
    ("password", "sentence"),
    [
        ("password1234", "easy to guess"),
        ("123456789012", "easy to guess"),
        ("qwertyuiop12", "easy to guess"),
        ("fingerprint1", "easy to guess"),
        ("P@ssw0rd1234", "easy to guess"),
        ("maria.sanz12", "easy to guess"),
        ("exampledesk1", "easy to guess"),
        ("aaaaaaaaaaaa", "easy to guess"),
        ("abcdefghijkl", "easy to guess"),
        ("password" * 9, "easy to guess"),
        ("Maria.Sanz.Lopez", "not the name"),
        ("short", "at least 12"),
        ("x" * 1025, "at most 1,024"),
    ],
)
def test_a_password_that_anybody_would_try_is_refused_with_a_sentence(password, sentence):
    name = "maria.sanz.lopez" if "Lopez" in password else "maria.sanz"
    assert sentence in weak_password(password, name, "Fingerprint https://alerts.example.com")


@pytest.mark.parametrize(
    "password", [GOOD, "schöne grüne Wörter", "vK8#qpXw2zLm", "a" * 3 + "x9 unusual " * 9]
)
def test_a_password_that_no_one_would_try_is_taken(password):
    assert weak_password(password, "maria", "Fingerprint") is None


def test_looking_at_a_password_is_quick_whatever_it_is():
    for worst in ("4@8({[<3609!|1i$5+7%2z" * 46, "aA4@" * 256, "password" * 128):
        begun = time.process_time()
        weak_password(worst, "maria", "Fingerprint https://alerts.example.com")
        assert time.process_time() - begun < 2


def test_a_day_of_guessing_is_bounded():
    """What docs/how-to/accounts.md says: tries a day of one name from one place and from all, and of codes from all."""

    def tries(pace):
        seconds, count = 0.0, 0
        while (seconds := seconds + pace.delay(count).total_seconds()) < 86_400:
            count += 1
        return count

    assert [
        tries(pace) for pace in (PER_NETWORK_BACKOFF, GLOBAL_BACKOFF["password"], GLOBAL_BACKOFF["code"])
    ] == [
        107,
        769,
        105,
    ]


def test_passwords_cost_what_rfc_9106_recommends():
    """Its second choice: argon2id, 64 MiB, three passes, four call paths."""
    costs = extract_parameters(secrets_.hash_password(GOOD))
    assert (costs.type.name, costs.memory_cost, costs.time_cost, costs.parallelism) == ("ID", 64 * 1024, 3, 4)


def test_a_name_that_no_one_has_takes_as_long_as_one_that_someone_has(tmp_path):
    people = open_account_store(open_store(f"sqlite:///{tmp_path}/alerts.sqlite").session, Moment(), Web())
    people.logins.accept_invitation(people.accounts.create_first_invitation(), "maria", GOOD)

    def seconds(name: str) -> float:
        begun = time.perf_counter()
        with pytest.raises(AuthenticationFailed):
            people.logins.log_in(name, "not the password", HERE)
        return time.perf_counter() - begun

    known, unknown = ([seconds(name) for _ in range(4)] for name in ("maria", "stranger"))
    assert min(unknown) > min(known) / 2


def test_a_password_hashed_at_other_costs_is_hashed_again_at_the_next_login(tmp_path, monkeypatch):
    from argon2 import PasswordHasher

    people = open_account_store(open_store(f"sqlite:///{tmp_path}/alerts.sqlite").session, Moment(), Web())
    with monkeypatch.context() as patch:
        patch.setattr(secrets_, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        people.logins.accept_invitation(people.accounts.create_first_invitation(), "maria", GOOD)
    kept = people.accounts._session.read(
        lambda connection: connection.exec_driver_sql("SELECT password FROM accounts").scalar()
    )
    assert secrets_.needs_rehash(kept)
    assert people.logins.log_in("maria", GOOD, HERE)
    kept = people.accounts._session.read(
        lambda connection: connection.exec_driver_sql("SELECT password FROM accounts").scalar()
    )
    assert not secrets_.needs_rehash(kept)
    assert people.logins.log_in("maria", GOOD, HERE)
