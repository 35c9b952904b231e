"""Clients of AWS, and the classification of their errors: some need a person, others pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
)

from fingerprint.core.errors import FingerprintError, Unavailable

_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4},
    connect_timeout=10,
    read_timeout=60,  # longer than any poll
)
_REGION = re.compile(r"//(?:[^/]*\.)?sqs(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.")
_TRANSIENT_CODES = (
    "Throttl",
    "SlowDown",
    "OverLimit",
    "RequestTimeout",
    "TooManyRequests",
    "ServiceUnavailable",
)


def create_client(service: str, queue_url: str) -> Any:
    """Return a boto3 client. Credentials and endpoint come from the environment, the region from the queue's URL."""
    region = _REGION.search(queue_url)
    with translate_aws_errors(queue_url):
        try:
            return boto3.session.Session().client(
                service, region_name=region[1] if region else None, config=_CONFIG
            )
        except ValueError as error:  # an endpoint that is no URL
            raise FingerprintError(f"AWS cannot be reached: {error}; see AWS_ENDPOINT_URL") from None


@contextmanager
def translate_aws_errors(queue_url: str) -> Iterator[None]:
    """Raise the errors of a queue's client as FingerprintError (needs a person) or Unavailable (may pass)."""
    try:
        yield
    except ClientError as error:
        raise _to_port_error(queue_url, error) from None
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise FingerprintError(
            f"no AWS credentials ({_error_line(error)}); give the program a role, or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        ) from None
    except NoRegionError:
        raise FingerprintError("which region the queue lies in is not known; set AWS_REGION") from None
    except ParamValidationError as error:
        raise FingerprintError(f"{queue_url}: {_error_line(error)}") from None
    except BotoCoreError as error:
        raise Unavailable(_error_line(error)) from None


def _is_transient(error: ClientError) -> bool:
    """Return whether AWS throttled a request or failed itself; False if it refused the request."""
    return _http_status(error) >= 500 or any(word in error_code(error) for word in _TRANSIENT_CODES)


def error_code(error: ClientError) -> str:
    """Return AWS's code for an error, empty without one."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _http_status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _to_port_error(queue_url: str, error: ClientError) -> Exception:
    if _is_transient(error):
        return Unavailable(_error_line(error))
    code = error_code(error)
    if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
        return FingerprintError(f"{queue_url}: there is no such queue; is the region right?")
    if "AccessDenied" in code or _http_status(error) == 403:
        return FingerprintError(
            f"{queue_url}: refused ({_error_line(error)}); the role needs sqs:ReceiveMessage, sqs:DeleteMessage, "
            "sqs:ChangeMessageVisibility and sqs:GetQueueAttributes, and sqs:SendMessage to give letters back"
        )
    return FingerprintError(f"{queue_url}: {_error_line(error)}")


def _error_line(error: Exception) -> str:
    return " ".join(str(error).split())
