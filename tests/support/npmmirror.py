"""An npm registry on an address that pods can reach: hands on what the registry of this machine's npm has.

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
    """Its URL, with a slash at the end."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed"
    asked = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, check=True)
    return asked.stdout.strip().rstrip("/") + "/"


@contextmanager
def npm_mirror(address: str) -> Iterator[str]:
    """URL of a mirror that listens on `address`. Documents name tarballs at the mirror, so that pods ask it alone."""
    behind = registry_of_this_machine()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = urllib.request.Request(  # the registry that npm is configured with
                behind + self.path.lstrip("/"), headers={"accept": self.headers.get("accept", "*/*")}
            )
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # as above
                    self._reply(200, answer.headers.get("content-type", ""), answer.read())
            except urllib.error.HTTPError as error:
                self._reply(error.code, "text/plain", error.read())

        def _reply(self, status: int, kind: str, body: bytes) -> None:
            if "json" in kind:
                body = body.replace(behind.encode(), url.encode())
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class has
            """Silence: npm says itself what it could not get."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    with Server((address, 0), Handler) as server:
        url = f"http://{authority(address, server.server_address[1])}/"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.shutdown()
            thread.join()
