"""S3 without Amazon: moto's server, real HTTP on a free port of 127.0.0.1, in this process.

Example:
    >>> with bucket() as url:
    ...     fsspec.open(f"{url}/key", "wb")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import fsspec
import pytest

NAME = "snapshots-of-tests"


@contextmanager
def bucket() -> Iterator[str]:
    """An empty bucket, as a URL; the environment says where it is."""
    try:
        import s3fs  # noqa: F401  (what fsspec opens it with)
        from moto.server import ThreadedMotoServer
    except ImportError as missing:
        if os.environ.get("REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"needs {missing.name}: pip install -e '.[dev,s3]'")
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        with patch.dict(os.environ, _environment("http://{}:{}".format(*server.get_host_and_port()))):
            fsspec.filesystem("s3", skip_instance_cache=True).mkdir(NAME)
            yield f"s3://{NAME}"
    finally:
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        server.stop()


def _environment(url: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
