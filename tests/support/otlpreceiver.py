"""Receives traces, metrics and logs over OTLP/HTTP in a thread, as a collector does, and stores them.

with otlp_receiver() as receiver:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
"""

from __future__ import annotations

import contextlib
import gzip
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver(ThreadingHTTPServer):
    """Server that stores OTLP requests over HTTP with their headers. `status` is the status of its answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        """Attributes of the resources of traces."""
        self.metrics: list[Any] = []
        self.logs: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        elif self.headers.get("content-encoding") == "deflate":
            body = zlib.decompress(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.server.status == 200:
            self._keep(body)
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def _keep(self, body: bytes) -> None:
        if self.path == "/v1/metrics":
            for of_metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for measured in of_metrics.scope_metrics:
                    self.server.metrics += measured.metrics
        elif self.path == "/v1/logs":
            for of_logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                for logged in of_logs.scope_logs:
                    self.server.logs += logged.log_records
        else:
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.resources.append(attributes(of_resource.resource))
                for scope in of_resource.scope_spans:
                    self.server.spans += scope.spans

    def log_message(self, *args: object) -> None:
        """Log nothing."""


def attributes(of: Any) -> dict[str, str]:
    """String attributes of a span or a resource."""
    return {attribute.key: attribute.value.string_value for attribute in of.attributes}


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
