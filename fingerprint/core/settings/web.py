"""Settings of the web server, of single sign-on, and of the receivers of alerts (docs/how-to/deliver.md)."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from fingerprint.core.account import Role
from fingerprint.core.settings.base import Section, read_secret

DeliveryFormat = Literal["json", "ecs", "ocsf", "slack"]


class Oidc(Section):
    """Single sign-on with an OpenID Connect provider; there is none if no issuer is named."""

    issuer: str | None = Field(
        None, description="Issuer URL of the OpenID Connect provider; no single sign-on if unset."
    )
    client_id: str = Field("", description="Client id registered with the provider.")
    client_secret_file: str | None = Field(
        None,
        description="Path of the file that holds the client secret; a public client with PKCE if unset.",
    )
    provider_name: str = Field("single sign-on", description="Name of the provider on the login button.")
    scopes: tuple[str, ...] = Field(("openid", "profile", "email"), description="Scopes that are requested.")
    name_claim: str = Field("preferred_username", description="Claim that names a new account.")
    role_claim: str | None = Field(None, description="Claim whose values are mapped to roles.")
    roles: dict[str, Role] = Field({}, description="Role of each value of role_claim; the highest counts.")
    default_role: Role | None = Field(
        None,
        description="Role of a person without a mapped value; such a person is refused if unset.",
    )
    allowed_domain: str | None = Field(
        None,
        description="Domain of the verified e-mail addresses that may log in; any domain if unset.",
    )

    @model_validator(mode="after")
    def complete(self) -> Oidc:
        """Refuse an issuer without TLS or client id, and settings that give no person a role."""
        if self.issuer is None:
            return self
        if not re.match(r"https://|http://(localhost|127\.0\.0\.1|\[::1\])([:/]|$)", self.issuer):
            raise ValueError("issuer begins with https://; http:// is for a provider on this machine")
        if not self.client_id:
            raise ValueError("issuer needs a client_id")
        if not (self.role_claim and self.roles) and self.default_role is None:
            raise ValueError("no person would get a role: set role_claim and roles, or default_role")
        return self


class Web(Section):
    """The pages and the API of `fingerprint serve`."""

    host: str = Field("127.0.0.1", description="Address on which pages and API listen.")
    port: int = Field(
        8080, ge=0, le=65535, description="Port on which pages and API listen; 0 takes a free one."
    )
    public_url: str | None = Field(
        None,
        description="URL at which browsers reach the pages, without a path, such as https://alerts.example.com.",
    )
    allowed_hosts: tuple[str, ...] = Field((), description="Further host names accepted in the Host header.")
    trusted_proxies: int = Field(
        0,
        ge=0,
        le=8,
        description="Number of reverse proxies in front whose X-Forwarded-For entries are trusted.",
    )
    title: str = Field("Fingerprint", min_length=1, max_length=60, description="Title above every page.")
    session_idle_hours: float = Field(
        8.0, gt=0, le=720, description="Hours without a request after which a session ends."
    )
    session_max_hours: float = Field(
        24.0, gt=0, le=2160, description="Hours after which a session ends in any case."
    )
    query_timeout_seconds: float = Field(
        15.0,
        ge=1,
        le=600,
        description="Seconds after which a query of a page or of the API is stopped; nothing else has this limit.",
    )
    second_factor: Literal["optional", "required"] = Field(
        "optional",
        description="Whether accounts with a password need a second factor: optional or required.",
    )
    single_sign_on_only: bool = Field(
        False, description="Whether passwords and tokens of local accounts are refused."
    )
    emergency_account: str = Field(
        "",
        pattern=r"^[a-z0-9._@+-]*$",
        description="Local account that may log in despite single_sign_on_only, for an outage of the provider.",
    )
    run_delivery: bool = Field(
        False,
        description="Whether the web server also delivers alerts to the receivers, as `fingerprint deliver` does.",
    )
    serve_health: bool = Field(
        False,
        description="Whether the web server also serves health and metrics at health.host and health.port, without a "
        "token.",
    )
    oidc: Oidc = Field(Oidc(), description="Single sign-on.")

    @field_validator("public_url")
    @classmethod
    def check_origin(cls, url: str | None) -> str | None:
        """Refuse what is no origin."""
        if url is not None and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+/?", url):
            raise ValueError(f"public_url {url!r} is not like https://alerts.example.com, without a path")
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def check_login_method(self) -> Web:
        """Refuse single sign-on alone without a provider, or without an admin."""
        if not self.single_sign_on_only:
            return self
        if self.oidc.issuer is None:
            raise ValueError("single_sign_on_only needs a provider: set web.oidc.issuer")
        if not self.emergency_account and "admin" not in (*self.oidc.roles.values(), self.oidc.default_role):
            raise ValueError(
                "single_sign_on_only leaves no admin: give a value of role_claim the role admin, or set emergency_account"
            )
        return self

    def base_url(self, port: int) -> str:
        """Return the URL of the web app for browsers; `port` is the one that it listens on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{port}"

    @property
    def https(self) -> bool:
        """Return whether browsers come over TLS."""
        return (self.public_url or "").startswith("https://")


