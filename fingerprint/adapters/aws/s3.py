"""Objects of S3, chunk by chunk: gone, away, or their bytes.

Example:
    >>> for chunk in S3Objects(queue_url).read("trail", "AWSLogs/a.json.gz"):
    ...     ...                                 # at most a MiB
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from fingerprint.adapters.aws.session import client, code_of
from fingerprint.core.ports import Away, Gone
from fingerprint.sources.archives import CHUNK

_GONE = {
    "404",
    "NoSuchKey",
    "NoSuchBucket",
    "InvalidBucketName",
    "KeyTooLongError",
    "InvalidObjectState",  # archived: somebody must restore it first
}


class S3Objects:
    """Reads as a stream: memory holds a chunk."""

    def __init__(self, queue_url: str) -> None:
        self.client = client("s3", queue_url)

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The bytes as they are stored. Gone, or Away for everything that may pass: no permission, throttled, a connection
        that broke in the middle."""
        url = f"s3://{bucket}/{key}"
        try:
            answer: Any = self.client.get_object(Bucket=bucket, Key=key)
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(CHUNK)
        except ClientError as error:
            code = code_of(error)
            kind = Gone if code in _GONE else Away
            raise kind(f"{url} cannot be read: {code or error}") from None
        except ParamValidationError:
            raise Gone(f"{url} is no name of an object") from None
        except BotoCoreError as error:
            raise Away(f"{url} cannot be read: {' '.join(str(error).split())}") from None
