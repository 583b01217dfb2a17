"""The face for asyncio against a running node."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import AsyncIterator

import sherd_client
from node import KEYS, NodeTest, endpoint, noise
from sherd_client import AsyncClient, Progress

MIB = 1 << 20


class Asyncio(NodeTest, unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.aio = AsyncClient(endpoint(), **KEYS)

    async def test_every_verb(self) -> None:
        bucket = f"{self.bucket}-aio"
        await self.aio.create_bucket(bucket)
        content = noise(17 * MIB, 1)
        seen: list[Progress] = []
        await self.aio.put(bucket, "a", content)
        await self.aio.upload(bucket, "b/c", self.file("up", content), on_progress=seen.append)
        self.assertEqual(seen[-1], Progress(len(content), len(content)))
        await self.aio.download(bucket, "b/c", self.file("down"))
        self.assertEqual(self.content(self.file("down")), content)
        self.assertEqual(await self.aio.get(bucket, "a", offset=1, bytes=2), content[1:3])
        self.assertEqual((await self.aio.stat(bucket, "a")).bytes, len(content))
        await self.aio.copy(bucket, "a", bucket, "d")
        listed = [entry.key async for entry in self.aio.list(bucket, by_folder=True)]
        self.assertEqual(listed, ["a", "b/", "d"])
        self.assertIn(bucket, [one.name for one in await self.aio.buckets()])
        self.assertIn("X-Amz-Signature", self.aio.presign(bucket, "a"))
        await self.aio.delete(bucket, "a")
        self.assertEqual(await self.aio.delete_many(bucket, ["b/c", "d"]), [])
        await self.aio.delete_bucket(bucket)

    async def test_streams(self) -> None:
        content = noise(17 * MIB, 2)

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(content), MIB):
                yield content[at : at + MIB]

        self.assertEqual(await self.aio.upload_from(self.bucket, "key", pieces()), len(content))
        async with await self.aio.reader(self.bucket, "key") as reader:
            self.assertEqual(reader.info.bytes, len(content))
            self.assertEqual(b"".join([piece async for piece in reader]), content)
        with self.assertRaises(RuntimeError):
            async with self.aio.writer(self.bucket, "other") as writer:
                await writer.write(content)
                raise RuntimeError("the source ends")
        with self.assertRaises(sherd_client.NotFound):
            await self.aio.reader(self.bucket, "other")

    async def test_many_calls_run_side_by_side(self) -> None:
        keys = [f"{number:03}" for number in range(200)]
        await asyncio.gather(*(self.aio.put(self.bucket, key, key.encode()) for key in keys))
        samples = [sample async for sample in self.aio.read_many(self.bucket)]
        self.assertEqual(samples, [(key, key.encode()) for key in keys])

    async def test_a_cancelled_task_leaves_nothing_behind(self) -> None:
        path = self.file("up", noise(24 * MIB, 3))
        moved = asyncio.Event()

        async def upload() -> None:
            while True:
                await self.aio.upload(self.bucket, "key", path, on_progress=lambda _: moved.set())
                await self.aio.delete(self.bucket, "key")

        task = asyncio.create_task(upload())
        await moved.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        # A bucket with an upload or an object in it cannot be removed.
        await self.aio.delete(self.bucket, "key")
        await self.aio.delete_bucket(self.bucket)

    async def test_a_deadline_ends_a_call(self) -> None:
        away = AsyncClient("http://127.0.0.1:1", **KEYS, attempts=100)
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(away.stat("bucket", "key"), 0.2)


if __name__ == "__main__":
    unittest.main()
