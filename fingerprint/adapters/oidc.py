"""Login by an OpenID provider: authorization code flow with PKCE (RFC 6749, 7636; OpenID Connect Core 1.0, 3.1).

Example:
    >>> provider = OpenIdProvider(settings.web.oidc, SystemClock())
    >>> provider.authorization_url(secret, "https://alerts.example.com/login/provider/back")
    'https://id.example.com/authorize?client_id=...&state=...&nonce=...&code_challenge=...'
    >>> provider.authenticate(secret, state, code, "https://alerts.example.com/login/provider/back").subject
    '248289761001'

- Three values are derived from one secret of the browser: the state that must come back, the nonce that the ID token must have,
  and the verifier that the code is bound to. So a login under way needs no state here, and any server may finish it.
- An ID token is accepted if a key of the provider signed it, if it is for this client and this login, and if it has not expired.

Authlib's client runs the flow and joserfc verifies the token. Reading the provider's metadata and keys is our own: Authlib has
that only in its web frameworks' clients, which keep a session and bound neither the length nor the duration of an answer.

Only one thread at a time asks a provider that hangs. After a failure none asks for COOLDOWN_SECONDS, and callers get an error at
once.
"""

from __future__ import annotations

import hmac
import json
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
from joserfc.jwk import JWKRegistry, Key, KeySet

from fingerprint.core.account import ROLES, AuthenticationFailed, ExternalIdentity, Role
from fingerprint.core.circuit_breaker import CircuitBreaker
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.log import get_logger
from fingerprint.core.ports.clock import Clock
from fingerprint.core.settings import Oidc, read_secret
from fingerprint.core.time_range import DAY_SECONDS

PROVIDER_TIMEOUT_SECONDS = 5.0  # for an answer of the provider
# Accepted signatures: neither `none` nor HMAC
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
CACHE_SECONDS = 3600  # seconds for which the provider's configuration and keys are cached
COOLDOWN_SECONDS = 10.0  # seconds without requests after a provider gave no answer
MAX_RESPONSE_BYTES = 1 << 20  # bytes of its configuration or keys
LEEWAY_SECONDS = 60  # seconds by which its clock may be off
MAX_AUTHENTICATION_AGE_SECONDS = 366 * DAY_SECONDS  # an older `auth_time` is ignored
MAX_SUBJECT_LENGTH = 255  # characters of a subject (OpenID Connect Core, 2)
LOGIN_FAILED_MESSAGE = "the login could not be finished: begin again"

log = get_logger("fingerprint.web")


