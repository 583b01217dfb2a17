"""Values that both faces take and give."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Union

Buffer = Union[bytes, bytearray, memoryview]
"""Bytes of memory. `bytes` are not copied."""

Path = Union[str, "os.PathLike[str]"]
"""A file's name."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The bytes of a call that is under way."""

    bytes: int
    """Bytes that moved. An attempt that fails takes its bytes back."""
    total: int
    """Bytes that are to be moved, as far as that is known."""


OnProgress = Callable[[Progress], object]
"""Is called about ten times a second while the caller waits, and once at the end."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The head of an object."""

    bytes: int
    etag: str
    modified: datetime | None
    checksum: tuple[str, str] | None
    """Algorithm and value in Base64, of the whole object."""
    version: str | None
    storage_class: str | None
    headers: Mapping[str, str]
    """`content-type` and others that it was stored with."""

    @property
    def content_type(self) -> str | None:
        """The type of the content."""
        return self.headers.get("content-type")

    @property
    def metadata(self) -> dict[str, str]:
        """The user's own headers, without `x-amz-meta-`."""
        own = "x-amz-meta-"
        return {name[len(own) :]: value for name, value in self.headers.items() if name.startswith(own)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a list: an object, or a prefix that keys share up to a slash."""

    key: str
    bytes: int | None
    """None for a prefix."""
    modified: datetime | None
    etag: str | None
    storage_class: str | None

    @property
    def is_prefix(self) -> bool:
        """Whether this is a prefix."""
        return self.bytes is None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of a list."""

    name: str
    created: datetime | None


@dataclass(frozen=True, slots=True)
class DeleteRefusal:
    """A key that was not deleted."""

    key: str
    code: str
    message: str


def moment(seconds: float | None) -> datetime | None:
    """The time of seconds since 1970."""
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def info_of(head: Any) -> ObjectInfo:
    """The head of an object."""
    count, etag, modified, checksum, version, storage_class, headers = head
    return ObjectInfo(count, etag, moment(modified), checksum, version, storage_class, dict(headers))


def entry_of(line: Any) -> Entry:
    """A line of a list."""
    key, count, modified, etag, storage_class = line
    return Entry(key, count, moment(modified), etag, storage_class)


def headers_of(
    content_type: str | None, metadata: Mapping[str, str] | None, headers: Mapping[str, str] | None
) -> list[tuple[str, str]]:
    """The headers that an object is stored with."""
    pairs = {name.lower(): value for name, value in (headers or {}).items()}
    pairs.update({f"x-amz-meta-{name.lower()}": value for name, value in (metadata or {}).items()})
    if content_type is not None:
        pairs["content-type"] = content_type
    return list(pairs.items())


def tags_of(tags: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """The tags that an object is stored with."""
    return list((tags or {}).items())
