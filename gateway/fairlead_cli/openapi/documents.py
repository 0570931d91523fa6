"""Reading of an OpenAPI document from a file, standard input or a URL, in bounded size and time."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.proxies import proxy_mounts
from fairlead_openapi.compiling.reading import ACCEPTED_TYPES, MAX_DOCUMENT_BYTES, MAX_REDIRECTS

FETCH_SECONDS: Final = 60.0


class FetchedDocument(NamedTuple):
    """Bytes of a document, and its URL; the URL is empty for a document that was not fetched."""

    data: bytes
    url: str = ""


def read_source(source: str) -> FetchedDocument:
    """Read a file, standard input (`-`) or an `http` or `https` URL. Raises Failure."""
    if source.startswith(("http://", "https://")):
        return _fetch(source)
    try:
        if source == "-":
            data = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise Failure(f"cannot read {source}: {error.strerror or error}", code=USAGE_ERROR) from error
    _check_size(source, data)
    return FetchedDocument(data)


def _check_size(source: str, data: bytes | bytearray) -> None:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise Failure(f"{source} has more than {MAX_DOCUMENT_BYTES >> 20} MiB", code=USAGE_ERROR)


def _fetch(url: str) -> FetchedDocument:
    import httpx2

    end = time.monotonic() + FETCH_SECONDS
    try:
        with (
            httpx2.Client(
                timeout=FETCH_SECONDS, mounts=proxy_mounts(url), follow_redirects=True, max_redirects=MAX_REDIRECTS
            ) as client,
            client.stream("GET", url, headers={"Accept": ACCEPTED_TYPES}) as answer,
        ):
            if not answer.is_success:
                raise Failure(f"{url} answered {answer.status_code} {answer.reason_phrase}")
            data = bytearray()
            for piece in answer.iter_bytes():
                data += piece
                _check_size(url, data)
                if time.monotonic() > end:
                    raise Failure(f"{url} was not read within {FETCH_SECONDS:g} s")
            final_url = urlsplit(str(answer.url))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise Failure(f"cannot read {url}: {str(error) or type(error).__name__}") from error
    return FetchedDocument(bytes(data), final_url._replace(fragment="", query="").geturl())
