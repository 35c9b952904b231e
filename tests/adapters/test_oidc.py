"""People from an OpenID provider: a real one over HTTP, honest and lying."""

from __future__ import annotations

import hmac
import re
import time
from base64 import urlsafe_b64encode
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import RSAKey

from fingerprint.adapters import oidc as openid
from fingerprint.adapters.oidc import COOLDOWN_SECONDS, OpenIdProvider
from fingerprint.adapters.system import SystemClock
from fingerprint.core.account import AuthenticationFailed
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.settings import Settings, load_settings
from pipelines.serve import create_dependencies
from tests.support.security_log import lines_of
from tests.support.services.openid import CLIENT, SECRET, Provider
from tests.support.web_app import BASE, Site, store_in

elsewhere = httpx2.Client()  # the browser at the provider
BACK = f"{BASE}/login/provider/back"
MARIA = {"sub": "248289761001", "preferred_username": "Maria Sanz", "groups": ["staff", "soc-analysts"]}


@pytest.fixture(scope="module")
def running():
    with Provider.started() as provider:
        yield provider


@pytest.fixture
def provider(running):
    running.broken, running.asked = False, 0
    running.claims, running.signer, running.algorithm, running.named = (
        dict(MARIA),
        running.key,
        "RS256",
        running.issuer,
    )
    return running


def settings_for(issuer: str, tmp_path, **more) -> Settings:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    oidc = {"issuer": issuer, "client_id": CLIENT, "client_secret_file": str(file), "default_role": "viewer"}
    return load_settings(environment={}, options={"web": {"oidc": oidc | more}})


@pytest.fixture
def site_of(provider, tmp_path):
    def make(**more) -> Site:
        settings = settings_for(provider.issuer, tmp_path, **more)
        return Site.of(
            store_in(tmp_path), settings, provider=OpenIdProvider(settings.web.oidc, SystemClock())
        )

    return make


def through(browser, start="/login/provider"):
    """From the link to wherever the browser ends up: our answer to what the provider sent it back with."""
    there = browser.get(start)
    assert there.status_code == 303, there.text
    back = elsewhere.get(there.headers["location"]).headers["location"]
    return browser.get(back.removeprefix(BASE))


def test_anyone_who_comes_the_first_time_gets_an_account_and_the_role_of_their_group(site_of):
    site = site_of(role_claim="groups", roles={"soc-analysts": "analyst", "soc-leads": "engineer"})
    browser = site.no_one()
    answer = through(browser, "/login/provider?next=/alerts/397edb7b%3Fx=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/alerts/397edb7b?x=1")
    assert "maria-sanz" in browser.get("/account").text
    maria = site.people.accounts.get("maria-sanz")
    assert (maria.role, maria.subject, maria.has_password) == ("analyst", "248289761001", False)


def test_the_same_subject_is_the_same_person_whatever_it_is_called_now(site_of, provider):
    site = site_of()
    through(site.no_one())
    provider.claims |= {"preferred_username": "maria-gomez", "email": "m.gomez@example.com"}
    through(site.no_one())
    assert [each.name for each in site.people.accounts.list_all() if each.issuer == provider.issuer] == [
        "maria-sanz"
    ]


def test_the_name_of_a_local_account_opens_nothing(site_of, provider):
    """Nor does its address: the account is another one, with another name."""
    site = site_of()
    first = site.people.accounts.create_first_invitation() or site.people.accounts.invite(
        "maria", "admin", by="admin"
    )
    site.people.logins.accept_invitation(first, "maria", "four plain english words")
    provider.claims |= {"preferred_username": "maria", "email": "maria", "email_verified": True}
    browser = site.no_one()
    through(browser)
    assert "maria-2" in browser.get("/account").text
    assert site.people.accounts.get("maria").role == "admin"
    assert site.people.accounts.get("maria-2").role == "viewer"


