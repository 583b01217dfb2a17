"""Objects of one bucket behind FastAPI: bodies pass through in pieces, whatever their size.

    pip install sherd-client fastapi uvicorn
    SHERD_BUCKET=photos uvicorn fastapi_app:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import sherd_client
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

BUCKET = os.environ.get("SHERD_BUCKET", "files")

app = FastAPI()
# The endpoint and keys of AWS's variables and profiles.
client = sherd_client.AsyncClient()


@app.get("/files/{key:path}")
async def download(key: str) -> StreamingResponse:
    """Sends an object as it arrives."""
    try:
        reader = await client.reader(BUCKET, key)
    except sherd_client.NotFound as error:
        raise HTTPException(404, str(error)) from None

    async def pieces() -> AsyncIterator[bytes]:
        async with reader:
            async for piece in reader:
                yield piece

    headers = {"content-length": str(reader.info.bytes), "etag": reader.info.etag}
    return StreamingResponse(pieces(), headers=headers, media_type=reader.info.content_type)


@app.put("/files/{key:path}")
async def upload(key: str, request: Request) -> dict[str, int]:
    """Stores a body as it arrives; one that breaks off stores nothing."""
    stored = await client.upload_from(
        BUCKET, key, request.stream(), content_type=request.headers.get("content-type")
    )
    return {"bytes": stored}
