"""An S3 server for the tests: one of their own, or one that is there already."""

import urllib.parse
from pathlib import Path

import pytest

from checks.shared.s3_server import BUCKET, BadDay, S3Server

__all__ = ["BUCKET", "AnyS3", "BadDay", "ElsewhereS3", "S3Server"]


class ElsewhereS3:
    """A server that is there already, with our bucket."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        where = urllib.parse.urlsplit(endpoint)
        assert where.hostname is not None and where.port is not None, endpoint
        self.address = (where.hostname, where.port)

    def objects(self) -> list[Path]:
        pytest.skip("the objects of this server are no files that a test could damage")


AnyS3 = S3Server | ElsewhereS3
