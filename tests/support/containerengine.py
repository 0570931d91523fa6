"""Stand-in for the clients `docker` and `podman`, whose containers outlive the client as those of an engine do.

`docker run … IMAGE COMMAND…` runs the command as a container: a process that is not below the client, and whose input
ends with it. `ps` and `kill` know it by its label.
"""

from __future__ import annotations

import sys
from pathlib import Path

SERVER = """\
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "contained", "version": "1"}},
    "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]},
}
REFUSED = {"error": {"code": -32601, "message": "no"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = RESULTS.get(message["method"])
        outcome = REFUSED if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
while True:
    signal.pause()
"""
"""A server that ends neither when its input ends nor on SIGTERM."""
_ENGINE = """\
#!{python}
import os, pathlib, signal, sys, threading

FOLDER = pathlib.Path({folder!r})


def copy(source, target):
    while data := os.read(source, 65536):
        os.write(target, data)
    os.close(target)


def run(words):
    label = ""
    while words[0].startswith("-"):
        option = words.pop(0)
        if option == "--label":
            label = words.pop(0).replace("/", "-")
        elif option not in ("-i", "--rm"):
            sys.exit(125)
    own_in, in_ = os.pipe()
    out, own_out = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            (FOLDER / (label or str(os.getpid()))).write_text(str(os.getpid()))
            os.dup2(own_in, 0)
            os.dup2(own_out, 1)
            os.closerange(3, 256)
            os.execv(words[1], words[1:])
        os._exit(0)
    os.wait()
    os.close(own_in)
    os.close(own_out)
    threading.Thread(target=copy, args=(0, in_), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: None)  # it goes to the container, which ignores it
    copy(out, 1)


def ps(words):
    assert words[:4] == ["--all", "--quiet", "--no-trunc", "--filter"], words
    wanted = words[4].removeprefix("label=").replace("/", "-")
    print(*[file.read_text() for file in FOLDER.iterdir() if file.name == wanted], sep="\\n")


def kill(words):
    for word in words:
        os.kill(int(word), signal.SIGKILL)


words = sys.argv[1:]
if words[:1] == ["--context"]:
    words = words[2:]
if words[0] == "container":
    words = words[1:]
{{"run": run, "ps": ps, "kill": kill}}[words[0]](words[1:])
"""


class ContainerEngine:
    """The fake clients in `bin`, and the processes that they have started."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self._containers = folder / "containers"
        self.bin.mkdir()
        self._containers.mkdir()
        (folder / "server.py").write_text(SERVER)
        self.image = ("image", sys.executable, str(folder / "server.py"))
        """Last arguments of a `run` whose container is an MCP server."""
        for name in ("docker", "podman"):
            client = self.bin / name
            client.write_text(_ENGINE.format(python=sys.executable, folder=str(self._containers)))
            client.chmod(0o755)

    def containers(self) -> list[int]:
        """Processes of all containers that were started."""
        return [int(text) for file in self._containers.iterdir() if (text := file.read_text())]