def test_another_group_is_another_role_at_the_next_login_and_the_old_sessions_end(site_of, provider):
    site = site_of(
        role_claim="groups", roles={"soc-analysts": "analyst", "soc-leads": "engineer"}, default_role=None
    )
    before = site.no_one()
    through(before)
    provider.claims["groups"] = "soc-leads"
    after = site.no_one()
    through(after)
    assert site.people.accounts.get("maria-sanz").role == "engineer"
    assert (before.get("/account").status_code, after.get("/account").status_code) == (303, 200)


def test_anyone_who_has_no_group_here_is_told_so_and_gets_no_account(site_of, provider):
    site = site_of(role_claim="groups", roles={"soc-leads": "engineer"}, default_role=None)
    answer = through(site.no_one())
    assert answer.status_code == 403
    assert "no role here" in answer.text
    assert not [each for each in site.people.accounts.list_all() if each.issuer == provider.issuer]


def test_a_role_may_lie_deep_in_the_claims(site_of, provider):
    provider.claims["realm_access"] = {"roles": ["offline", "lead"]}
    site = site_of(role_claim="realm_access.roles", roles={"lead": "engineer"}, default_role=None)
    through(site.no_one())
    assert site.people.accounts.get("maria-sanz").role == "engineer"


@pytest.mark.parametrize(
    ("claims", "let_in"),
    [
        ({"email": "maria@example.com", "email_verified": True}, True),
        ({"email": "maria@EXAMPLE.com", "email_verified": True}, True),
        ({"email": "maria@example.com", "email_verified": False}, False),
        ({"email": "maria@example.com", "email_verified": "true"}, False),
        ({"email": "maria@example.com"}, False),
        ({"email": "maria@evil-example.com", "email_verified": True}, False),
        ({"email": "maria@example.com@evil.com", "email_verified": True}, False),
        ({}, False),
    ],
)
def test_only_verified_addresses_of_the_domain_are_let_in(site_of, provider, claims, let_in):
    site = site_of(allowed_domain="example.com")
    provider.claims |= claims
    assert through(site.no_one()).status_code == (303 if let_in else 403)


def test_a_disabled_person_does_not_come_back_through_the_provider(site_of):
    site, browser = site_of(), None
    browser = site.no_one()
    through(browser)
    site.people.accounts.disable("maria-sanz", by="admin")
    assert browser.get("/account").status_code == 303
    assert through(site.no_one()).status_code == 403


