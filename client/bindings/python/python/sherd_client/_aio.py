"""The face for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Union

from sherd_client import _native
from sherd_client._options import Base
from sherd_client._sync import PROGRESS_SECONDS
from sherd_client._values import (
    Bucket,
    Buffer,
    DeleteRefusal,
    Entry,
    ObjectInfo,
    OnProgress,
    Path,
    Progress,
    entry_of,
    headers_of,
    info_of,
    moment,
    tags_of,
)
from sherd_client.errors import Failure, begun, error_of, path_text

AsyncSource = Union[AsyncIterable[Buffer], Iterable[Buffer]]


def _settle(ended: asyncio.Future[Any], value: Any, failure: Failure | None) -> None:
    if failure is None:
        ended.set_result(value)
    else:
        ended.set_exception(error_of(failure))


async def _wait(
    begin: Callable[..., _native.Call], *arguments: Any, on_progress: OnProgress | None = None
) -> Any:
    """Begins a call and waits for its end. A task that is cancelled ends the call, and goes on when what the
    call began is cleaned up."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()

    def done(value: Any, failure: Failure | None) -> None:
        try:
            loop.call_soon_threadsafe(_settle, ended, value, failure)
        except RuntimeError:
            # The loop was closed while the call was under way.
            pass

    call = begun(begin, *arguments, done)
    try:
        if on_progress is not None:
            while not (await asyncio.wait([ended], timeout=PROGRESS_SECONDS))[0]:
                on_progress(Progress(*call.progress()))
            on_progress(Progress(*call.progress()))
        return await asyncio.shield(ended)
    except BaseException:
        if not ended.done():
            call.cancel()
            await asyncio.wait([ended])
            ended.exception()
        raise


class AsyncObjectReader:
    """An object that is read piece by piece: `async for piece in reader`. Ends with its `async with` block."""

    def __init__(self, native: _native.Reader, info: ObjectInfo) -> None:
        self._native = native
        self.info = info

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await _wait(self._native.next)) is not None:
            yield piece

    async def close(self) -> None:
        """Ends the transfer."""
        await _wait(self._native.close)

    async def __aenter__(self) -> AsyncObjectReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncObjectWriter:
    """An object that is written piece by piece. It is stored when its `async with` block ends, and not at all if
    that ends with an exception."""

    def __init__(self, native: _native.Writer) -> None:
        self._native = native

    async def write(self, data: Buffer) -> int:
        """Appends bytes; waits while the service is slower."""
        await _wait(self._native.write, data)
        return len(data)

    async def __aenter__(self) -> AsyncObjectWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await _wait(self._native.finish)
        else:
            await _wait(self._native.abort)


