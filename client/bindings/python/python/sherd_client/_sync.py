"""The face for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Union

from sherd_client import _native
from sherd_client._options import Base
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

PROGRESS_SECONDS = 0.1
PIECE_BYTES = 1 << 20

Source = Union[Iterable[Buffer], BinaryIO]


class Cancellation:
    """Ends the calls that it is given to, from any thread: they raise `Cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[_native.Call] = set()
        self._is_cancelled = False

    def cancel(self) -> None:
        """Ends calls that are under way, and all later ones at once."""
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    def _hold(self, call: _native.Call) -> None:
        with self._lock:
            self._calls.add(call)
            is_cancelled = self._is_cancelled
        if is_cancelled:
            call.cancel()

    def _release(self, call: _native.Call) -> None:
        with self._lock:
            self._calls.discard(call)


def _settle(ended: futures.Future[Any], value: Any, failure: Failure | None) -> None:
    if failure is None:
        ended.set_result(value)
    else:
        ended.set_exception(error_of(failure))


def _wait(
    begin: Callable[..., _native.Call],
    *arguments: Any,
    on_progress: OnProgress | None = None,
    cancellation: Cancellation | None = None,
) -> Any:
    """Begins a call and waits for its end. Whatever interrupts the wait ends the call first."""
    ended: futures.Future[Any] = futures.Future()
    call = begun(begin, *arguments, partial(_settle, ended))
    if cancellation is not None:
        cancellation._hold(call)
    try:
        if on_progress is not None:
            while not futures.wait([ended], PROGRESS_SECONDS).done:
                on_progress(Progress(*call.progress()))
            on_progress(Progress(*call.progress()))
        return ended.result()
    except BaseException:
        if not ended.done():
            call.cancel()
            futures.wait([ended])
        raise
    finally:
        if cancellation is not None:
            cancellation._release(call)


class ObjectReader:
    """An object that is read piece by piece: `for piece in reader`. Ends with its `with` block."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native
        self._left = b""
        self.info = info_of(_wait(native.begin))

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._piece():
            yield piece

    def _piece(self) -> bytes:
        if self._left:
            piece, self._left = self._left, b""
            return piece
        piece = _wait(self._native.next)
        return piece if piece is not None else b""

    def read(self, size: int = -1) -> bytes:
        """Returns up to `size` bytes, fewer only at the end; without a size, all that is left."""
        pieces, count = [], 0
        while (size < 0 or count < size) and (piece := self._piece()):
            pieces.append(piece)
            count += len(piece)
        whole = b"".join(pieces)
        if 0 <= size < count:
            whole, self._left = whole[:size], whole[size:]
        return whole

    def close(self) -> None:
        """Ends the transfer."""
        _wait(self._native.close)

    def __enter__(self) -> ObjectReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ObjectWriter:
    """An object that is written piece by piece. It is stored when its `with` block ends, and not at all if that
    ends with an exception."""

    def __init__(self, native: _native.Writer) -> None:
        self._native = native

    def write(self, data: Buffer) -> int:
        """Appends bytes; waits while the service is slower."""
        _wait(self._native.write, data)
        return len(data)

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            _wait(self._native.finish)
        else:
            _wait(self._native.abort)


class Client(Base):
    """A service of S3, for threads. All methods may be called from several threads at one time."""

    def put(
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
        cancellation: Cancellation | None = None,
    ) -> int:
        """Stores bytes of memory. Returns their number."""
        stored: int = _wait(
            self._native.put,
            bucket,
            key,
            data,
            headers_of(content_type, metadata, headers),
            tags_of(tags),
            on_progress=on_progress,
            cancellation=cancellation,
        )
        return stored

    def get(
        self,
        bucket: str,
        key: str,
        *,
        offset: int = 0,
        bytes: int | None = None,
        on_progress: OnProgress | None = None,
        cancellation: Cancellation | None = None,
    ) -> bytes:
        """Reads an object into memory, or `bytes` of it from `offset` on. Nothing lies behind its end."""
        read: bytes_ = _wait(
            self._native.get, bucket, key, offset, bytes, on_progress=on_progress, cancellation=cancellation
        )
        return read

    def upload(
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
        cancellation: Cancellation | None = None,
    ) -> int:
        """Uploads a file. Returns its bytes."""
        stored: int = _wait(
            self._native.upload,
            bucket,
            key,
            path_text(path),
            headers_of(content_type, metadata, headers),
            tags_of(tags),
            on_progress=on_progress,
            cancellation=cancellation,
        )
        return stored

    def download(
        self,
        bucket: str,
        key: str,
        path: Path,
        *,
        on_progress: OnProgress | None = None,
        cancellation: Cancellation | None = None,
    ) -> ObjectInfo:
        """Downloads an object to a file, which has its name only once all of it is there."""
        return info_of(
            _wait(
                self._native.download,
                bucket,
                key,
                path_text(path),
                on_progress=on_progress,
                cancellation=cancellation,
            )
        )

    def reader(self, bucket: str, key: str, *, offset: int = 0, bytes: int | None = None) -> ObjectReader:
        """Begins to read an object, or `bytes` of it from `offset` on."""
        return ObjectReader(begun(self._native.read, bucket, key, offset, bytes))

    def writer(
        self,
        bucket: str,
        key: str,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> ObjectWriter:
        """Begins to write an object of unknown size: `with client.writer(...) as writer`."""
        pairs = headers_of(content_type, metadata, headers)
        return ObjectWriter(begun(self._native.write, bucket, key, pairs, tags_of(tags)))

    def upload_from(
        self,
        bucket: str,
        key: str,
        source: Source,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> int:
        """Uploads what a file object or an iterable of bytes gives. Returns the bytes."""
        count = 0
        writer = self.writer(
            bucket, key, content_type=content_type, metadata=metadata, headers=headers, tags=tags
        )
        with writer:
            for piece in _pieces(source):
                count += writer.write(piece)
        return count

    def read_many(
        self,
        bucket: str,
        keys: Sequence[str] | None = None,
        *,
        prefix: str = "",
        ahead: int = 16,
    ) -> SampleIterator:
        """Reads many objects in order, up to `ahead` of them before they are asked for: those of `keys`, else
        all below `prefix`."""
        given = None if keys is None else list(keys)
        return SampleIterator(begun(self._native.samples, bucket, given, prefix, ahead))

    def list(self, bucket: str, prefix: str = "", *, by_folder: bool = False) -> Iterator[Entry]:
        """Lists objects in the order of their keys; by folder, keys that share a beginning up to a slash
        behind `prefix` are one entry."""
        entries = begun(self._native.list, bucket, prefix, by_folder)
        return _lines(entries)

    def stat(self, bucket: str, key: str) -> ObjectInfo:
        """Returns the head of an object."""
        return info_of(_wait(self._native.stat, bucket, key))

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> ObjectInfo:
        """Copies an object within the service, with its headers."""
        return info_of(_wait(self._native.copy, bucket, key, to_bucket, to_key))

    def delete(self, bucket: str, key: str) -> None:
        """Removes an object; one that is not there counts as removed."""
        _wait(self._native.delete, bucket, key)

    def delete_many(self, bucket: str, keys: Iterable[str]) -> Sequence[DeleteRefusal]:
        """Removes objects, a thousand in a request. Returns those that were not removed."""
        return [DeleteRefusal(*refusal) for refusal in _wait(self._native.delete_many, bucket, [*keys])]

    def buckets(self) -> Sequence[Bucket]:
        """Lists the buckets."""
        return [Bucket(name, moment(created)) for name, created in _wait(self._native.buckets)]

    def create_bucket(self, bucket: str) -> None:
        """Makes a bucket."""
        _wait(self._native.create_bucket, bucket)

    def delete_bucket(self, bucket: str) -> None:
        """Removes an empty bucket."""
        _wait(self._native.delete_bucket, bucket)


bytes_ = bytes


class SampleIterator(Iterator[tuple[str, bytes_]]):
    """Objects as keys and bytes. One that cannot be read raises its exception, and the next call goes on with the
    object behind it."""

    def __init__(self, native: _native.Samples) -> None:
        self._native = native

    def __iter__(self) -> SampleIterator:
        return self

    def __next__(self) -> tuple[str, bytes_]:
        sample = _wait(self._native.next)
        if sample is None:
            raise StopIteration
        key, data, failure = sample
        if failure is not None:
            raise error_of(failure)
        return key, data


def _lines(entries: _native.Entries) -> Iterator[Entry]:
    while page := _wait(entries.next):
        yield from map(entry_of, page)


def _pieces(source: Source) -> Iterator[Buffer]:
    read = getattr(source, "read", None)
    if read is None:
        yield from source
        return
    while piece := read(PIECE_BYTES):
        yield piece