def test_who_proves_again_is_asked_again_by_the_provider(site_of, provider):
    site = site_of()
    browser = site.no_one()
    through(browser)
    there = browser.get("/account/second").headers["location"]
    assert there == "/confirm?next=%2Faccount%2Fsecond"
    link = re.search(r'href="(/login/provider\?again=[^"]+)"', browser.get(there).text)[1].replace(
        "&amp;", "&"
    )
    asked = parse_qs(urlsplit(browser.get(link).headers["location"]).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    for said in ({}, {"auth_time": int(time.time()) - 700}, {"auth_time": "now"}, {"auth_time": 1e300}):
        provider.claims = MARIA | said
        answer = through(browser, link)
        assert answer.status_code == 403, said
        assert "did not ask again" in answer.text
    provider.claims = MARIA | {"auth_time": int(time.time())}
    before = browser.cookies["session"]
    assert through(browser, link).headers["location"] == "/account/second"
    assert browser.get("/account/second").status_code == 200
    assert site.people.sessions.authenticate(before) is None


def test_with_single_sign_on_only_the_login_page_has_the_provider_and_at_most_one_account(
    site_of, provider, tmp_path
):
    settings = load_settings(
        environment={},
        options={
            "web": {
                "single_sign_on_only": True,
                "emergency_account": "breakglass",
                "oidc": {"issuer": provider.issuer, "client_id": CLIENT, "default_role": "viewer"},
            }
        },
    )
    site = Site.of(store_in(tmp_path), settings, provider=OpenIdProvider(settings.web.oidc, SystemClock()))
    page = site.no_one().get("/login").text
    assert "/login/provider" in page
    assert "The emergency account" in page
    headers = {"X-CSRF-Token": site.csrf("admin")}
    invite = lambda name: site.browser("admin").post(  # noqa: E731
        "/api/v1/accounts", json={"name": name, "role": "admin"}, headers=headers
    )
    assert invite("bob").status_code == 403
    link = urlsplit(invite("breakglass").json()["link"]).path
    form = {"password": "four plain english words", "again": "four plain english words"}
    assert site.no_one().post(link, data=form).status_code == 303


def unpadded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


LIES = {
    "of another login": {"nonce": "another"},
    "without a nonce": {"nonce": None},
    "for another client": {"aud": "shop"},
    "for another client as well, and issued to it": {"aud": [CLIENT, "shop"], "azp": "shop"},
    "of another issuer": {"iss": "https://evil.example"},
    "that is over": {"exp": int(time.time()) - 3600},
    "without an end": {"exp": None},
    "from the future": {"iat": int(time.time()) + 3600, "nbf": int(time.time()) + 3600},
    "of stranger": {"sub": None},
    "of an empty subject": {"sub": ""},
    "of a subject that is no text": {"sub": 7},
    "of a subject with a NUL": {"sub": "a\0b"},
    "of a subject that never ends": {"sub": "a" * 256},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_id_token_is_not_believed(site_of, provider, lie):
    site = site_of()
    provider.claims |= LIES[lie]
    answer = through(site.no_one())
    assert answer.status_code == 403, lie
    assert "begin again" in answer.text
    assert not [each for each in site.people.accounts.list_all() if each.issuer == provider.issuer]


def test_a_signature_by_someone_elses_key_is_not_believed(site_of, provider):
    provider.signer = RSAKey.generate_key(2048, {"kid": "first"})
    assert through(site_of().no_one()).status_code == 403


def test_a_signature_with_the_public_key_as_a_password_is_not_believed(site_of, provider, monkeypatch):
    """HS256 over the key that everybody can fetch: the oldest trick with these tokens."""
    honest = Provider.id_token

    def signed(self, nonce):
        header = unpadded(b'{"alg":"HS256","kid":"first"}')
        text = f"{header}.{honest(self, nonce).split('.')[1]}"
        return f"{text}.{unpadded(hmac.digest(self.key.as_pem(private=False), text.encode(), 'sha256'))}"

    monkeypatch.setattr(Provider, "id_token", signed)
    assert through(site_of().no_one()).status_code == 403


def test_a_token_without_a_signature_is_not_believed(site_of, provider, monkeypatch):
    honest = Provider.id_token

    def unsigned(self, nonce):
        return "eyJhbGciOiJub25lIn0." + honest(self, nonce).split(".")[1] + "."

    monkeypatch.setattr(Provider, "id_token", unsigned)
    assert through(site_of().no_one()).status_code == 403


def test_a_key_that_the_provider_changed_is_asked_for_again(site_of, provider, monkeypatch):
    site = site_of()
    assert through(site.no_one()).status_code == 303
    fresh = RSAKey.generate_key(2048, {"kid": "second"})
    monkeypatch.setattr(provider, "key", fresh)
    provider.signer = fresh
    assert through(site.no_one()).status_code == 303


ODD_KEYS = (
    {"kty": "OKP", "crv": "X448x", "x": "AA", "kid": "odd"},
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA", "kid": "odd"},
    {"kty": "RSA", "n": 1, "e": "AQAB"},
    {"n": "a"},
    "text",
    None,
)


@pytest.mark.parametrize("odd", ODD_KEYS, ids=str)
def test_a_key_that_is_not_understood_is_no_obstacle_beside_one_that_is(site_of, provider, monkeypatch, odd):
    known = provider.keys()["keys"]
    monkeypatch.setattr(provider, "keys", lambda: {"keys": [odd, *known]})
    assert through(site_of().no_one()).status_code == 303


@pytest.mark.parametrize("said", [{}, {"keys": []}, {"keys": "x"}, {"keys": [*ODD_KEYS]}], ids=str)
def test_a_provider_without_a_key_that_is_understood_lets_no_one_in_and_the_reason_is_in_the_line(
    site_of, provider, monkeypatch, caplog, said
):
    site, keys = site_of(), provider.keys
    monkeypatch.setattr(provider, "keys", lambda: said)
    assert through(site.no_one()).status_code == 403
    [line] = [each for each in lines_of(caplog) if each["outcome"] == "refused"]
    assert "no key that is understood" in line["cause"]
    monkeypatch.setattr(provider, "keys", keys)
    assert through(site.no_one()).status_code == 303, "its keys are not kept for an hour"


def test_a_login_that_another_browser_began_is_not_finished_here(site_of):
    """Or an attacker could log a victim in as themselves, and read what the victim writes."""
    site = site_of()
    attacker, victim = site.no_one(), site.no_one()
    there = attacker.get("/login/provider").headers["location"]
    back = elsewhere.get(there).headers["location"].removeprefix(BASE)
    assert victim.get(back).status_code == 403
    victim.get("/login/provider")  # a login of the victim's own under way does not help
    assert victim.get(back).status_code == 403
    assert victim.get("/account").status_code == 303


def test_a_code_is_good_once(site_of):
    site = site_of()
    browser = site.no_one()
    there = browser.get("/login/provider").headers["location"]
    cookie = browser.cookies["provider"]
    back = elsewhere.get(there).headers["location"].removeprefix(BASE)
    assert browser.get(back).status_code == 303
    again = site.no_one()
    again.cookies.set("provider", cookie)
    assert again.get(back).status_code == 403


def test_what_travels_in_the_address_says_nothing_of_the_secret_or_the_verifier(site_of):
    browser = site_of().no_one()
    asked = parse_qs(urlsplit(browser.get("/login/provider").headers["location"]).query)
    secret = browser.cookies["provider"].partition(".")[0]
    values = [value for values in asked.values() for value in values]
    assert secret not in values
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["code_challenge"][0]) == 43
    assert len({*asked["state"], *asked["nonce"], *asked["code_challenge"]}) == 3


def test_a_provider_that_says_it_is_another_is_not_asked_for_anybody(site_of, provider):
    provider.named = "https://evil.example"
    answer = site_of().no_one().get("/login/provider")
    assert answer.status_code == 400
    assert "says that it is another" in answer.text


def test_a_provider_that_is_away_is_one_sentence_and_passwords_still_work(tmp_path):
    settings = settings_for("http://127.0.0.1:9", tmp_path)
    away = OpenIdProvider(settings.web.oidc, SystemClock())
    with pytest.raises(ServerUnavailable, match="gives no answer: try again, or log in with a password"):
        away.authorization_url("secret", BACK)
    site = Site.of(store_in(tmp_path), settings, provider=away)
    assert site.no_one().get("/login").status_code == 200
    assert site.no_one().get("/login/provider").status_code == 503


def test_serving_asks_the_provider_that_the_settings_name(provider, tmp_path):
    settings = settings_for(provider.issuer, tmp_path)
    site = create_dependencies(store_in(tmp_path), settings, tmp_path)
    assert site.provider.authorization_url("a" * 43, BACK).startswith(f"{provider.issuer}/authorize?")
    assert create_dependencies(store_in(tmp_path), load_settings(environment={}), tmp_path).provider is None


def test_without_a_provider_there_is_no_link_and_no_way(tmp_path):
    site = Site.of(store_in(tmp_path))
    assert "/login/provider" not in site.no_one().get("/login").text
    assert site.no_one().get("/login/provider").status_code == 404


def test_a_provider_that_others_wrote_lets_people_in(tmp_path):
    """oidc-provider-mock, as it comes."""
    import oidc_provider_mock  # with Flask, in every process that collects this file

    people = [oidc_provider_mock.User(sub="carla", claims={"preferred_username": "carla"})]
    with oidc_provider_mock.run_server_in_thread(user_claims=people) as server:
        issuer = f"http://localhost:{server.server_port}"
        provider = OpenIdProvider(settings_for(issuer, tmp_path).web.oidc, SystemClock())
        there = provider.authorization_url("a" * 43, BACK)
        said = elsewhere.post(there, data={"sub": "carla"}).headers["location"]
        back = parse_qs(urlsplit(said).query)
        identity = provider.authenticate("a" * 43, back["state"][0], back["code"][0], BACK)
        assert (identity.issuer, identity.subject, identity.name) == (issuer, "carla", "carla")
        with pytest.raises(AuthenticationFailed):
            provider.authenticate("a" * 43, back["state"][0], back["code"][0], BACK)


@pytest.mark.parametrize(
    ("oidc", "sentence"),
    [
        ({"issuer": "http://id.example.com", "client_id": "store", "default_role": "viewer"}, "https://"),
        ({"issuer": "https://id.example.com", "default_role": "viewer"}, "client_id"),
        ({"issuer": "https://id.example.com", "client_id": "store"}, "no person would get a role"),
        (
            {"issuer": "http://localhost.evil.example", "client_id": "store", "default_role": "viewer"},
            "https://",
        ),
    ],
)
def test_settings_that_could_not_work_are_refused_at_the_start(oidc, sentence):
    with pytest.raises(FingerprintError, match=sentence):
        load_settings(environment={}, options={"web": {"oidc": oidc}})


def test_a_provider_may_be_named_by_the_environment_beside_the_file(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        '[web.oidc]\nissuer = "https://id.example.com"\nclient_id = "store"\n[web.oidc.roles]\nsoc = "analyst"\n'
    )
    named = {"FINGERPRINT_WEB__OIDC__ROLE_CLAIM": "groups", "FINGERPRINT_WEB__OIDC__SCOPES": "openid, groups"}
    oidc = load_settings(file, environment=named).web.oidc
    assert (oidc.client_id, oidc.roles, oidc.scopes) == ("store", {"soc": "analyst"}, ("openid", "groups"))
    with pytest.raises(FingerprintError, match=r"web\.oidc\.nothing.*client_id"):
        load_settings(environment={"FINGERPRINT_WEB__OIDC__NOTHING": "x"})


def test_a_provider_that_gave_no_answer_is_left_alone_for_some_seconds(provider, tmp_path):
    """Its own adapter is closed, and then opened again: no one knocks before the rest is over."""
    now = [0.0]
    settings = settings_for(provider.issuer, tmp_path)
    asking = OpenIdProvider(settings.web.oidc, SystemClock(), now=lambda: now[0])
    provider.broken = True
    with pytest.raises(ServerUnavailable):
        asking.authorization_url("a" * 43, BACK)
    provider.broken, before = False, provider.asked
    for _ in range(40):
        with pytest.raises(ServerUnavailable, match="gives no answer"):
            asking.authorization_url("a" * 43, BACK)
    assert provider.asked == before
    now[0] += COOLDOWN_SECONDS
    assert asking.authorization_url("a" * 43, BACK).startswith(provider.issuer)


def test_a_provider_whose_answer_never_ends_is_given_up(provider, tmp_path, monkeypatch):
    monkeypatch.setattr(openid, "MAX_RESPONSE_BYTES", 10)
    with pytest.raises(ServerUnavailable):
        OpenIdProvider(settings_for(provider.issuer, tmp_path).web.oidc, SystemClock()).authorization_url(
            "a" * 43, BACK
        )


def test_why_a_login_was_refused_is_in_its_line_and_not_in_the_answer(site_of, provider, caplog):
    site = site_of()
    provider.claims |= {"aud": "shop"}
    answer = through(site.no_one())
    assert "aud" not in answer.text
    [line] = [each for each in lines_of(caplog) if each["outcome"] == "refused"]
    assert (line["event"], line["reason"], line["route"]) == ("login", "login", "/login/provider/back")
    assert "aud" in line["cause"]
