"""Listener and gate that make a server on stdio reachable in a pod, both of one static busybox. Pure.

`busybox nc` starts one process per connection, with standard input and output on the socket; the end of either ends the
other. In front of the server stands the gate: the first line of a connection must be the token of this server, else
no server starts, for the port is open wherever nothing enforces NetworkPolicy. The pod holds a digest of the token and
not the token, so that no Secret has to be written beside the server, and neither the server nor who reads its pods
can connect to another replica of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

FOLDER: Final = "/fairlead"
BUSYBOX: Final = f"{FOLDER}/busybox"

LISTEN: Final = """\
trap 'kill -9 $! 2>/dev/null; exit 0' TERM INT
"$@" &
wait $!
"""
"""PID 1 of the container. `nc` alone would ignore SIGTERM there; when this ends, the kernel ends the rest."""

GATE: Final = """\
(
  B=$1 D=$2 MOST=$3 N=
  refuse() { echo "fairlead-gate: $1"; $B timeout 2 $B cat >/dev/null; exit 1; }
  IFS= read -r -t 5 -n 256 line || exit 1
  [ "`printf %s "$line" | $B sha256sum`" = "$D  -" ] || exit 1
  for S in `$B grep -ls "^PPid:.$PPID$" /proc/[0-9]*/status`; do
    [ ${S%status}exe -ef $B ] || N=x$N
  done
  [ ${#N} -lt $MOST ] || refuse "full $MOST"
  case $4 in
    */*) [ -f "$4" ] && [ -x "$4" ] ;;
    *) command -v "$4" >/dev/null ;;
  esac || refuse "missing $4"
) || exit 1
shift 3
exec "$@"
"""
"""`read` takes a byte at a time, so what follows the token in the same segment is left for the server. Backquotes,
because Kubernetes has a use of its own for the other form. A subshell, because an environment may have a variable of
any name, and the server is to have it as it was.

Servers are the children of the listener that are not gates any more: who does not know the token cannot use up the
room. Those that come within the same milliseconds do not see each other, so the limit may be passed by so many. One
that is refused is read on for a moment: what is left unread would have the kernel reset the connection, and the other
side might lose the reason (`fairlead_mcp.tcp` reads it).
"""


def digest(token: str) -> str:
    """Digest of the token for the gate to compare with. The token is random and long, so this says nothing about it."""
    return hashlib.sha256(token.encode()).hexdigest()


def listen(port: int, token_digest: str, command: Sequence[str], *, most: int, busybox: str = BUSYBOX) -> list[str]:
    """Command of a container that serves `command` on `port` to clients with the token, `most` at once."""
    gate = [busybox, "sh", "-c", GATE, "gate", busybox, token_digest, str(most), *command]
    return [busybox, "sh", "-c", LISTEN, "listen", busybox, "nc", "-ll", "-p", str(port), "-e", *gate]


def readiness(port: int) -> list[str]:
    """A command that succeeds while the port is listened on. Connecting would start a server each time."""
    listening = rf"^ *[0-9]*: [0-9A-F]*:{port:04X} [0-9A-F]*:0000 0A "
    return [BUSYBOX, "grep", "-q", listening, "/proc/net/tcp", "/proc/net/tcp6"]


def installation(busybox: str = "/bin/busybox") -> list[str]:
    """The command of an init container that puts busybox where `listen` finds it."""
    return [busybox, "cp", busybox, BUSYBOX]
