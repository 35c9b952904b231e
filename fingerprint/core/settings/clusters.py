"""Settings of other machines: Dask workers (docs/explanation/performance.md) and Triton (docs/explanation/triton.md)."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from fingerprint.core.settings.base import Section, check_readable, read_secret


class Workers(Section):
    """Workers for the parts of a training or a backfill: this process, or a Dask cluster."""

    scheduler: str = Field(
        "local",
        description="Place of work: local (this process), dask or dask-cuda (processes of this machine), or the "
        "address of a Dask scheduler.",
    )
    work_directory: str | None = Field(
        None,
        description="Folder of intermediate results, seen by all workers under the same path; a folder in the bank's if "
        "unset.",
    )
    backfill_parts: int | None = Field(
        None, gt=0, le=256, description="Number of parts of a backfill; four for each worker if unset."
    )
    processes: int | None = Field(
        None, gt=0, description="Number of worker processes of dask; one a processor if unset."
    )
    ca_file: str | None = Field(
        None, description="Path of the trusted certificate authorities (PEM) of a tls:// scheduler."
    )
    certificate_file: str | None = Field(
        None, description="Path of the client certificate (PEM) of a tls:// scheduler."
    )
    key_file: str | None = Field(
        None, description="Path of the client certificate's private key (PEM) of a tls:// scheduler."
    )

    @field_validator("scheduler")
    @classmethod
    def check_location(cls, scheduler: str) -> str:
        """Refuse what is neither a known name nor an address."""
        if not re.fullmatch(r"local|dask|dask-cuda|(tcp|tls)://.+", scheduler):
            raise ValueError(
                f"{scheduler!r} is none of local, dask, dask-cuda, tcp://host:port and tls://host:port"
            )
        return scheduler

    @model_validator(mode="after")
    def check_tls_files(self) -> Workers:
        """Refuse a tls:// scheduler without all three files."""
        files = (self.ca_file, self.certificate_file, self.key_file)
        if self.scheduler.startswith("tls://") and None in files:
            raise ValueError("workers.scheduler tls:// needs ca_file, certificate_file and key_file")
        return self

    def check_files(self) -> None:
        """Raise FingerprintError that names the first file that cannot be read."""
        check_readable(self.ca_file, self.certificate_file)
        read_secret(self.key_file)


class Triton(Section):
    """The Triton server that computes losses; they are computed in this process if no server is named."""

    url: str | None = Field(
        None, description="host:port of Triton's gRPC endpoint; losses are computed in process if unset."
    )
    model_repository: str = Field(
        "triton", description="Folder of the model repository that `fingerprint triton load` fills."
    )
    instance_count: int = Field(
        2,
        gt=0,
        description="Number of model instances, on every GPU or on the CPU; each is a process with a copy of the bank.",
    )
    timeout_seconds: float = Field(
        2.0,
        gt=0,
        description="Seconds that an answer may take, all attempts together, before losses are computed in process.",
    )
    load_timeout_seconds: float = Field(300.0, gt=0, description="Seconds that loading a bank may take.")
    control_key_file: str | None = Field(
        None,
        description="Path of the file that holds NAME=VALUE, the header with which Triton accepts load and unload "
        "requests.",
    )
    tls: bool = Field(False, description="Whether the connection to Triton uses TLS.")
    ca_file: str | None = Field(
        None, description="Path of the trusted certificate authorities (PEM); the system's if unset."
    )
    certificate_file: str | None = Field(None, description="Path of the client certificate (PEM).")
    certificate_key_file: str | None = Field(
        None, description="Path of the client certificate's private key (PEM)."
    )

    @field_validator("url")
    @classmethod
    def empty_as_none(cls, url: str | None) -> str | None:
        """Take an empty text as None, for which the environment has no other spelling."""
        return url or None

    @model_validator(mode="after")
    def check_tls_settings(self) -> Triton:
        """Refuse certificates without TLS, and half a client certificate."""
        files = (self.ca_file, self.certificate_file, self.certificate_key_file)
        if not self.tls and any(files):
            raise ValueError("ca_file, certificate_file and certificate_key_file want tls = true")
        if (self.certificate_file is None) != (self.certificate_key_file is None):
            raise ValueError("certificate_file and certificate_key_file come together")
        return self

    def check_files(self) -> None:
        """Raise FingerprintError that names the first file that cannot be read."""
        for file in (self.ca_file, self.certificate_file, self.certificate_key_file):
            read_secret(file)
