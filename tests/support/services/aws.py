"""S3 and SQS without Amazon: moto's server, real HTTP on a free port of 127.0.0.1, in this process.

Example:
    >>> with started() as environment:
    ...     boto3.client("sqs").create_queue(QueueName="trail")
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.services.ports import free_port


@contextmanager
def started(port: int = 0) -> Iterator[int]:
    """While the block runs the environment says where the server is; its port. What is in it belongs to this process, and
    outlives a server."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as missing:
        if os.environ.get("REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(f"needs {missing.name}: pip install -e '.[dev,s3]'")
    server = ThreadedMotoServer("127.0.0.1", port=port or free_port(), verbose=False)
    server.start()
    try:
        with (
            patch.dict(os.environ, _environment("http://{}:{}".format(*server.get_host_and_port()))),
            patch("botocore.session.create_loader", _shared_loader),
        ):
            yield server.get_host_and_port()[1]
    finally:
        server.stop()


@cache
def _shared_loader(search_path: str | None) -> Any:
    """Reads Amazon's descriptions of its services: once for all clients, as that is the larger part of making one."""
    from botocore.loaders import create_loader

    return create_loader(search_path)


@contextmanager
def bucket() -> Iterator[str]:
    """An empty bucket, as a URL that fsspec opens."""
    with started():
        import boto3
        import s3fs

        name = f"tests-{secrets.token_hex(8)}"
        where = {"LocationConstraint": os.environ["AWS_DEFAULT_REGION"]}
        boto3.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration=where)
        try:
            yield f"s3://{name}"
        finally:
            s3fs.S3FileSystem.clear_instance_cache()  # the next server has another port


@contextmanager
def allowed(*actions: str) -> Iterator[None]:
    """While the block runs, the environment's credentials may do this and nothing else, and the server asks."""
    import boto3
    import moto.settings

    iam, user = boto3.client("iam"), "a-role-of-tests"
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
    iam.create_user(UserName=user)
    iam.put_user_policy(UserName=user, PolicyName=user, PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=user)["AccessKey"]
    own = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    with patch.dict(os.environ, own), patch.object(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0.0):
        yield
    iam.delete_user_policy(UserName=user, PolicyName=user)
    iam.delete_access_key(UserName=user, AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName=user)


def _environment(url: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "stranger",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
