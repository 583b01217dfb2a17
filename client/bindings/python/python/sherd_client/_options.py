"""The options of both faces."""

from __future__ import annotations

from typing import Literal

from sherd_client._native import Native
from sherd_client._values import Path
from sherd_client.errors import begun, path_text


class Base:
    """A service of S3. Without options it is that of AWS's variables and profiles.

    `alias` names a service that `sherd alias set` keeps. `workers` requests run at one time, over all calls;
    `part_bytes` is chosen by the size of each file if it is not given. With `state`, a folder, a large upload or
    download that was killed goes on when the same call is made again.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        alias: str | None = None,
        ca_bundle: Path | None = None,
        addressing: Literal["auto", "path", "virtual"] = "auto",
        anonymous: bool = False,
        workers: int | None = None,
        part_bytes: int | None = None,
        attempts: int | None = None,
        state: Path | None = None,
        fsync: bool = False,
    ) -> None:
        self._native = begun(
            lambda: Native(
                alias=alias,
                endpoint=endpoint,
                region=region,
                profile=profile,
                access_key=access_key,
                secret_key=secret_key,
                session_token=session_token,
                ca_bundle=None if ca_bundle is None else path_text(ca_bundle),
                addressing=addressing,
                anonymous=anonymous,
                workers=workers,
                part_bytes=part_bytes,
                attempts=attempts,
                state=None if state is None else path_text(state),
                fsync=fsync,
            )
        )

    def presign(
        self, bucket: str, key: str, *, seconds: int = 3600, method: Literal["GET", "PUT"] = "GET"
    ) -> str:
        """Makes a URL with which the object is read or stored without keys. Nothing is sent."""
        return begun(self._native.presign, bucket, key, method == "PUT", seconds)
