"""The face for threads against a running node."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import unittest
import urllib.request
from collections.abc import Iterator

import sherd_client
from node import KEYS, NodeTest, endpoint, noise
from sherd_client import Cancellation, Progress

MIB = 1 << 20


class Objects(NodeTest):
    def test_bytes_go_up_and_down(self) -> None:
        content = noise(17 * MIB, 1)
        for data in (content, bytearray(content), memoryview(content)):
            self.assertEqual(self.client.put(self.bucket, "a.html", data), len(content))
            self.assertEqual(self.client.get(self.bucket, "a.html"), content)
        self.assertEqual(self.client.get(self.bucket, "a.html", offset=5, bytes=7), content[5:12])
        self.assertEqual(self.client.get(self.bucket, "a.html", offset=len(content)), b"")

    def test_heads_have_what_was_stored(self) -> None:
        self.client.put(
            self.bucket, "a.html", b"text", metadata={"Author": "me"}, headers={"Cache-Control": "no-store"}
        )
        info = self.client.stat(self.bucket, "a.html")
        self.assertEqual((info.bytes, info.content_type, info.metadata), (4, "text/html", {"author": "me"}))
        self.assertEqual(info.headers["cache-control"], "no-store")
        assert info.modified is not None and info.checksum is not None
        self.assertEqual(info.checksum[0], "CRC64NVME")
        self.client.put(self.bucket, "a.html", b"text", content_type="text/plain")
        self.assertEqual(self.client.stat(self.bucket, "a.html").content_type, "text/plain")

    def test_files_go_up_and_down_with_progress(self) -> None:
        content = noise(18 * MIB, 2)
        seen: list[Progress] = []
        self.client.upload(self.bucket, "key", self.file("up", content), on_progress=seen.append)
        self.assertEqual(seen[-1], Progress(len(content), len(content)))
        seen.clear()
        info = self.client.download(self.bucket, "key", self.file("down"), on_progress=seen.append)
        self.assertEqual((info.bytes, seen[-1]), (len(content), Progress(len(content), len(content))))
        self.assertEqual(self.content(self.file("down")), content)

    def test_a_progress_that_raises_ends_the_call(self) -> None:
        def refuse(progress: Progress) -> None:
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            self.client.upload(self.bucket, "key", self.file("up", noise(MIB, 3)), on_progress=refuse)

    def test_lists_have_objects_and_prefixes_in_order(self) -> None:
        for key in ("a/1", "a/2", "b", "ü x"):
            self.client.put(self.bucket, key, key.encode())
        self.assertEqual([entry.key for entry in self.client.list(self.bucket)], ["a/1", "a/2", "b", "ü x"])
        entries = list(self.client.list(self.bucket, by_folder=True))
        self.assertEqual([(one.key, one.is_prefix) for one in entries], [("a/", True), ("b", False), ("ü x", False)])
        self.assertEqual([entry.bytes for entry in self.client.list(self.bucket, "a/")], [3, 3])
        self.assertIn(self.bucket, [bucket.name for bucket in self.client.buckets()])

    def test_objects_are_copied_and_removed(self) -> None:
        self.client.put(self.bucket, "a", b"text")
        self.assertEqual(self.client.copy(self.bucket, "a", self.bucket, "b").bytes, 4)
        self.client.delete(self.bucket, "a")
        self.client.delete(self.bucket, "a")
        self.assertEqual(self.client.delete_many(self.bucket, ["a", "b"]), [])
        self.assertEqual(list(self.client.list(self.bucket)), [])
        self.client.delete_bucket(self.bucket)
        with self.assertRaises(sherd_client.NotFound):
            list(self.client.list(self.bucket))

    def test_a_presigned_url_needs_no_keys(self) -> None:
        url = self.client.presign(self.bucket, "key", method="PUT")
        urllib.request.urlopen(urllib.request.Request(url, b"by url", method="PUT")).close()
        with urllib.request.urlopen(self.client.presign(self.bucket, "key", seconds=60)) as answer:
            self.assertEqual(answer.read(), b"by url")


class Streams(NodeTest):
    def test_an_object_is_written_and_read_piece_by_piece(self) -> None:
        content = noise(17 * MIB, 4)
        with self.client.writer(self.bucket, "key", content_type="text/plain") as writer:
            for at in range(0, len(content), MIB):
                writer.write(content[at : at + MIB])
        with self.client.reader(self.bucket, "key") as reader:
            self.assertEqual((reader.info.bytes, reader.info.content_type), (len(content), "text/plain"))
            self.assertEqual(reader.read(10), content[:10])
            self.assertEqual(b"".join(reader), content[10:])
            self.assertEqual((reader.read(), reader.read(5)), (b"", b""))
        with self.client.reader(self.bucket, "key", offset=3 * MIB, bytes=MIB) as reader:
            self.assertEqual(reader.read(), content[3 * MIB : 4 * MIB])
        with self.client.reader(self.bucket, "key") as reader:
            next(iter(reader))

    def test_files_and_iterables_are_uploaded(self) -> None:
        self.assertEqual(self.client.upload_from(self.bucket, "file", io.BytesIO(b"of a file")), 9)
        self.assertEqual(self.client.upload_from(self.bucket, "pieces", (b"of", b" ", b"pieces")), 9)
        self.assertEqual(self.client.get(self.bucket, "pieces"), b"of pieces")

    def test_a_source_that_fails_stores_nothing(self) -> None:
        def pieces() -> Iterator[bytes]:
            yield noise(17 * MIB, 5)
            raise RuntimeError("the source ends")

        with self.assertRaisesRegex(RuntimeError, "the source ends"):
            self.client.upload_from(self.bucket, "key", pieces())
        with self.assertRaises(sherd_client.NotFound):
            self.client.stat(self.bucket, "key")

    def test_many_objects_come_in_order_behind_one_that_is_absent(self) -> None:
        keys = [f"sample/{number:02}" for number in range(40)]
        for key in keys:
            self.client.put(self.bucket, key, key.encode())
        self.assertEqual(
            list(self.client.read_many(self.bucket, prefix="sample/")), [(key, key.encode()) for key in keys]
        )
        samples = self.client.read_many(self.bucket, ["absent", *reversed(keys)], ahead=5)
        with self.assertRaises(sherd_client.NotFound):
            next(samples)
        self.assertEqual([key for key, _ in samples], keys[::-1])


class Errors(NodeTest):
    def test_refusals_have_a_type_and_the_words_of_the_service(self) -> None:
        with self.assertRaises(sherd_client.NotFound) as caught:
            self.client.get(self.bucket, "absent")
        self.assertEqual((caught.exception.status, caught.exception.code), (404, "NoSuchKey"))
        self.assertIn(f"s3://{self.bucket}/absent", str(caught.exception))
        wrong = sherd_client.Client(endpoint(), access_key="tester", secret_key="wrong")
        with self.assertRaises(sherd_client.Denied) as denied:
            wrong.put(self.bucket, "key", b"")
        self.assertEqual(denied.exception.code, "SignatureDoesNotMatch")

    def test_names_and_numbers_that_cannot_be_are_refused(self) -> None:
        for call in (
            lambda: self.client.delete(self.bucket, ""),
            lambda: self.client.reader("", "key"),
            lambda: self.client.writer(self.bucket, ""),
            lambda: self.client.list(""),
            lambda: self.client.presign(self.bucket, "key", seconds=0),
            lambda: self.client.read_many(self.bucket, ahead=0),
            lambda: sherd_client.Client(endpoint(), **KEYS, workers=0),
            lambda: sherd_client.Client(endpoint(), **KEYS, attempts=0),
            lambda: sherd_client.Client(endpoint(), access_key="half"),
        ):
            with self.assertRaises(sherd_client.InvalidArgument):
                call()
        with self.assertRaises(sherd_client.ConfigurationError):
            sherd_client.Client("nowhere", **KEYS)
        self.assertEqual(list(self.client.list(self.bucket)), [], "the bucket is still there")

    def test_a_file_that_cannot_be_used_is_an_os_error(self) -> None:
        with self.assertRaises(OSError) as caught:
            self.client.upload(self.bucket, "key", self.file("absent"))
        self.assertIsInstance(caught.exception, sherd_client.LocalFileError)
        self.assertEqual(caught.exception.errno, 2)
        self.assertIn("absent", str(caught.exception))

    def test_an_endpoint_that_does_not_answer(self) -> None:
        away = sherd_client.Client("http://127.0.0.1:1", **KEYS, attempts=1)
        with self.assertRaises(sherd_client.NoAnswer):
            away.stat("bucket", "key")


class Interrupts(NodeTest):
    def test_a_call_is_cancelled_from_another_thread(self) -> None:
        cancellation = Cancellation()
        path = self.file("up", noise(24 * MIB, 6))

        def cancel_at_the_first_byte(progress: Progress) -> None:
            threading.Thread(target=cancellation.cancel).start()

        with self.assertRaises(sherd_client.Cancelled):
            while True:
                self.client.upload(
                    self.bucket, "key", path, cancellation=cancellation, on_progress=cancel_at_the_first_byte
                )
        with self.assertRaises(sherd_client.Cancelled):
            self.client.get(self.bucket, "key", cancellation=cancellation)

    def test_waits_leave_the_interpreter_to_others(self) -> None:
        path = self.file("up", noise(16 * MIB, 7))
        ended = threading.Event()
        turns = 0

        def upload() -> None:
            self.client.upload(self.bucket, "key", path)
            ended.set()

        thread = threading.Thread(target=upload)
        thread.start()
        while not ended.is_set():
            turns += 1
        thread.join()
        self.assertGreater(turns, 1)

    def test_control_c_ends_a_transfer_and_leaves_nothing_behind(self) -> None:
        folder = self.file("interrupted")
        os.mkdir(folder)
        self.client.put(self.bucket, "key", noise(24 * MIB, 8))
        script = f"""if True:
            import os, sherd_client
            client = sherd_client.Client({endpoint()!r}, **{KEYS!r})
            def interrupt(progress):
                if progress.bytes:
                    os.kill(os.getpid(), {int(signal.SIGINT)})
            while True:
                client.download({self.bucket!r}, "key", {os.path.join(folder, "down")!r}, on_progress=interrupt)
                os.remove({os.path.join(folder, "down")!r})
        """
        ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("KeyboardInterrupt", ended.stderr)
        self.assertLessEqual(set(os.listdir(folder)), {"down"})

    def test_control_c_ends_a_wait_without_progress(self) -> None:
        script = f"""if True:
            import os, signal, threading, sherd_client
            client = sherd_client.Client("http://127.0.0.1:1", **{KEYS!r}, attempts=100)
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            client.stat("bucket", "key")
        """
        ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("KeyboardInterrupt", ended.stderr)

    def test_a_child_of_fork_has_connections_of_its_own(self) -> None:
        self.client.put(self.bucket, "key", b"text")
        reader = self.client.reader(self.bucket, "key")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if self.client.get(self.bucket, "key") == b"text":
                    try:
                        reader.read()
                    except RuntimeError:
                        code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(reader.read(), b"text")


if __name__ == "__main__":
    unittest.main()
