"""Exporter of spans by OTLP over HTTP, which takes encoded spans too.

It is the SDK's exporter, so that endpoint, headers, certificates, compression, timeout and retries are as the
environment says. The SDK encodes a stand-in for a batch of encoded spans, whose body is replaced where it is sent.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from requests.adapters import HTTPAdapter

from fairlead_otel.encoded_spans import SpanBatches

_CREDENTIALS: Final = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER"
_TRACES_CREDENTIALS: Final = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER"


class _ReplacedBodies(HTTPAdapter):
    """Sends requests of an exporter with another body, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.body: bytes | None = None

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        if self.body is not None:
            request.prepare_body(_compress(self.body, str(request.headers.get("content-encoding", ""))), None)
        return super().send(request, *args, **kwargs)


class HttpSpanExporter(OTLPSpanExporter):
    """Exporter of spans by HTTP, encoded or not. One thread exports at a time."""

    def __init__(self, batches: SpanBatches) -> None:
        self._batches = batches
        self._bodies = _ReplacedBodies()
        session = _session(os.environ)
        for scheme in ("http://", "https://"):
            session.mount(scheme, self._bodies)
        super().__init__(session=session)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._bodies.body = self._batches.serialize(spans)
        return super().export(spans if self._bodies.body is None else (self._batches.stand_in,))


def _session(environ: Mapping[str, str]) -> requests.Session:
    """Session of the credential provider that the environment names, or a session without credentials. The SDK finds
    the provider in the same way, but only if it is passed no session.
    """
    name = environ.get(_CREDENTIALS) or environ.get(_TRACES_CREDENTIALS)
    providers = entry_points(group="opentelemetry_otlp_credential_provider", name=name) if name else ()
    session = next((provider.load()() for provider in providers), None)
    return session if isinstance(session, requests.Session) else requests.Session()


def _compress(body: bytes, encoding: str) -> bytes:
    """The body in the encoding that the exporter chose by its environment."""
    if encoding == "gzip":
        return gzip.compress(body)
    return zlib.compress(body) if encoding == "deflate" else body
