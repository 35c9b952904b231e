"""Objects of S3, read as a stream.

Example:
    >>> for chunk in S3Objects(queue_url).read("trail", "AWSLogs/a.json.gz"):
    ...     parser.feed(chunk)                  # at most a MiB
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from fingerprint.adapters.aws.session import create_client, error_code
from fingerprint.core.errors import ObjectNotFound, Unavailable
from fingerprint.sources.archives import READ_BYTES

_NOT_FOUND_CODES = {
    "404",
    "NoSuchKey",
    "NoSuchBucket",
    "InvalidBucketName",
    "KeyTooLongError",
    "InvalidObjectState",  # archived: it must be restored first
}


class S3Objects:
    """Objects of S3; memory holds one chunk of an object. Implement `ports.object_store.ObjectStore`."""

    def __init__(self, queue_url: str) -> None:
        self.client = create_client("s3", queue_url)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yield the bytes as they are stored.

        Raise ObjectNotFound for a missing object, Unavailable for errors that may pass: no permission, throttling, or a
        connection that broke in the middle.
        """
        url = f"s3://{bucket}/{key}"
        try:
            answer: Any = self.client.get_object(Bucket=bucket, Key=key)
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(READ_BYTES)
        except ClientError as error:
            code = error_code(error)
            kind = ObjectNotFound if code in _NOT_FOUND_CODES else Unavailable
            raise kind(f"{url} cannot be read: {code or error}") from None
        except ParamValidationError:
            raise ObjectNotFound(f"{url} is no name of an object") from None
        except BotoCoreError as error:
            raise Unavailable(f"{url} cannot be read: {' '.join(str(error).split())}") from None