class ReceiverSettings(Section):
    """One receiver of alerts, `[deliver.NAME]`."""

    kind: Literal["webhook", "slack", "kafka"] = Field(
        "webhook", description="Kind of receiver: webhook, slack or kafka."
    )
    url: SecretStr | None = Field(None, description="URL of the webhook.")
    url_file: str | None = Field(None, description="Path of the file that holds the webhook's URL.")
    topic: str | None = Field(None, description="Topic of a receiver of kind kafka.")
    format: DeliveryFormat | None = Field(
        None,
        description="Format of a delivery: json, ecs, ocsf or slack; slack for Slack and json otherwise if unset.",
    )
    signing_secret_file: str | None = Field(
        None,
        description="Path of the file that holds the webhook's signing secrets, one whsec_... a line, the newest first.",
    )
    min_urgency: int = Field(
        30, ge=0, le=100, description="Lowest urgency, from 0 to 100, of an alert that is delivered."
    )
    notify_on: tuple[Literal["new", "updated", "decided"], ...] = Field(
        ("new",),
        min_length=1,
        description="Changes of an alert that are delivered: new, updated, decided.",
    )
    include_existing: bool = Field(
        False,
        description="Whether alerts that were stored before the receiver was added are delivered too.",
    )
    alert_url_prefix: str = Field(
        "", description="URL before an alert's id in links; derived from web.public_url if unset."
    )
    allowed_networks: tuple[str, ...] = Field(
        (), description="Private networks (CIDR) that this receiver may be in."
    )
    allow_http: bool = Field(False, description="Whether http:// without TLS is allowed.")
    ca_file: str | None = Field(
        None, description="Path of the trusted certificate authorities (PEM); the system's if unset."
    )
    timeout_seconds: float = Field(
        10.0, gt=0, le=300, description="Seconds that one attempt may take, connection included."
    )

    @model_validator(mode="after")
    def check_target(self) -> ReceiverSettings:
        """Refuse a receiver without a target, or with two."""
        if self.kind == "kafka":
            if not self.topic or self.url or self.url_file or self.signing_secret_file:
                raise ValueError("kind kafka needs a topic, and has no url, url_file or signing_secret_file")
        elif self.topic or (self.url is None) == (self.url_file is None):
            raise ValueError(f"kind {self.kind} needs one of url and url_file, and has no topic")
        if self.alert_url_prefix and not self.alert_url_prefix.startswith(("https://", "http://")):
            raise ValueError(
                "alert_url_prefix is where the alerts' pages are: https://alerts.example.com/alerts/"
            )
        return self

    @property
    def resolved_format(self) -> DeliveryFormat:
        """Return the format, or the default of the kind if none is set."""
        return self.format or ("slack" if self.kind == "slack" else "json")

    def target_url(self) -> str:
        """Return the URL. Raises FingerprintError if the file that holds it cannot be read."""
        url = self.url.get_secret_value() if self.url else read_secret(self.url_file)
        return (url or "").strip()
