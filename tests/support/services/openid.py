"""A real OpenID provider for the tests, on a free port of this machine: discovery, keys, authorization and token endpoints.

Example:
    >>> with Provider.started() as provider:
    ...     provider.claims = {"sub": "248289761001", "preferred_username": "maria"}
    ...     provider.issuer
    'http://127.0.0.1:40123'

Every visitor is logged in at once as `claims`. It is strict where a client can be wrong (client secret, redirect address, PKCE,
a code that was used), and can be made to lie where a client must notice: `claims` may replace any of the token's own, `signer` is
another key, `algorithm` another way to sign.
"""

from __future__ import annotations

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT, SECRET = "store", "the alert store's own secret/+%"


class Provider:
    """What it says next is in its fields."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        self.claims: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "first"})
        self.signer: Any = self.key
        self.algorithm = "RS256"
        self.named = self.issuer  # what its configuration calls it
        self.broken, self.asked = (
            False,
            0,
        )  # whether it answers nothing but 500; how often its configuration was asked for
        self.codes: dict[str, dict[str, str]] = {}

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Provider]:
        handler = type("Handler", (_Handler,), {})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        handler.provider = cls(server)
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield handler.provider
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def configure(self) -> tuple[int, dict[str, Any]]:
        self.asked += 1
        return (500, {}) if self.broken else (200, self.configuration())

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.named,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def keys(self) -> dict[str, Any]:
        return KeySet([self.key]).as_dict(private=False)

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, asked: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        began = self.codes.pop(asked.get("code", ""), None)  # a code is good once
        who = b64decode(authorization.removeprefix("Basic ")).decode()
        if who != f"{CLIENT}:{SECRET}":
            return 401, {"error": "invalid_client"}
        if began is None or asked["redirect_uri"] != began["redirect_uri"] or not _proves(asked, began):
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": "unused",
            "token_type": "Bearer",
            "id_token": self.id_token(began["nonce"]),
        }

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
        } | self.claims
        said = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.signer.kid}
        return jwt.encode(header, said, self.signer, algorithms=[self.algorithm])


def _proves(asked: dict[str, str], began: dict[str, str]) -> bool:
    digest = sha256(asked.get("code_verifier", "").encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode() == began["code_challenge"]


class _Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/.well-known/openid-configuration":
            self._json(*self.provider.configure())
        elif parts.path == "/keys":
            self._json(200, self.provider.keys())
        else:
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(_fields(parts.query)))
            self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._json(*self.provider.token(_fields(body), self.headers.get("Authorization", "")))

    def _json(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


def _fields(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
