"""People whom an OpenID provider vouches for: authorization code flow with PKCE (RFC 6749, 7636; OpenID Connect Core 1.0, 3.1).

Example:
    >>> provider = OpenId(settings.web.oidc, SystemClock())
    >>> provider.start(secret, "https://desk.example.com/login/provider/back")
    'https://id.example.com/authorize?client_id=...&state=...&nonce=...&code_challenge=...'
    >>> provider.finish(secret, state, code, "https://desk.example.com/login/provider/back").subject
    '248289761001'

One secret of the browser's makes all three: the state that must come back, the nonce that the ID token must hold, and the
verifier that the code is bound to. So nothing about a login under way is kept here, and any server may finish what another began.
An ID token is believed with a signature by a key of the provider, for this client, of this login, and not older than it says.

A provider that hangs is asked by one thread at a time, and after a failure by no thread for REST seconds: others are told so at
once.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from threading import Lock
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from fingerprint.adapters.triton.client import Breaker
from fingerprint.core.account import ROLES, Identity, Refused, Role
from fingerprint.core.alert import Away, FingerprintError
from fingerprint.core.ports import Clock
from fingerprint.core.settings import Oidc, secret

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "ES256",
    "ES384",
    "EdDSA",
)  # none, and HMAC, are not among them
KEPT = 3600  # seconds that the provider's configuration and keys are believed without asking again
REST = 10.0  # seconds for which a provider that gave no answer is not asked
LARGEST = 1 << 20  # bytes of its configuration or keys
LEEWAY = 60  # seconds that its clock may be off
OLDEST = 366 * 86400  # seconds since a proof that are looked at
LONGEST = 255  # characters of a subject (OpenID Connect Core, 2)
AGAIN = "the login could not be finished: begin again"

log = logging.getLogger("fingerprint.web")


class OpenId:
    """One provider, asked over HTTPS (`ports_people.Provider`)."""

    def __init__(self, oidc: Oidc, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        self.oidc, self.clock, self._now = oidc, clock, now
        self.password = secret(oidc.client_secret_file)
        self._tls = httpx2.create_ssl_context()  # whom this machine trusts
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        self._turn, self._breaker = Lock(), Breaker(1, REST)

    def start(self, secret: str, back: str, again: bool = False) -> str:
        more = {"prompt": "login", "max_age": "0"} if again else {}
        with self._client(back) as client:
            url, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=derived(secret, "state"),
                nonce=derived(secret, "nonce"),
                code_verifier=derived(secret, "verifier"),
                **more,
            )
        return str(url)

    def finish(self, secret: str, state: str, code: str, back: str) -> Identity:
        if not hmac.compare_digest(state.encode(errors="replace"), derived(secret, "state").encode()):
            _refuse("the state is another login's")
        return self._identity(self._claims(self._id_token(secret, code, back), derived(secret, "nonce")))

    def _id_token(self, secret: str, code: str, back: str) -> str:
        self._check_rest()
        try:
            with self._client(back) as client:
                said = client.fetch_token(
                    self._endpoint("token_endpoint"),
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=derived(secret, "verifier"),
                )
        except OAuthError as error:
            _refuse(f"the provider says {error.error}")
        except httpx2.TransportError as error:
            raise self._failed(error) from None
        except (
            httpx2.HTTPError,
            ValueError,
        ) as error:  # a code that somebody made up may do this: no rest for it
            raise self._away(error) from None
        if not isinstance(said.get("id_token"), str):
            _refuse("there is no ID token")
        return str(said["id_token"])

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        now = int(self.clock.now().timestamp())
        rules = jwt.JWTClaimsRegistry(
            now=now,
            leeway=LEEWAY,
            iss={"essential": True, "value": str(self.oidc.issuer)},
            aud={"essential": True, "value": self.oidc.client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = self._verified(token)
            rules.validate(claims)
        except (JoseError, ValueError) as error:
            _refuse(f"the ID token: {error}")
        if (
            isinstance(claims["aud"], list)
            and len(claims["aud"]) > 1
            and claims.get("azp") != self.oidc.client_id
        ):
            _refuse("the ID token is for somebody else, too")
        return claims

    def _verified(self, token: str) -> dict[str, Any]:
        """The claims, with a signature by one of the provider's keys; they are asked for anew if it is none of those kept."""
        try:
            return jwt.decode(token, self._keys(), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            self._kept.pop(self._endpoint("jwks_uri"), None)
            return jwt.decode(token, self._keys(), algorithms=ALGORITHMS).claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST or not subject.isprintable():
            _refuse("the subject cannot be one")
        if self.oidc.allowed_domain and not _is_of(claims, self.oidc.allowed_domain):
            raise Refused(f"only people of {self.oidc.allowed_domain} may log in here")
        name = next(
            (said for key in (self.oidc.name_claim, "email") if isinstance(said := claims.get(key), str)), ""
        )
        role, proven = self._role(claims), self._authenticated_at(claims)
        return Identity(str(self.oidc.issuer), subject, name or subject, role, proven)

    def _authenticated_at(self, claims: Mapping[str, Any]) -> datetime | None:
        """When the provider last asked for a proof; None where it does not say, or says what cannot be."""
        said, now = claims.get("auth_time"), self.clock.now()
        if isinstance(said, bool) or not isinstance(said, int | float):
            return None
        since = now.timestamp() - said
        return now - timedelta(seconds=max(0.0, since)) if -LEEWAY <= since <= OLDEST else None

    def _role(self, claims: Mapping[str, Any]) -> Role | None:
        """The highest that the claim gives; None where roles are given out at the desk."""
        if self.oidc.role_claim is None:
            return None
        said = _claim(claims, self.oidc.role_claim)
        values = said if isinstance(said, list) else [said]
        given = [
            self.oidc.roles[value] for value in values if isinstance(value, str) and value in self.oidc.roles
        ]
        role = max(given, key=ROLES.index) if given else self.oidc.default_role
        if role is None:
            raise Refused("this account has no role here: ask an admin")
        return role

    def _client(self, back: str) -> Any:
        return OAuth2Client(
            self.oidc.client_id,
            self.password,
            token_endpoint_auth_method=self._proof(),
            scope=" ".join(self.oidc.scopes),
            redirect_uri=back,
            code_challenge_method="S256",
            timeout=self.oidc.answer_seconds,
            verify=self._tls,
        )

    def _proof(self) -> str:
        """How we say who we are."""
        known = self._configuration().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return (
            "none"
            if self.password is None
            else "client_secret_basic"
            if "client_secret_basic" in known
            else "client_secret_post"
        )

    def _endpoint(self, name: str) -> str:
        url = self._configuration().get(name)
        if not isinstance(url, str) or urlsplit(url).scheme not in (
            "https",
            urlsplit(str(self.oidc.issuer)).scheme,
        ):
            raise FingerprintError(f"the provider {self.oidc.issuer} names no {name} that can be used")
        return url

    def _configuration(self) -> dict[str, Any]:
        said = self._asked(f"{str(self.oidc.issuer).rstrip('/')}/.well-known/openid-configuration")
        if said.get("issuer") != self.oidc.issuer:
            raise FingerprintError(
                f"the provider at {self.oidc.issuer} says that it is another: set web.oidc.issuer"
            )
        return said

    def _keys(self) -> KeySet:
        said: Any = self._asked(self._endpoint("jwks_uri"))
        return KeySet.import_key_set(said)

    def _asked(self, url: str) -> dict[str, Any]:
        """What lies there, kept for an hour. One thread asks, and the others take what it brought."""
        if (kept := self._fresh(url)) is not None:
            return kept
        with self._turn:
            if (kept := self._fresh(url)) is not None:
                return kept
            self._check_rest()
            try:
                said = self._fetched(url)
            except (httpx2.HTTPError, ValueError) as error:
                raise self._failed(error) from None
            if not isinstance(said, dict):
                raise self._failed("no object")
            self._breaker.succeeded()
            self._kept[url] = (self.clock.now().timestamp() + KEPT, said)
            return said

    def _fresh(self, url: str) -> dict[str, Any] | None:
        until, said = self._kept.get(url, (0.0, {}))
        return said if self.clock.now().timestamp() < until else None

    def _fetched(self, url: str) -> Any:
        """One answer, with a bound on its length and on the time that all of it takes."""
        end, body = self._now() + self.oidc.answer_seconds, bytearray()
        with httpx2.stream("GET", url, timeout=self.oidc.answer_seconds, verify=self._tls) as answer:
            for piece in answer.raise_for_status().iter_bytes():
                body += piece
                if len(body) > LARGEST or self._now() > end:
                    raise ValueError("the answer is too long, or comes too slowly")
        return json.loads(body)

    def _check_rest(self) -> None:
        """Away while the provider, which gave no answer a moment ago, is left alone."""
        if not self._breaker.allows(self._now()):
            raise self._gone()

    def _failed(self, reason: object) -> Away:
        self._breaker.failed(self._now())
        return self._away(reason)

    def _away(self, reason: object) -> Away:
        log.warning("the OpenID provider gives no answer", extra={"fields": {"reason": str(reason)}})
        return self._gone()

    def _gone(self) -> Away:
        return Away(f"the provider {self.oidc.issuer} gives no answer: try again, or log in with a password")


def derived(secret: str, what: str) -> str:
    """43 letters that only who knows the secret can name, for one purpose (state, nonce, verifier)."""
    digest = blake2b(what.encode(), key=secret.encode()[:64], digest_size=32).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    said: Any = claims
    for part in name.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    return said


def _is_of(claims: Mapping[str, Any], domain: str) -> bool:
    """Whether a verified address is of the domain; an address that nobody verified says nothing."""
    email = claims.get("email")
    verified = claims.get("email_verified") is True and isinstance(email, str)
    return verified and str(email).rpartition("@")[2].casefold() == domain.casefold()


def _refuse(reason: str) -> NoReturn:
    """The reason is for the log: whoever forged it need not know."""
    refused = Refused(AGAIN)
    refused.add_note(reason)
    raise refused
