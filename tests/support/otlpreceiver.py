"""Receives spans over OTLP/HTTP in a thread, as a collector does, and keeps them.

with otlp_receiver() as receiver:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
"""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver(ThreadingHTTPServer):
    """Server that keeps the spans sent to it by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            self.server.resources.append(attributes(of_resource.resource))
            for scope in of_resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def attributes(of: Any) -> dict[str, str]:
    """Those of a span, or of a resource, that are strings."""
    return {one.key: one.value.string_value for one in of.attributes}


@contextlib.contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()
