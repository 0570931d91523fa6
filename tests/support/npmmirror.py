"""An npm registry at an address that pods can reach, which forwards requests to the registry of this machine's npm.

with npm_mirror(address) as url: ...
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from fairlead_mcp.addresses import authority

SECONDS: Final = 60


def registry_of_this_machine() -> str:
    """URL of this machine's npm registry, with a slash at the end."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed"
    completed = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, check=True)
    return completed.stdout.strip().rstrip("/") + "/"


class RegistryHandler(BaseHTTPRequestHandler):
    """Answers a request to a registry without logging; npm itself reports failures."""

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Answer the request with `reply`."""
        raise NotImplementedError

    def reply(self, status: int, kind: str, body: bytes) -> None:
        """Send a complete answer."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class has
        """Log nothing."""


@contextmanager
def registry(handler: type[RegistryHandler], address: str = "127.0.0.1") -> Iterator[str]:
    """URL of a registry with the answers of the handler, with a slash at the end."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with Server((address, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{authority(address, server.server_address[1])}/"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def npm_mirror(address: str) -> Iterator[str]:
    """URL of a mirror on `address`. Tarball URLs in its documents point to the mirror, so that pods need no other
    host.
    """
    behind = registry_of_this_machine()

    class Handler(RegistryHandler):
        def answer(self) -> None:
            request = urllib.request.Request(  # the registry that npm is configured with
                behind + self.path.lstrip("/"), headers={"accept": self.headers.get("accept", "*/*")}
            )
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as response:  # as above
                    self.reply(200, response.headers.get("content-type", ""), response.read())
            except urllib.error.HTTPError as error:
                self.reply(error.code, "text/plain", error.read())

        def reply(self, status: int, kind: str, body: bytes) -> None:
            super().reply(status, kind, body.replace(behind.encode(), url.encode()) if "json" in kind else body)

    with registry(Handler, address) as url:
        yield url