class OpenIdProvider:
    """One provider, asked over HTTPS. Implement `core.ports.accounts.IdentityProvider`."""

    def __init__(self, oidc: Oidc, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        self.oidc, self.clock, self._now = oidc, clock, now
        self.client_secret = read_secret(oidc.client_secret_file)
        self._tls = httpx2.create_ssl_context()  # with the certificate authorities of this machine
        self._cache: dict[str, tuple[float, dict[str, Any]]] = {}
        self._fetch_lock, self._circuit_breaker = Lock(), CircuitBreaker(1, COOLDOWN_SECONDS)

    def authorization_url(self, secret: str, redirect_url: str, force_login: bool = False) -> str:
        """Return the provider's URL that the browser is sent to."""
        more = {"prompt": "login", "max_age": "0"} if force_login else {}
        with self._client(redirect_url) as client:
            url, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"),
                state=derive_secret(secret, "state"),
                nonce=derive_secret(secret, "nonce"),
                code_verifier=derive_secret(secret, "verifier"),
                **more,
            )
        return str(url)

    def authenticate(self, secret: str, state: str, code: str, redirect_url: str) -> ExternalIdentity:
        """Return the identity that a code proves. Raise AuthenticationFailed if it proves none."""
        if not hmac.compare_digest(state.encode(errors="replace"), derive_secret(secret, "state").encode()):
            _refuse("the state is another login's")
        return self._identity(
            self._claims(self._exchange_code(secret, code, redirect_url), derive_secret(secret, "nonce"))
        )

    def _exchange_code(self, secret: str, code: str, back: str) -> str:
        self._check_cooldown()
        try:
            with self._client(back) as client:
                tokens = client.fetch_token(
                    self._endpoint("token_endpoint"),
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=derive_secret(secret, "verifier"),
                )
        except OAuthError as error:
            _refuse(f"the provider says {error.error}")
        except httpx2.TransportError as error:
            raise self._record_failure(error) from None
        except (
            httpx2.HTTPError,
            ValueError,
        ) as error:  # an invented code may cause it, so it starts no cool-down
            raise self._log_unavailable(error) from None
        if not isinstance(tokens.get("id_token"), str):
            _refuse("there is no ID token")
        return str(tokens["id_token"])

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        now = int(self.clock.now().timestamp())
        rules = jwt.JWTClaimsRegistry(
            now=now,
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": str(self.oidc.issuer)},
            aud={"essential": True, "value": self.oidc.client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = self._verify_token(token)
            rules.validate(claims)
        except (JoseError, ValueError) as error:
            _refuse(f"the ID token: {error}")
        if (
            isinstance(claims["aud"], list)
            and len(claims["aud"]) > 1
            and claims.get("azp") != self.oidc.client_id
        ):
            _refuse("the ID token is for another client, too")
        return claims

    def _verify_token(self, token: str) -> dict[str, Any]:
        """Return the claims of a token signed by one of the provider's keys; fetch the keys again if no cached one fits."""
        try:
            return jwt.decode(token, self._key_set(), algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            self._cache.pop(self._endpoint("jwks_uri"), None)
            return jwt.decode(token, self._key_set(), algorithms=ALGORITHMS).claims

    def _identity(self, claims: Mapping[str, Any]) -> ExternalIdentity:
        subject = claims["sub"]
        if (
            not isinstance(subject, str)
            or not 0 < len(subject) <= MAX_SUBJECT_LENGTH
            or not subject.isprintable()
        ):
            _refuse("the subject cannot be one")
        if self.oidc.allowed_domain and not _has_verified_domain(claims, self.oidc.allowed_domain):
            raise AuthenticationFailed(f"only people of {self.oidc.allowed_domain} may log in here")
        name = next(
            (claim for key in (self.oidc.name_claim, "email") if isinstance(claim := claims.get(key), str)),
            "",
        )
        role, proven = self._role(claims), self._authentication_time(claims)
        return ExternalIdentity(str(self.oidc.issuer), subject, name or subject, role, proven)

    def _authentication_time(self, claims: Mapping[str, Any]) -> datetime | None:
        """Return when the provider last asked for a proof; None if it does not say, or says something impossible."""
        auth_time, now = claims.get("auth_time"), self.clock.now()
        if isinstance(auth_time, bool) or not isinstance(auth_time, int | float):
            return None
        since = now.timestamp() - auth_time
        return (
            now - timedelta(seconds=max(0.0, since))
            if -LEEWAY_SECONDS <= since <= MAX_AUTHENTICATION_AGE_SECONDS
            else None
        )

    def _role(self, claims: Mapping[str, Any]) -> Role | None:
        """Return the highest role that the claim gives; None if roles are assigned in the web app."""
        if self.oidc.role_claim is None:
            return None
        claim = _claim_at_path(claims, self.oidc.role_claim)
        values = claim if isinstance(claim, list) else [claim]
        given = [
            self.oidc.roles[value] for value in values if isinstance(value, str) and value in self.oidc.roles
        ]
        role = max(given, key=ROLES.index) if given else self.oidc.default_role
        if role is None:
            raise AuthenticationFailed("this account has no role here: ask an admin")
        return role

    def _client(self, back: str) -> Any:
        return OAuth2Client(
            self.oidc.client_id,
            self.client_secret,
            token_endpoint_auth_method=self._client_authentication(),
            scope=" ".join(self.oidc.scopes),
            redirect_uri=back,
            code_challenge_method="S256",
            timeout=PROVIDER_TIMEOUT_SECONDS,
            verify=self._tls,
        )

    def _client_authentication(self) -> str:
        """Return the method by which this client authenticates at the token endpoint."""
        known = self._configuration().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return (
            "none"
            if self.client_secret is None
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
        metadata = self._get_cached(f"{str(self.oidc.issuer).rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != self.oidc.issuer:
            raise FingerprintError(
                f"the provider at {self.oidc.issuer} says that it is another: set web.oidc.issuer"
            )
        return metadata

    def _key_set(self) -> KeySet:
        """Return the provider's keys, without unknown ones (RFC 7517, section 5). Raise ValueError if none is left."""
        listed = self._get_cached(self._endpoint("jwks_uri")).get("keys")
        keys = [key for each in (listed if isinstance(listed, list) else []) if (key := _import_key(each))]
        if not keys:
            raise ValueError("the provider has no key that is understood")
        return KeySet(keys)

    def _get_cached(self, url: str) -> dict[str, Any]:
        """Return the JSON object at a URL, cached for an hour. One thread fetches it, the others wait for its result."""
        if (kept := self._cached_if_fresh(url)) is not None:
            return kept
        with self._fetch_lock:
            if (kept := self._cached_if_fresh(url)) is not None:
                return kept
            self._check_cooldown()
            try:
                document = self._fetch_json(url)
            except (httpx2.HTTPError, ValueError) as error:
                raise self._record_failure(error) from None
            if not isinstance(document, dict):
                raise self._record_failure("no object")
            self._circuit_breaker.record_success()
            self._cache[url] = (self.clock.now().timestamp() + CACHE_SECONDS, document)
            return document

    def _cached_if_fresh(self, url: str) -> dict[str, Any] | None:
        until, document = self._cache.get(url, (0.0, {}))
        return document if self.clock.now().timestamp() < until else None

    def _fetch_json(self, url: str) -> Any:
        """Fetch one answer, with bounds on its length and on the total time."""
        end, body = self._now() + PROVIDER_TIMEOUT_SECONDS, bytearray()
        with httpx2.stream("GET", url, timeout=PROVIDER_TIMEOUT_SECONDS, verify=self._tls) as answer:
            for piece in answer.raise_for_status().iter_bytes():
                body += piece
                if len(body) > MAX_RESPONSE_BYTES or self._now() > end:
                    raise ValueError("the answer is too long, or comes too slowly")
        return json.loads(body)

    def _check_cooldown(self) -> None:
        """Raise ServerUnavailable during the cool-down after the provider gave no answer."""
        if not self._circuit_breaker.allow_request(self._now()):
            raise self._unavailable_error()

    def _record_failure(self, reason: object) -> ServerUnavailable:
        self._circuit_breaker.record_failure(self._now())
        return self._log_unavailable(reason)

    def _log_unavailable(self, reason: object) -> ServerUnavailable:
        log.warning("the OpenID provider gives no answer", reason=str(reason))
        return self._unavailable_error()

    def _unavailable_error(self) -> ServerUnavailable:
        return ServerUnavailable(
            f"the provider {self.oidc.issuer} gives no answer: try again, or log in with a password"
        )


def derive_secret(secret: str, purpose: str) -> str:
    """Return 43 characters for one purpose (state, nonce, verifier), which cannot be guessed without the secret."""
    digest = blake2b(purpose.encode(), key=secret.encode()[:64], digest_size=32).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _import_key(jwk: Any) -> Key | None:
    """Return a key of a provider; None if its type or curve is unknown, or a part is missing or broken."""
    try:
        key = JWKRegistry.import_key(jwk)
        key.ensure_kid()
        _ = key.public_key  # joserfc parses it only now
    except (JoseError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return key


def _claim_at_path(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _has_verified_domain(claims: Mapping[str, Any], domain: str) -> bool:
    """Return whether a verified email address is of the domain; an unverified one proves nothing."""
    email = claims.get("email")
    verified = claims.get("email_verified") is True and isinstance(email, str)
    return verified and str(email).rpartition("@")[2].casefold() == domain.casefold()


def _refuse(reason: str) -> NoReturn:
    """Raise AuthenticationFailed with the reason as a note, which only the log shows: a forger must not learn it."""
    refused = AuthenticationFailed(LOGIN_FAILED_MESSAGE)
    refused.add_note(reason)
    raise refused