class AsyncClient(Base):
    """A service of S3, for asyncio. A task that is cancelled ends its calls."""

    async def put(
        self,
        bucket: str,
        key: str,
        data: Buffer,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Stores bytes of memory. Returns their number."""
        pairs = headers_of(content_type, metadata, headers)
        stored: int = await _wait(
            self._native.put, bucket, key, data, pairs, tags_of(tags), on_progress=on_progress
        )
        return stored

    async def get(
        self,
        bucket: str,
        key: str,
        *,
        offset: int = 0,
        bytes: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> bytes:
        """Reads an object into memory, or `bytes` of it from `offset` on. Nothing lies behind its end."""
        read: bytes_ = await _wait(self._native.get, bucket, key, offset, bytes, on_progress=on_progress)
        return read

    async def upload(
        self,
        bucket: str,
        key: str,
        path: Path,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> int:
        """Uploads a file. Returns its bytes."""
        pairs = headers_of(content_type, metadata, headers)
        stored: int = await _wait(
            self._native.upload, bucket, key, path_text(path), pairs, tags_of(tags), on_progress=on_progress
        )
        return stored

    async def download(
        self, bucket: str, key: str, path: Path, *, on_progress: OnProgress | None = None
    ) -> ObjectInfo:
        """Downloads an object to a file, which has its name only once all of it is there."""
        return info_of(
            await _wait(self._native.download, bucket, key, path_text(path), on_progress=on_progress)
        )

    async def reader(
        self, bucket: str, key: str, *, offset: int = 0, bytes: int | None = None
    ) -> AsyncObjectReader:
        """Begins to read an object, or `bytes` of it from `offset` on."""
        native = begun(self._native.read, bucket, key, offset, bytes)
        return AsyncObjectReader(native, info_of(await _wait(native.begin)))

    def writer(
        self,
        bucket: str,
        key: str,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> AsyncObjectWriter:
        """Begins to write an object of unknown size: `async with client.writer(...) as writer`."""
        pairs = headers_of(content_type, metadata, headers)
        return AsyncObjectWriter(begun(self._native.write, bucket, key, pairs, tags_of(tags)))

    async def upload_from(
        self,
        bucket: str,
        key: str,
        source: AsyncSource,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> int:
        """Uploads what an iterable of bytes gives, asynchronous or not. Returns the bytes."""
        count = 0
        writer = self.writer(
            bucket, key, content_type=content_type, metadata=metadata, headers=headers, tags=tags
        )
        async with writer:
            if isinstance(source, AsyncIterable):
                async for piece in source:
                    count += await writer.write(piece)
            else:
                for piece in source:
                    count += await writer.write(piece)
        return count

    def read_many(
        self, bucket: str, keys: Sequence[str] | None = None, *, prefix: str = "", ahead: int = 16
    ) -> AsyncSampleIterator:
        """Reads many objects in order, up to `ahead` of them before they are asked for: those of `keys`, else
        all below `prefix`."""
        given = None if keys is None else list(keys)
        return AsyncSampleIterator(begun(self._native.samples, bucket, given, prefix, ahead))

    def list(self, bucket: str, prefix: str = "", *, by_folder: bool = False) -> AsyncIterator[Entry]:
        """Lists objects in the order of their keys; by folder, keys that share a beginning up to a slash
        behind `prefix` are one entry."""
        return _lines(begun(self._native.list, bucket, prefix, by_folder))

    async def stat(self, bucket: str, key: str) -> ObjectInfo:
        """Returns the head of an object."""
        return info_of(await _wait(self._native.stat, bucket, key))

    async def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> ObjectInfo:
        """Copies an object within the service, with its headers."""
        return info_of(await _wait(self._native.copy, bucket, key, to_bucket, to_key))

    async def delete(self, bucket: str, key: str) -> None:
        """Removes an object; one that is not there counts as removed."""
        await _wait(self._native.delete, bucket, key)

    async def delete_many(self, bucket: str, keys: Iterable[str]) -> Sequence[DeleteRefusal]:
        """Removes objects, a thousand in a request. Returns those that were not removed."""
        return [DeleteRefusal(*one) for one in await _wait(self._native.delete_many, bucket, [*keys])]

    async def buckets(self) -> Sequence[Bucket]:
        """Lists the buckets."""
        return [Bucket(name, moment(created)) for name, created in await _wait(self._native.buckets)]

    async def create_bucket(self, bucket: str) -> None:
        """Makes a bucket."""
        await _wait(self._native.create_bucket, bucket)

    async def delete_bucket(self, bucket: str) -> None:
        """Removes an empty bucket."""
        await _wait(self._native.delete_bucket, bucket)


bytes_ = bytes


class AsyncSampleIterator(AsyncIterator[tuple[str, bytes_]]):
    """Objects as keys and bytes. One that cannot be read raises its exception, and the next call goes on with the
    object behind it."""

    def __init__(self, native: _native.Samples) -> None:
        self._native = native

    def __aiter__(self) -> AsyncSampleIterator:
        return self

    async def __anext__(self) -> tuple[str, bytes_]:
        sample = await _wait(self._native.next)
        if sample is None:
            raise StopAsyncIteration
        key, data, failure = sample
        if failure is not None:
            raise error_of(failure)
        return key, data


async def _lines(entries: _native.Entries) -> AsyncIterator[Entry]:
    while page := await _wait(entries.next):
        for line in page:
            yield entry_of(line)
