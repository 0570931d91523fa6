"""Real haproxy and nginx in front of a gateway, on sockets in a folder, keeping connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from waiting import eventually

_HAPROXY: Final = """
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  timeout tunnel 30s
  http-reuse {reuse}
listen front
  bind unix@{socket}
  server gateway 127.0.0.1:{port} pool-max-conn 4
"""
_NGINX: Final = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream gateway {{ server 127.0.0.1:{port}; keepalive 4; }}
  server {{
    listen unix:{socket};
    location / {{
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }}
  }}
}}
"""


def _program(name: str) -> str:
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


@contextlib.asynccontextmanager
async def _running(folder: Path, *command: str) -> AsyncIterator[Path]:
    """The socket that the proxy listens on."""
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(lambda: (folder / "front").exists() or process.returncode is not None)
        assert process.returncode is None, f"{command[0]} ended with {process.returncode}"
        yield folder / "front"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _haproxy(reuse: str) -> Callable[[Path, int], contextlib.AbstractAsyncContextManager[Path]]:
    def run(folder: Path, port: int) -> contextlib.AbstractAsyncContextManager[Path]:
        program = _program("haproxy")
        configuration = folder / "haproxy.cfg"
        configuration.write_text(_HAPROXY.format(reuse=reuse, socket=folder / "front", port=port))
        return _running(folder, program, "-db", "-q", "-f", str(configuration))

    return run


def _nginx(folder: Path, port: int) -> contextlib.AbstractAsyncContextManager[Path]:
    program = _program("nginx")
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, socket=folder / "front", port=port))
    return _running(folder, program, "-p", str(folder), "-c", str(configuration))


PROXIES: Final = {"haproxy always": _haproxy("always"), "haproxy safe": _haproxy("safe"), "nginx": _nginx}
"""By name: runs in a folder of its own, in front of a port of this machine."""
