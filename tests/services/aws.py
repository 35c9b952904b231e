"""S3 and SQS without Amazon: moto's server, real HTTP on a free port of 127.0.0.1, in this process.

Example:
    >>> with started() as environment:
    ...     boto3.client("sqs").create_queue(QueueName="trail")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest


@contextmanager
def started() -> Iterator[None]:
    """While the block runs the environment says where the server is."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as missing:
        if os.environ.get("REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"needs {missing.name}: pip install -e '.[dev,s3]'")
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        with patch.dict(os.environ, _environment("http://{}:{}".format(*server.get_host_and_port()))):
            yield
    finally:
        server.stop()


def _environment(url: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
