"""The example with FastAPI in a server of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from node import NodeTest, endpoint, noise

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
try:
    import fastapi
    import uvicorn
except ImportError:
    LACKING = "SKIPPED: fastapi and uvicorn are not installed"
else:
    LACKING = ""
    del fastapi, uvicorn


@unittest.skipIf(LACKING, LACKING)
class FastApi(NodeTest):
    def test_bodies_pass_through_the_example(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            environment = {
                **os.environ,
                "SHERD_BUCKET": self.bucket,
                "AWS_ENDPOINT_URL": endpoint(),
                "AWS_ACCESS_KEY_ID": "tester",
                "AWS_SECRET_ACCESS_KEY": "tester-secret",
            }
            server = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--fd", str(listener.fileno())],
                cwd=EXAMPLES,
                env=environment,
                pass_fds=[listener.fileno()],
                stderr=subprocess.DEVNULL,
            )
            port = listener.getsockname()[1]
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        url = f"http://127.0.0.1:{port}/files/a/b.bin"
        content = noise(10 << 20, 1)
        urllib.request.urlopen(urllib.request.Request(url, content, method="PUT")).close()
        with urllib.request.urlopen(url) as answer:
            self.assertEqual(answer.headers["content-length"], str(len(content)))
            self.assertEqual(answer.read(), content)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url + ".absent")
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()


if __name__ == "__main__":
    unittest.main()
