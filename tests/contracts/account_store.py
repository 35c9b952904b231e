"""What the account repositories do, whatever database they stand on. A test class gives `opened`, an open alert store that
no one else uses. Passwords are hashed by argon2 as always, at the least cost it knows."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
import sqlalchemy as sql
from argon2 import PasswordHasher
from pyotp import TOTP

from fingerprint.core.account import (
    AuthenticationFailed,
    ClientInfo,
    ExternalIdentity,
    RelyingParty,
    SecondFactorNeeded,
    SecondFactorResponse,
    TooManyAttempts,
    token_role,
)
from fingerprint.core.case import AuditEntry
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.accounts import AccountStore
from fingerprint.core.settings import Web
from fingerprint.store import SqlStore, schema, secret_hashes
from fingerprint.store.accounts import open_account_store
from fingerprint.store.database import Locking
from tests.support.dump_tables import dump_tables
from tests.support.manual_clock import ManualClock

ACCOUNT_TABLES = (
    schema.accounts,
    schema.sessions,
    schema.tokens,
    schema.invitations,
    schema.login_attempts,
    schema.pending_logins,
    schema.second_factors,
    schema.known_browsers,
)
GOOD = "four plain english words"
OTHER = "other words that are secret"
HERE, THERE = ClientInfo("192.0.2.7"), ClientInfo("198.51.100.9")
PARTY = RelyingParty("https://store.example.com", "store.example.com")
SSO_ONLY = Web(
    single_sign_on_only=True,
    emergency_account="maria",
    oidc={"issuer": "https://id.example.com", "client_id": "store", "default_role": "viewer"},
)
CARLA = ExternalIdentity("https://id.example.com", "248289761001", "carla", "analyst")


class Moment(ManualClock):
    def __init__(self) -> None:
        super().__init__(datetime(2026, 3, 4, 14, tzinfo=UTC))

    def pass_by(self, **span: float) -> None:
        self.time += timedelta(**span)


class PeopleContract:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        monkeypatch.setattr(
            secret_hashes, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        )
        secret_hashes._dummy_hash.cache_clear()
        yield
        secret_hashes._dummy_hash.cache_clear()

    @pytest.fixture
    def clock(self):
        return Moment()

    @pytest.fixture
    def store(self, opened):
        """Without anybody; lines of the audit stay, as they do."""
        with (
            opened.session.engine.connect().execution_options(writing=Locking.SERIALIZED) as connection,
            connection.begin(),
        ):
            for table in ACCOUNT_TABLES:
                connection.execute(sql.delete(table))
        return opened

    @pytest.fixture
    def people(self, store, clock):
        """With one admin, maria."""
        people = open_account_store(store.session, clock, Web())
        people.logins.accept_invitation(people.accounts.create_first_invitation(), "Maria", GOOD)
        return people

    @pytest.fixture
    def add(self, people):
        def add(name: str, role: str = "analyst", password: str = GOOD) -> str:
            return people.logins.accept_invitation(
                people.accounts.invite(name, role, by="maria"), "", password
            )

        return add

    # the first admin, and links

    def test_the_first_admin_chooses_a_name_and_a_password_and_is_in(self, store, clock):
        people = open_account_store(store.session, clock, Web())
        session = people.logins.accept_invitation(people.accounts.create_first_invitation(), " Maria ", GOOD)
        assert (people.sessions.authenticate(session).name, people.sessions.authenticate(session).role) == (
            "maria",
            "admin",
        )
        assert people.accounts.create_first_invitation() is None

    def test_of_two_who_open_one_link_at_once_one_is_in(self, people):
        secret, together = people.accounts.invite("bob", "analyst", by="maria"), Barrier(4)

        def accept(number: int) -> str:
            together.wait()
            try:
                return people.logins.accept_invitation(secret, "", f"{GOOD} {number}")
            except AuthenticationFailed:
                return ""

        with ThreadPoolExecutor(4) as pool:
            sessions = [each for each in pool.map(accept, range(4)) if each]
        assert len(sessions) == 1
        assert people.sessions.authenticate(sessions[0]).name == "bob"

    # logging in

    @pytest.mark.parametrize(
        ("name", "password"),
        [
            ("maria", OTHER),
            ("maria", ""),
            ("maria", GOOD + "\0"),
            ("stranger", GOOD),
            ("", ""),
            ("m\0", GOOD),
            ("\ud800", "\ud800"),
        ],
    )
    def test_whatever_is_wrong_the_sentence_is_the_same(self, people, name, password):
        with pytest.raises(AuthenticationFailed, match=r"^the name or the password is wrong$"):
            people.logins.log_in(name, password, HERE)

    def test_a_password_typed_on_another_keyboard_is_the_same(self, people, add):
        add("bob", password="schöne grüne Wörter")  # noqa: S106
        assert (
            people.sessions.authenticate(
                people.logins.log_in("bob", "scho\u0308ne gru\u0308ne Wo\u0308rter", HERE)
            ).name
            == "bob"
        )

    # guessing: who guesses is slowed down, and no one else

    def test_a_browser_that_logged_in_before_is_not_slowed_down_by_strangers(self, people, clock):
        device = people.logins.remember_browser(people.logins.log_in("maria", GOOD, HERE), "")
        for number in range(50):
            fail(people, "maria", 1, ClientInfo(f"203.0.113.{number}"))
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("maria", GOOD, HERE)
        mine = ClientInfo(HERE.address, device=device)
        fail(people, "maria", 4, mine)  # but by its own failures
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("maria", GOOD, mine)
        clock.sleep(2)
        assert people.sessions.authenticate(people.logins.log_in("maria", GOOD, mine)).name == "maria"

    def test_many_at_once_are_not_more_than_one_after_the_other(self, people):
        together = Barrier(8)

        def guess(number: int) -> str:
            together.wait()
            outcomes = []
            for each in range(3):
                with pytest.raises(AuthenticationFailed) as refused:
                    people.logins.log_in("maria", f"guess {number} {each}", HERE)
                outcomes.append(type(refused.value).__name__)
            return outcomes

        with ThreadPoolExecutor(8) as pool:
            said = Counter(outcome for outcomes in pool.map(guess, range(8)) for outcome in outcomes)
        assert said == {"AuthenticationFailed": 4, "TooManyAttempts": 20}

    # sessions

    @pytest.mark.parametrize("in_the_meantime", ["reset", "disable"])
    def test_a_password_that_was_reset_while_it_was_looked_at_is_not_changed_back(
        self, people, add, monkeypatch, in_the_meantime
    ):
        """Anyone who stole the old one is as fast as they like."""
        stolen = add("bob")
        link, hashed = people.accounts.invite("bob", None, by="maria"), secret_hashes.hash_password

        def slowly(password):
            monkeypatch.setattr(secret_hashes, "hash_password", hashed)
            people.logins.accept_invitation(
                link, "", OTHER
            ) if in_the_meantime == "reset" else people.accounts.disable("bob", by="maria")
            return hashed(password)

        monkeypatch.setattr(secret_hashes, "hash_password", slowly)
        with pytest.raises(AuthenticationFailed):
            people.logins.change_password(stolen, GOOD, "what the thief would like", HERE)
        people.accounts.enable("bob", by="maria")
        assert people.logins.log_in("bob", OTHER if in_the_meantime == "reset" else GOOD, HERE)

    @pytest.mark.parametrize("secret", ["", "x", "a" * 43, "\0", "\ud800", "a" * 100_000])
    def test_what_is_no_secret_opens_nothing(self, people, secret):
        assert people.sessions.authenticate(secret) is None
        assert people.tokens.authenticate(secret) is None
        assert people.accounts.invitation(secret) is None
        people.sessions.log_out(secret)

    def test_sessions_are_listed_with_where_they_came_from_and_ended_one_by_one(self, people, add, clock):
        here = ClientInfo(HERE.address, "Mozilla/5.0 \0 of maria")
        clock.sleep(1)
        first, second = people.logins.log_in("maria", GOOD, here), people.logins.log_in("maria", GOOD, THERE)
        add("bob")
        clock.pass_by(minutes=30)
        people.sessions.authenticate(first)
        found = people.sessions.of_account("maria")
        assert [(each.address, each.agent, each.proof) for each in found[:2]] == [
            (HERE.address, "Mozilla/5.0 \ufffd of maria", "password"),
            (THERE.address, "", "password"),
        ]
        assert people.sessions.get(first) == found[0]
        with pytest.raises(FingerprintError, match="no such session"):
            people.sessions.end(found[0].session_id, by="bob", owner="bob")
        people.sessions.end(found[0].session_id, by="maria", owner="maria")
        assert (people.sessions.authenticate(first), people.sessions.authenticate(second).name) == (
            None,
            "maria",
        )
        people.sessions.end(people.sessions.of_account("bob")[0].session_id, by="maria")
        assert people.sessions.of_account("bob") == []
        clock.pass_by(hours=8)
        assert people.sessions.of_account("maria") == []

    def test_a_proof_counts_for_ten_minutes_and_may_be_given_again(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        clock.pass_by(minutes=9, seconds=59)
        assert people.sessions.get(session).is_proven(clock.time)
        clock.pass_by(seconds=1)
        assert not people.sessions.get(session).is_proven(clock.time)
        with pytest.raises(AuthenticationFailed, match="wrong"):
            people.logins.reauthenticate(session, OTHER)
        assert not people.sessions.get(session).is_proven(clock.time)
        people.logins.reauthenticate(session, GOOD)
        assert people.sessions.get(session).is_proven(clock.time)

    # second factors

    def test_of_two_who_show_one_code_at_once_one_is_in(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        logins, together, code = [begun(people, "maria") for _ in range(4)], Barrier(4), app.at(clock.time)

        def show(login: str) -> bool:
            together.wait()
            try:
                return bool(people.logins.finish(login, SecondFactorResponse(code=code), HERE))
            except AuthenticationFailed:
                return False

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(show, logins)) == [False, False, False, True]

    def test_an_admin_resets_a_second_factor_that_was_lost(self, people, add, clock):
        add("bob")
        with_app(people, "bob", clock)
        assert people.second_factors.account_names() == {"bob"}
        login = begun(people, "bob")
        people.second_factors.reset("bob", by="maria")
        assert (people.second_factors.account_names(), people.logins.pending(login)) == (frozenset(), None)
        assert people.sessions.authenticate(people.logins.log_in("bob", GOOD, HERE)).name == "bob"

    def test_where_a_second_factor_is_required_it_is_set_up_before_anything_else(self, store, people, clock):
        strict, before = (
            open_account_store(store.session, clock, Web(second_factor="required")),
            people.logins.log_in("maria", GOOD, HERE),
        )
        assert strict.sessions.authenticate(before) is None  # a session that a password alone opened
        login = begun(strict, "maria")
        assert strict.logins.pending(login).kinds == ()
        secret, _ = strict.second_factors.new_authenticator_app("maria")
        with pytest.raises(FingerprintError, match="not the app's code"):
            strict.logins.enroll_app(login, secret, "000000", HERE)
        session, codes = strict.logins.enroll_app(login, secret, TOTP(secret).at(clock.time), HERE)
        assert (strict.sessions.authenticate(session).name, len(codes)) == ("maria", 10)
        with pytest.raises(FingerprintError, match="required here"):
            strict.second_factors.remove(session, strict.second_factors.of_account("maria")[0].factor_id)
        again = begun(strict, "maria")
        with pytest.raises(AuthenticationFailed, match="has a second factor"):
            strict.logins.enroll_app(again, secret, TOTP(secret).at(clock.time + timedelta(seconds=30)), HERE)

    # an admin there is always

    def test_two_admins_who_demote_each_other_at_once_leave_one(self, people, add):
        add("bob", "admin")
        together = Barrier(2)

        def demote(pair: tuple[str, str]) -> bool:
            together.wait()
            try:
                people.accounts.set_role(pair[0], "viewer", by=pair[1])
            except FingerprintError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(demote, [("maria", "bob"), ("bob", "maria")]))
        assert sorted(done) == [False, True]
        assert [each.role for each in people.accounts.list_all()].count("admin") == 1

    # tokens

    def test_a_token_is_its_owner_within_its_scopes_until_it_expires(self, people, clock):
        token, secret = people.tokens.create(
            "maria", " our SIEM ", ["triage", "read"], clock.time + timedelta(days=30), by="maria"
        )
        assert secret.startswith("fpt_")
        person, found = people.tokens.authenticate(secret)
        assert (person.name, found.label, found.scopes) == ("maria", "our SIEM", ("read", "triage"))
        clock.pass_by(days=30)
        assert people.tokens.authenticate(secret) is None
        assert people.tokens.list_all("maria")[0].token_id == token.token_id

    def test_a_revoked_token_is_good_for_nothing(self, people, clock):
        token, secret = people.tokens.create(
            "maria", "x", ["read"], clock.time + timedelta(days=1), by="maria"
        )
        people.tokens.revoke(token.token_id, by="maria")
        people.tokens.revoke(token.token_id, by="maria")
        assert people.tokens.authenticate(secret) is None
        assert people.tokens.list_all()[0].revoked_at == clock.time

    # what is kept

    def test_no_secret_and_no_password_is_kept_anywhere(self, store, people, add, clock):
        link = people.accounts.invite("bob", "analyst", by="maria")
        _, token = people.tokens.create("maria", "x", ["read"], clock.time + timedelta(days=1), by="maria")
        secrets = [
            link,
            token,
            token.removeprefix("fpt_"),
            people.logins.log_in("maria", GOOD, HERE),
            add("carl"),
            GOOD,
            OTHER,
        ]
        fail(people, "a password typed for a name", 1)
        secrets += [people.logins.remember_browser(people.logins.log_in("maria", GOOD, HERE), "")]
        secrets += [
            code for each in with_app(people, "carl", clock)[1] for code in (each, each.replace("-", ""))
        ]
        secrets += [begun(people, "carl")]
        kept = "\n".join(dump_tables(store).values())
        assert "maria" in kept
        assert [each for each in [*secrets, "a password typed for a name"] if each in kept] == []

    def test_every_change_has_its_line_in_the_audit(self, store, people, add, clock):
        before = newest(store)
        add("bob")
        token, _ = people.tokens.create("bob", "x", ["read"], clock.time + timedelta(days=1), by="bob")
        people.tokens.revoke(token.token_id, by="maria", owner="bob")
        people.accounts.set_role("bob", "engineer", by="maria")
        session = people.logins.log_in("bob", GOOD, HERE)
        people.sessions.end_others("bob", session)
        people.logins.change_password(session, GOOD, OTHER, HERE)
        fail(people, "bob", 1)
        people.accounts.disable("bob", by="maria")
        people.accounts.enable("bob", by="maria")
        people.sessions.log_out(people.logins.log_in_as(CARLA))
        said = [(line.action, line.by, line.target) for line in lines(store) if line.number > before]
        assert [line for line in said if line[0].startswith("token")] == [
            ("token.create", "bob", token.token_id),
            ("token.revoke", "maria", token.token_id),
        ]
        assert [line for line in said if line[2] == "bob"] == [
            ("account.invite", "maria", "bob"),
            ("account.accept", "bob", "bob"),
            ("account.login", "bob", "bob"),
            ("account.role", "maria", "bob"),
            ("account.login", "bob", "bob"),
            ("account.leave_others", "bob", "bob"),
            ("account.password", "bob", "bob"),
            ("account.login", "bob", "bob"),
            ("account.refused", "unknown", "bob"),
            ("account.disable", "maria", "bob"),
            ("account.enable", "maria", "bob"),
        ]
        assert [line[0] for line in said if line[2] == "carla"] == [
            "account.create",
            "account.login",
            "account.logout",
        ]

    def test_what_is_over_is_forgotten(self, store, people, clock):
        people.accounts.invite("bob", "analyst", by="maria")
        fail(people, "maria", 3)
        clock.pass_by(days=2)
        people.logins.log_in("maria", GOOD, HERE)
        people.delete_expired()
        kept = dump_tables(store)
        assert [len(kept[name].splitlines()) for name in ("sessions", "invitations", "login_attempts")] == [
            1,
            0,
            0,
        ]


class PeopleRules(PeopleContract):
    """On SQLite alone: rules that Python decides, by statements that the contract has on every database."""

    # the first admin, and links

    def test_a_link_is_good_once(self, store, clock):
        people = open_account_store(store.session, clock, Web())
        secret = people.accounts.create_first_invitation()
        people.logins.accept_invitation(secret, "maria", GOOD)
        assert people.accounts.invitation(secret) is None
        with pytest.raises(AuthenticationFailed, match="was used"):
            people.logins.accept_invitation(secret, "mallory", GOOD)

    def test_a_link_is_good_for_a_day(self, people, clock):
        secret = people.accounts.invite("bob", "analyst", by="maria")
        clock.pass_by(hours=23, minutes=59)
        assert people.accounts.invitation(secret).name == "bob"
        clock.pass_by(minutes=1)
        assert people.accounts.invitation(secret) is None
        with pytest.raises(AuthenticationFailed):
            people.logins.accept_invitation(secret, "", GOOD)

    def test_looking_at_a_link_and_a_weak_password_do_not_use_it_up(self, people):
        secret = people.accounts.invite("bob", "analyst", by="maria")
        for weak in ("", "short", "a" * 30, "x" * 1025):
            people.accounts.invitation(secret)
            with pytest.raises(FingerprintError):
                people.logins.accept_invitation(secret, "", weak)
        assert people.sessions.authenticate(people.logins.accept_invitation(secret, "", GOOD)).name == "bob"

    def test_a_password_is_not_the_name(self, people):
        secret = people.accounts.invite("maria.sanz.lopez", "analyst", by="maria")
        with pytest.raises(FingerprintError, match="not the name"):
            people.logins.accept_invitation(secret, "", "Maria.Sanz.Lopez")

    def test_a_link_for_the_first_admin_is_good_beside_that_of_another_replica_until_one_is_used(
        self, store, clock
    ):
        people = open_account_store(store.session, clock, Web())
        first, second = people.accounts.create_first_invitation(), people.accounts.create_first_invitation()
        assert people.accounts.invitation(first) == people.accounts.invitation(second)
        people.logins.accept_invitation(first, "maria", GOOD)
        assert people.accounts.invitation(second) is None
        with pytest.raises(AuthenticationFailed):
            people.logins.accept_invitation(second, "mallory", GOOD)

    def test_a_new_link_of_an_account_ends_the_one_before(self, people, add):
        add("bob")
        first, second = (people.accounts.invite("bob", None, by="maria") for _ in range(2))
        assert people.accounts.invitation(first) is None
        assert people.accounts.invitation(second).name == "bob"

    def test_the_first_admins_link_is_good_for_nothing_once_there_is_an_admin(self, store, clock):
        people = open_account_store(store.session, clock, Web())
        secret = people.accounts.create_first_invitation()
        people.logins.log_in_as(ExternalIdentity("https://id.example.com", "1", "boss", "admin"))
        assert people.accounts.invitation(secret) is None
        with pytest.raises(AuthenticationFailed):
            people.logins.accept_invitation(secret, "mallory", GOOD)

    def test_a_link_for_a_new_password_ends_sessions_and_the_old_password(self, people, add):
        session = add("bob")
        people.logins.accept_invitation(people.accounts.invite("bob", None, by="maria"), "", OTHER)
        assert people.sessions.authenticate(session) is None
        with pytest.raises(AuthenticationFailed):
            people.logins.log_in("bob", GOOD, HERE)
        assert people.sessions.authenticate(people.logins.log_in("bob", OTHER, HERE)).name == "bob"

    def test_a_name_is_given_once(self, people, add):
        add("bob")
        people.accounts.disable("bob", by="maria")
        with pytest.raises(FingerprintError, match="already"):
            people.accounts.invite("BOB", "admin", by="maria")

    @pytest.mark.parametrize(
        "name", ["", " ", "a b", "böb", "bob\0", "<b>", "-bob", "b" * 65, "bob\u202e", "\ud800"]
    )
    def test_a_name_that_could_be_taken_for_another_is_none(self, people, name):
        with pytest.raises(FingerprintError, match="letters a to z"):
            people.accounts.invite(name, "analyst", by="maria")

    # logging in

    def test_the_right_password_opens_a_session(self, people):
        assert people.sessions.authenticate(people.logins.log_in(" MARIA", GOOD, HERE)).name == "maria"

    def test_anyone_who_has_only_a_link_or_is_disabled_hears_the_same_sentence(self, people, add):
        people.accounts.invite("carl", "analyst", by="maria")
        add("bob")
        people.accounts.disable("bob", by="maria")
        for name in ("carl", "bob"):
            with pytest.raises(AuthenticationFailed, match=r"^the name or the password is wrong$"):
                people.logins.log_in(name, GOOD, HERE)

    # guessing: who guesses is slowed down, and no one else

    def test_after_four_failures_each_next_try_waits_twice_as_long(self, people, clock):
        fail(people, "maria", 4)
        waited = []
        for _ in range(12):
            with pytest.raises(TooManyAttempts) as refused:
                people.logins.log_in("maria", GOOD, HERE)
            waited.append(refused.value.seconds)
            clock.sleep(refused.value.seconds)
            fail(people, "maria", 1)
        assert waited == [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]

    def test_the_sentence_says_how_long_to_wait(self, people, clock):
        fail(people, "maria", 4)
        with pytest.raises(TooManyAttempts, match=r"try again in 2 seconds$"):
            people.logins.log_in("maria", GOOD, HERE)

    def test_the_right_password_from_elsewhere_gets_in_at_once(self, people):
        fail(people, "maria", 4)
        assert people.sessions.authenticate(people.logins.log_in("maria", GOOD, THERE)).name == "maria"

    def test_anyone_who_sits_behind_the_same_address_is_not_slowed_down(self, people, add):
        add("bob")
        for number in range(60):
            fail(people, f"name{number}", 4)
        fail(people, "maria", 4)
        assert people.sessions.authenticate(people.logins.log_in("bob", GOOD, HERE)).name == "bob"

    def test_who_is_refused_for_now_makes_the_wait_no_longer(self, people, clock):
        fail(people, "maria", 4)
        clock.sleep(1)
        with pytest.raises(TooManyAttempts, match=r"in 1 second$"):
            people.logins.log_in("maria", OTHER, HERE)
        clock.sleep(1)
        people.logins.log_in("maria", GOOD, HERE)

    def test_the_right_password_forgives_what_was_typed_before(self, people, clock):
        for _ in range(3):
            fail(people, "maria", 4)
            with pytest.raises(TooManyAttempts):
                people.logins.log_in("maria", GOOD, HERE)
            clock.sleep(2)
            people.logins.log_in("maria", GOOD, HERE)

    def test_many_places_together_guess_a_name_once_in_two_minutes(self, people, clock):
        for number in range(50):
            fail(people, "maria", 1, ClientInfo(f"203.0.113.{number}"))
        for number in range(3):
            with pytest.raises(TooManyAttempts, match="2 minutes"):
                people.logins.log_in("maria", OTHER, ClientInfo(f"198.51.100.{number}"))
            clock.sleep(120)
            fail(people, "maria", 1, ClientInfo(f"198.51.100.{number}"))

    def test_a_browser_is_known_for_whom_logged_in_and_for_90_days(self, people, add, clock):
        add("bob")
        device = people.logins.remember_browser(people.logins.log_in("maria", GOOD, HERE), "")
        for number in range(50):
            fail(people, "bob", 1, ClientInfo(f"203.0.113.{number}"))
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("bob", GOOD, ClientInfo(HERE.address, device=device))
        clock.pass_by(days=90)
        for number in range(50):
            fail(people, "maria", 1, ClientInfo(f"203.0.113.{number}"))
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("maria", GOOD, ClientInfo(HERE.address, device=device))

    def test_all_addresses_of_a_network_that_one_may_own_are_one(self, people):
        for number in range(4):
            fail(people, "maria", 1, ClientInfo(f"2001:db8:1:2::{number:x}"))
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("maria", GOOD, ClientInfo("2001:db8:1:2:ffff::1"))
        assert people.sessions.authenticate(
            people.logins.log_in("maria", GOOD, ClientInfo("2001:db8:1:3::1"))
        )

    def test_several_servers_count_together(self, store, clock, people):
        beside = open_account_store(store.session, clock, Web())
        fail(people, "maria", 2)
        fail(beside, "maria", 2)
        with pytest.raises(TooManyAttempts):
            people.logins.log_in("maria", GOOD, HERE)

    def test_a_change_of_password_is_slowed_down_by_its_own_sessions_failures_alone(self, people):
        mine, thief = people.logins.log_in("maria", GOOD, HERE), people.logins.log_in("maria", GOOD, THERE)
        fail(people, "maria", 4)
        for _ in range(4):
            with pytest.raises(AuthenticationFailed, match="wrong"):
                people.logins.change_password(thief, OTHER, "a new one of mine", THERE)
        with pytest.raises(TooManyAttempts):
            people.logins.change_password(thief, GOOD, OTHER, THERE)
        assert people.logins.change_password(mine, GOOD, OTHER, HERE)

    # sessions

    def test_a_session_that_is_used_lives_on_until_its_day_is_over(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        for _ in range(5):
            clock.pass_by(hours=4)
            assert people.sessions.authenticate(session)
        clock.pass_by(hours=3, minutes=59)
        assert people.sessions.authenticate(session)
        clock.pass_by(minutes=1)
        assert people.sessions.authenticate(session) is None

    def test_a_session_that_no_one_uses_ends(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        clock.pass_by(hours=8)
        assert people.sessions.authenticate(session) is None

    def test_a_page_that_asks_by_itself_keeps_no_session_alive(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        clock.pass_by(hours=7)
        assert people.sessions.authenticate(session, is_activity=False)
        clock.pass_by(hours=1)
        assert people.sessions.authenticate(session, is_activity=False) is None

    def test_logging_out_ends_this_session_and_no_other(self, people):
        one, other = people.logins.log_in("maria", GOOD, HERE), people.logins.log_in("maria", GOOD, HERE)
        people.sessions.log_out(one)
        people.sessions.log_out(one)
        assert people.sessions.authenticate(one) is None
        assert people.sessions.authenticate(other)

    def test_a_browser_left_somewhere_is_logged_out_from_here(self, people):
        one, other = people.logins.log_in("maria", GOOD, HERE), people.logins.log_in("maria", GOOD, HERE)
        people.sessions.end_others("maria", one)
        assert people.sessions.authenticate(one)
        assert people.sessions.authenticate(other) is None

    def test_a_new_password_ends_every_session_but_the_new_one(self, people):
        before = people.logins.log_in("maria", GOOD, HERE)
        now = people.logins.change_password(before, GOOD, OTHER, HERE)
        assert people.sessions.authenticate(before) is None
        assert people.sessions.authenticate(now).name == "maria"
        with pytest.raises(AuthenticationFailed):
            people.logins.log_in("maria", GOOD, HERE)

    def test_another_role_ends_sessions(self, people, add):
        session = add("bob")
        people.accounts.set_role("bob", "engineer", by="maria")
        assert people.sessions.authenticate(session) is None
        assert people.sessions.authenticate(people.logins.log_in("bob", GOOD, HERE)).role == "engineer"

    def test_a_token_is_worth_less_at_once_when_its_owner_s_role_is_lowered(self, people, add, clock):
        add("bob", role="admin")
        _, token = people.tokens.create(
            "bob", "a script", ["admin"], clock.time + timedelta(days=1), by="bob"
        )
        people.accounts.set_role("bob", "viewer", by="maria")
        owner, shown = people.tokens.authenticate(token)
        assert token_role(owner.role, shown.scopes) == "viewer"

    def test_anyone_who_is_disabled_is_out_at_once_and_stays_out_of_old_sessions(self, people, add, clock):
        session = add("bob")
        _, token = people.tokens.create("bob", "a script", ["read"], clock.time + timedelta(days=1), by="bob")
        link = people.accounts.invite("bob", None, by="maria")
        people.accounts.disable("bob", by="maria")
        assert people.sessions.authenticate(session) is None
        assert people.tokens.authenticate(token) is None
        assert people.accounts.invitation(link) is None
        people.accounts.enable("bob", by="maria")
        assert people.sessions.authenticate(session) is None
        assert people.tokens.authenticate(token) is None
        assert people.sessions.authenticate(people.logins.log_in("bob", GOOD, HERE))

    def test_an_admin_ends_sessions_and_tokens_of_someone_who_may_log_in_again(self, people, add, clock):
        session, secret = add("bob"), token(people, "bob")
        people.sessions.end_all("bob", by="maria")
        assert (people.sessions.authenticate(session), people.tokens.authenticate(secret)) == (None, None)
        assert people.logins.log_in("bob", GOOD, HERE)

    def test_a_change_of_password_proves_no_second_factor(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        stolen = people.logins.finish(
            begun(people, "maria"), SecondFactorResponse(code=app.at(clock.time)), HERE
        )
        clock.pass_by(hours=1)
        changed = people.logins.change_password(stolen, GOOD, OTHER, HERE)
        assert people.sessions.authenticate(changed).name == "maria"
        assert not people.sessions.get(changed).is_proven(clock.time)

    def test_a_stolen_session_guesses_no_password_by_confirming(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        for _ in range(4):
            with pytest.raises(AuthenticationFailed, match="wrong"):
                people.logins.reauthenticate(session, OTHER)
        with pytest.raises(TooManyAttempts):
            people.logins.reauthenticate(session, GOOD)
        assert people.logins.log_in("maria", GOOD, HERE)

    # second factors

    def test_with_an_authenticator_app_the_password_alone_opens_nothing(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        login = begun(people, "maria")
        assert people.sessions.authenticate(login) is None
        assert people.logins.pending(login).kinds == ("code",)
        with pytest.raises(AuthenticationFailed, match="wrong"):
            people.logins.finish(login, SecondFactorResponse(code="000000"), HERE)
        session = people.logins.finish(login, SecondFactorResponse(code=app.at(clock.time)), HERE)
        assert (people.sessions.authenticate(session).name, people.sessions.get(session).proof) == (
            "maria",
            "code",
        )
        with pytest.raises(AuthenticationFailed, match="too long"):
            people.logins.finish(login, SecondFactorResponse(code=app.at(clock.time)), HERE)

    def test_a_code_is_good_once_and_for_a_minute_and_a_half(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        used = app.at(clock.time)
        people.logins.finish(
            begun(people, "maria"), SecondFactorResponse(code=f"{used[:3]} {used[3:]}"), HERE
        )
        for code in (
            used,
            app.at(clock.time - timedelta(seconds=30)),
            app.at(clock.time + timedelta(seconds=60)),
        ):
            with pytest.raises(AuthenticationFailed, match="used before"):
                people.logins.finish(begun(people, "maria"), SecondFactorResponse(code=code), HERE)
        code = app.at(clock.time + timedelta(seconds=30))
        assert people.logins.finish(begun(people, "maria"), SecondFactorResponse(code=code), HERE)

    def test_codes_are_guessed_four_times_and_then_ever_more_slowly(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        device = people.logins.remember_browser(
            people.logins.finish(begun(people, "maria"), SecondFactorResponse(app.at(clock.time)), HERE), ""
        )
        clock.pass_by(minutes=5)
        login = begun(people, "maria", THERE)
        for _ in range(4):
            with pytest.raises(AuthenticationFailed, match="wrong"):
                people.logins.finish(login, SecondFactorResponse("000000"), THERE)
        with pytest.raises(TooManyAttempts):
            people.logins.finish(login, SecondFactorResponse(app.at(clock.time)), THERE)
        for number in range(6):
            with pytest.raises(AuthenticationFailed, match="wrong"):
                people.logins.finish(login, SecondFactorResponse("000000"), ClientInfo(f"203.0.113.{number}"))
        with pytest.raises(TooManyAttempts, match="15 minutes"):
            people.logins.finish(login, SecondFactorResponse("000000"), ClientInfo("203.0.113.99"))
        known = ClientInfo(HERE.address, device=device)
        assert people.logins.finish(
            begun(people, "maria", known), SecondFactorResponse(app.at(clock.time)), known
        )

    def test_a_login_whose_second_factor_does_not_come_is_over_after_ten_minutes(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        login = begun(people, "maria")
        clock.pass_by(minutes=10)
        assert people.logins.pending(login) is None
        with pytest.raises(AuthenticationFailed, match="too long"):
            people.logins.finish(login, SecondFactorResponse(app.at(clock.time)), HERE)

    @pytest.mark.parametrize("in_the_meantime", ["reset", "disable", "end"])
    def test_a_login_under_way_ends_with_the_sessions(self, people, add, clock, in_the_meantime):
        add("bob")
        app, _ = with_app(people, "bob", clock)
        login = begun(people, "bob")
        if in_the_meantime == "reset":
            with pytest.raises(SecondFactorNeeded):
                people.logins.accept_invitation(people.accounts.invite("bob", None, by="maria"), "", OTHER)
        else:
            (people.accounts.disable if in_the_meantime == "disable" else people.sessions.end_all)(
                "bob", by="maria"
            )
        with pytest.raises(AuthenticationFailed, match="too long"):
            people.logins.finish(login, SecondFactorResponse(app.at(clock.time)), HERE)

    def test_a_recovery_code_stands_in_once(self, people, clock):
        _, codes = with_app(people, "maria", clock)
        assert len(set(codes)) == people.second_factors.recovery_codes_left("maria") == 10
        assert people.logins.finish(begun(people, "maria"), SecondFactorResponse(codes[3].lower()), HERE)
        with pytest.raises(AuthenticationFailed):
            people.logins.finish(begun(people, "maria"), SecondFactorResponse(codes[3]), HERE)
        assert people.second_factors.recovery_codes_left("maria") == 9
        session = people.logins.finish(begun(people, "maria"), SecondFactorResponse(codes[4]), HERE)
        assert len(people.second_factors.new_recovery_codes(session)) == 10
        with pytest.raises(AuthenticationFailed):
            people.logins.finish(begun(people, "maria"), SecondFactorResponse(codes[5]), HERE)

    def test_who_has_a_second_factor_confirms_with_it_and_not_with_the_password(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        session = people.logins.finish(begun(people, "maria"), SecondFactorResponse(app.at(clock.time)), HERE)
        clock.pass_by(minutes=11)
        with pytest.raises(AuthenticationFailed, match="code or passkey"):
            people.logins.reauthenticate(session, GOOD)
        people.logins.reauthenticate(session, response=SecondFactorResponse(app.at(clock.time)))
        assert people.sessions.get(session).is_proven(clock.time)

    def test_a_code_that_is_not_the_apps_adds_none(self, people, clock):
        session = people.logins.log_in("maria", GOOD, HERE)
        secret, address = people.second_factors.new_authenticator_app("maria")
        assert address.startswith("otpauth://totp/Fingerprint:maria?secret=" + secret)
        for wrong, code in (
            (secret, "000000"),
            (secret, ""),
            ("A" * 8, "000000"),
            ("\ud800", "1"),
        ):
            with pytest.raises(FingerprintError):
                people.second_factors.add_authenticator_app(session, "x", wrong, code)
        assert people.second_factors.of_account("maria") == []

    @pytest.mark.parametrize(
        "answer",
        ["", "{}", "[]", "null", '{"id": 1}', '{"id": "x"}', "[" * 20_000, "x" * 30_000, "\ud800", "\0"],
    )
    def test_what_is_no_passkeys_answer_proves_nothing(self, people, clock, answer):
        session = people.logins.log_in("maria", GOOD, HERE)
        people.second_factors.begin_passkey_registration(session, PARTY)
        with pytest.raises(FingerprintError, match="could not be added"):
            people.second_factors.add_passkey(session, "x", answer, PARTY)
        with_app(people, "maria", clock)
        login = begun(people, "maria")
        people.logins.begin_passkey(login, PARTY)
        with pytest.raises(AuthenticationFailed):
            people.logins.finish(login, SecondFactorResponse(passkey=answer, party=PARTY), HERE)

    def test_no_one_removes_someone_elses_second_factor(self, people, add, clock):
        bob = add("bob")
        with_app(people, "maria", clock)
        with pytest.raises(FingerprintError, match="no such second factor"):
            people.second_factors.remove(bob, people.second_factors.of_account("maria")[0].factor_id)

    def test_with_the_last_second_factor_its_recovery_codes_go(self, people, clock):
        app, _ = with_app(people, "maria", clock)
        session = people.logins.finish(begun(people, "maria"), SecondFactorResponse(app.at(clock.time)), HERE)
        people.second_factors.remove(session, people.second_factors.of_account("maria")[0].factor_id)
        assert people.second_factors.recovery_codes_left("maria") == 0
        assert people.sessions.authenticate(people.logins.log_in("maria", GOOD, HERE))

    # single sign-on only

    def test_with_single_sign_on_only_a_local_account_is_good_for_nothing_but_for_one(
        self, store, people, add, clock
    ):
        session, secret = add("bob"), token(people, "bob")
        only = open_account_store(store.session, clock, SSO_ONLY)
        assert (only.sessions.authenticate(session), only.tokens.authenticate(secret)) == (None, None)
        for attempt in (
            lambda: only.logins.log_in("bob", GOOD, HERE),
            lambda: only.accounts.invite("bob", None, by="maria"),
            lambda: only.accounts.invite("carl", "viewer", by="maria"),
        ):
            with pytest.raises(AuthenticationFailed):
                attempt()
        assert (
            only.sessions.authenticate(only.logins.log_in("maria", GOOD, HERE)).name == "maria"
        )  # the emergency account
        assert only.sessions.authenticate(only.logins.log_in_as(CARLA)).name == "carla"

    # an admin there is always

    def test_the_last_admin_can_be_neither_disabled_nor_demoted(self, people):
        people.accounts.invite("carl", "admin", by="maria")  # who did not come yet is no admin
        for change in (
            lambda: people.accounts.disable("maria", by="maria"),
            lambda: people.accounts.set_role("maria", "engineer", by="maria"),
        ):
            with pytest.raises(FingerprintError, match="last admin"):
                change()
        assert people.accounts.get("maria").role == "admin"

    # tokens

    def test_no_one_revokes_someone_elses_token_as_their_own(self, people, add, clock):
        add("bob")
        token, secret = people.tokens.create(
            "maria", "x", ["read"], clock.time + timedelta(days=1), by="maria"
        )
        with pytest.raises(FingerprintError, match="no such token"):
            people.tokens.revoke(token.token_id, by="bob", owner="bob")
        assert people.tokens.authenticate(secret)

    def test_when_a_token_was_last_used_is_known_to_ten_minutes(self, people, clock):
        _, secret = people.tokens.create("maria", "x", ["read"], clock.time + timedelta(days=1), by="maria")
        people.tokens.authenticate(secret)
        first = clock.time
        clock.pass_by(minutes=5)
        people.tokens.authenticate(secret)
        assert people.tokens.list_all()[0].last_used == first
        clock.pass_by(minutes=6)
        people.tokens.authenticate(secret)
        assert people.tokens.list_all()[0].last_used == clock.time

    @pytest.mark.parametrize(
        ("label", "scopes", "days", "sentence"),
        [
            ("", ["read"], 1, "what the token is for"),
            ("x" * 101, ["read"], 1, "what the token is for"),
            ("x", [], 1, "needs a scope"),
            ("x", ["root"], 1, "needs a scope"),
            ("x", ["read", "engineer"], 1, "cannot have engineer"),
            ("x", ["read"], 0, "expires within"),
            ("x", ["read"], 367, "expires within"),
        ],
    )
    def test_a_token_that_is_too_much_is_not_made(self, people, add, clock, label, scopes, days, sentence):
        add("bob")
        with pytest.raises(FingerprintError, match=sentence):
            people.tokens.create("bob", label, scopes, clock.time + timedelta(days=days), by="bob")

    def test_no_one_has_tokens_without_end(self, people, clock):
        ends = clock.time + timedelta(days=1)
        made = [
            people.tokens.create("maria", str(number), ["read"], ends, by="maria")[0] for number in range(50)
        ]
        with pytest.raises(FingerprintError, match="50 tokens"):
            people.tokens.create("maria", "one more", ["read"], ends, by="maria")
        people.tokens.revoke(made[0].token_id, by="maria")
        people.tokens.create("maria", "one more", ["read"], ends, by="maria")

    def test_a_reset_by_link_ends_tokens_and_a_change_of_password_on_request(self, people, add):
        session, first = add("bob"), token(people, "bob")
        session = people.logins.change_password(session, GOOD, OTHER, HERE, end_tokens=False)
        assert people.tokens.authenticate(first)
        people.logins.change_password(session, OTHER, GOOD, HERE)
        assert people.tokens.authenticate(first) is None
        second = token(people, "bob")
        people.logins.accept_invitation(people.accounts.invite("bob", None, by="maria"), "", OTHER)
        assert people.tokens.authenticate(second) is None

    # from a provider

    def test_a_providers_subject_is_the_person(self, people):
        session = people.logins.log_in_as(CARLA)
        assert people.sessions.authenticate(session).name == "carla"
        people.logins.log_in_as(ExternalIdentity(CARLA.issuer, CARLA.subject, "someone else", "analyst"))
        assert [each.name for each in people.accounts.list_all()] == ["carla", "maria"]

    def test_the_same_subject_of_another_provider_is_someone_else(self, people):
        people.logins.log_in_as(CARLA)
        people.logins.log_in_as(
            ExternalIdentity("https://other.example.com", CARLA.subject, "carla", "viewer")
        )
        assert [(each.name, each.role) for each in people.accounts.list_all()][:2] == [
            ("carla", "analyst"),
            ("carla-2", "viewer"),
        ]

    def test_anyone_who_comes_from_a_provider_gets_no_password_here(self, people):
        people.logins.log_in_as(CARLA)
        with pytest.raises(FingerprintError, match="no password here"):
            people.accounts.invite("carla", None, by="maria")
        with pytest.raises(AuthenticationFailed):
            people.logins.log_in("carla", "", HERE)

    def test_a_provider_that_gives_no_role_leaves_the_one_that_an_admin_gave(self, people):
        people.logins.log_in_as(ExternalIdentity("https://id.example.com", "7", "dora"), default="viewer")
        people.accounts.set_role("dora", "engineer", by="maria")
        assert (
            people.sessions.authenticate(
                people.logins.log_in_as(
                    ExternalIdentity("https://id.example.com", "7", "dora"), default="viewer"
                )
            ).role
            == "engineer"
        )

    def test_tokens_of_whom_a_provider_vouches_for_work_while_they_log_in_there(self, people, clock):
        people.logins.log_in_as(CARLA)
        secret = token(people, "carla", days=365)
        clock.pass_by(days=29)
        assert people.tokens.authenticate(secret)
        clock.pass_by(days=1)
        assert people.tokens.authenticate(secret) is None
        people.logins.log_in_as(CARLA)
        assert people.tokens.authenticate(secret)

    def test_a_providers_session_is_as_proven_as_the_provider_says(self, people, clock):
        old, fresh = (replace(CARLA, authenticated_at=clock.time - timedelta(minutes=ago)) for ago in (11, 9))
        assert not people.sessions.get(people.logins.log_in_as(CARLA)).is_proven(clock.time)
        assert not people.sessions.get(people.logins.log_in_as(old)).is_proven(clock.time)
        session = people.logins.log_in_as(fresh)
        assert people.sessions.get(session).is_proven(clock.time)
        with pytest.raises(AuthenticationFailed):
            people.logins.reauthenticate(session, "")
        with pytest.raises(FingerprintError, match="set up there"):
            people.second_factors.add_authenticator_app(
                session, "x", *people.second_factors.new_authenticator_app("carla")
            )


def fail(people: AccountStore, name: str, times: int, where: ClientInfo = HERE) -> None:
    for _ in range(times):
        with pytest.raises(AuthenticationFailed, match="wrong"):
            people.logins.log_in(name, "not the password", where)


def token(people: AccountStore, name: str, days: int = 1) -> str:
    ends = people.tokens._session.now() + timedelta(days=days)
    return people.tokens.create(name, "a script", ["read"], ends, by=name)[1]


def with_app(people: AccountStore, name: str, clock: Moment) -> tuple[TOTP, list[str]]:
    """Set up an authenticator app; what it shows a minute later, and recovery codes."""
    secret, _ = people.second_factors.new_authenticator_app(name)
    codes = people.second_factors.add_authenticator_app(
        people.logins.log_in(name, GOOD, HERE), "telephone", secret, TOTP(secret).at(clock.time)
    )
    clock.pass_by(minutes=1)
    return TOTP(secret), codes


def begun(people: AccountStore, name: str, where: ClientInfo = HERE) -> str:
    """A login whose second factor is awaited."""
    with pytest.raises(SecondFactorNeeded) as needed:
        people.logins.log_in(name, GOOD, where)
    return needed.value.login


def lines(store: SqlStore) -> list[AuditEntry]:
    """The audit, the oldest first."""
    return store.audit.entries(limit=10_000)[::-1]


def newest(store: SqlStore) -> int:
    return max((line.number for line in lines(store)), default=0)
