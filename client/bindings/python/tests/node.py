"""A node of the store that all tests of a process share, each test with a bucket of its own.

`SHERD_NODE` names the binary. Without it the tests are skipped, and say so.
"""

from __future__ import annotations

import atexit
import itertools
import os
import random
import subprocess
import tempfile
import unittest
from typing import TypedDict

import sherd_client

BINARY = os.environ.get("SHERD_NODE", "")


class Keys(TypedDict):
    """The keys of the node's only user."""

    access_key: str
    secret_key: str


KEYS: Keys = {"access_key": "tester", "secret_key": "tester-secret"}
_numbers = itertools.count()
_endpoint: str | None = None


def endpoint() -> str:
    """The node's address; starts it when it is first asked for."""
    global _endpoint
    if _endpoint is None:
        folder = tempfile.TemporaryDirectory()
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "tester-secret"}
        process = subprocess.Popen(
            [BINARY, "ci", "--dir", folder.name, "--listen", "127.0.0.1:0", "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        atexit.register(folder.cleanup)
        atexit.register(process.wait)
        atexit.register(process.terminate)
        assert process.stdout is not None
        for line in process.stdout:
            if "ready http://" in line:
                _endpoint = line.split("ready ")[1].split()[0]
                break
        else:
            raise RuntimeError("the node does not start")
    return _endpoint


def noise(count: int, seed: int) -> bytes:
    """Bytes that are equal nowhere else."""
    return random.Random(seed).randbytes(count)


@unittest.skipUnless(BINARY, "SKIPPED: SHERD_NODE names no sherd-node")
class NodeTest(unittest.TestCase):
    """A test with a client and a bucket."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.client = sherd_client.Client(endpoint(), **KEYS)
        self.bucket = f"python-{os.getpid()}-{next(_numbers)}"
        self.client.create_bucket(self.bucket)

    def file(self, name: str, content: bytes | None = None) -> str:
        """A path in the test's folder, with this content if there is any."""
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def content(self, path: str) -> bytes:
        """The bytes of a file."""
        with open(path, "rb") as file:
            return file.read()
