"""Exceptions, by what a caller can do about them."""

from __future__ import annotations

import os
from typing import Any, Callable, TypeVar

Failure = tuple[str, str, int, str, str]
T = TypeVar("T")


class SherdError(Exception):
    """Work failed. The text says of what, why, and what to do."""


class Refused(SherdError):
    """The service refused a request."""

    status: int
    """HTTP's status."""
    code: str
    """The service's word, `NoSuchKey`."""
    request_id: str
    """The request's id on the server; empty if it gave none."""


class NotFound(Refused):
    """The bucket or object is not there."""


class Denied(Refused):
    """The right is lacking, or the keys are not valid."""


class NoAnswer(SherdError):
    """No attempt got an answer."""


class ChecksumMismatch(SherdError):
    """The bytes that arrived are not those that were stored."""


class ObjectChanged(SherdError):
    """The object was overwritten or removed while it was read. Nothing was written; try again."""


class SourceChanged(SherdError):
    """The file changed while it was read. Nothing was stored; try again."""


class LocalFileError(SherdError, OSError):
    """A file or folder of this machine cannot be used; `errno` has the system's reason."""

    def __str__(self) -> str:
        return str(self.strerror)


class InvalidArgument(SherdError, ValueError):
    """A name, size or number that cannot be."""


class ConfigurationError(SherdError):
    """Credentials, endpoint or certificates are missing or cannot be used."""


class Cancelled(SherdError):
    """The work was cancelled; what it began is cleaned up."""


class InternalError(SherdError):
    """The client is at fault, or the service answers what no S3 server does."""


_KINDS: dict[str, type[SherdError]] = {
    "no_answer": NoAnswer,
    "checksum": ChecksumMismatch,
    "object_changed": ObjectChanged,
    "source_changed": SourceChanged,
    "name": InvalidArgument,
    "plan": InvalidArgument,
    "credentials": ConfigurationError,
    "endpoint": ConfigurationError,
    "cancelled": Cancelled,
}


def error_of(failure: Failure) -> SherdError:
    """Makes the exception of a failure."""
    kind, text, status, code, request_id = failure
    if kind == "refused":
        of_status = {404: NotFound, 401: Denied, 403: Denied}
        refused = of_status.get(status, Refused)(text)
        refused.status, refused.code, refused.request_id = status, code, request_id
        return refused
    if kind == "file":
        return LocalFileError(int(code) if code else 0, text)
    return _KINDS.get(kind, InternalError)(text)


def begun(begin: Callable[..., T], *arguments: Any) -> T:
    """Begins work whose refusal is an exception of this module."""
    try:
        return begin(*arguments)
    except ValueError as error:
        match error.args:
            case (str(), str(), int(), str(), str()):
                raise error_of(error.args) from None
            case (str() as text,):
                raise InvalidArgument(text) from None
            case _:
                raise


def path_text(path: str | os.PathLike[str]) -> str:
    """The path as text."""
    return os.fspath(path)
