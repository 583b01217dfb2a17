"""Transfer engine for S3: fast, bounded in memory, never half a file.

`Client` is for threads and `AsyncClient` for asyncio; both have the same verbs. Waiting leaves the interpreter
to others, and Ctrl-C and cancelled tasks end the work after what it began is cleaned up.

A client that is used in a child of `os.fork` opens connections of its own there; fork while no transfer runs.
"""

from sherd_client._aio import AsyncClient, AsyncObjectReader, AsyncObjectWriter
from sherd_client._sync import Cancellation, Client, ObjectReader, ObjectWriter
from sherd_client._values import Bucket, DeleteRefusal, Entry, ObjectInfo, Progress
from sherd_client.errors import (
    Cancelled,
    ChecksumMismatch,
    ConfigurationError,
    Denied,
    InternalError,
    InvalidArgument,
    LocalFileError,
    NoAnswer,
    NotFound,
    ObjectChanged,
    Refused,
    SherdError,
    SourceChanged,
)

__all__ = [
    "AsyncClient",
    "AsyncObjectReader",
    "AsyncObjectWriter",
    "Bucket",
    "Cancellation",
    "Cancelled",
    "ChecksumMismatch",
    "Client",
    "ConfigurationError",
    "DeleteRefusal",
    "Denied",
    "Entry",
    "InternalError",
    "InvalidArgument",
    "LocalFileError",
    "NoAnswer",
    "NotFound",
    "ObjectChanged",
    "ObjectInfo",
    "ObjectReader",
    "ObjectWriter",
    "Progress",
    "Refused",
    "SherdError",
    "SourceChanged",
]
