"""Listener and gate that make a stdio server reachable in a pod, both run by one static busybox. Pure.

`busybox nc` starts one process per connection, with the socket as its standard input and output. When the process ends,
so does the connection; when the connection ends, the process has the end of its input, and is stopped if it goes on.
The gate starts the server only if the first line of a connection is the server's token, because the port is open to
every pod unless the cluster enforces NetworkPolicies. The pod has a digest of the token instead of the token. No Secret
is therefore needed in the server's namespace, and neither the server nor a user who may read its pods can connect to
the server's other replicas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

FOLDER: Final = "/fairlead"
BUSYBOX: Final = f"{FOLDER}/busybox"

LOOK_S: Final = 10
"""Seconds between two looks for processes whose connection has ended."""

LISTEN: Final = """\
trap 'kill -9 $N 2>/dev/null; exit 0' TERM INT
(shift; exec "$@") &
N=$! EVERY=$1 B=$2 ENDED=' ' STOPPED=' '
while kill -0 $N 2>/dev/null; do
  $B sleep $EVERY &
  wait $!
  NOW=' ' OWN=`$B grep -ls "^PPid:.$N$" /proc/[0-9]*/status`
  OWN=`echo $OWN`
  for P in `$B ls -l /proc/[0-9]*/fd/0 2>/dev/null | $B awk -v ended="$ENDED" -v own="$OWN" '
      $10 ~ /^[0-9]+$/ && $4 == "01" { live["socket:[" $10 "]"]; next }
      $NF ~ /^socket:/ && !($NF in live) {
        link = NF - 2
        split($link, path, "/")
        if (index(own, "/" path[3] "/") || index(ended, " " $NF " ")) print path[3] "|" $NF
      }
    ' /proc/net/tcp /proc/net/tcp6 -`; do
    S=${P#*|}
    case $STOPPED in
      *" $S "*) kill -9 ${P%|*} ;;
      *) case $ENDED in *" $S "*) kill ${P%|*} ;; esac ;;
    esac
    NOW="$NOW$S "
  done 2>/dev/null
  STOPPED=$ENDED ENDED=$NOW
done
"""
"""Script of PID 1 in the container. As PID 1, `nc` would ignore SIGTERM; when this script ends, the kernel ends all
other processes of the container. Its variables are set once `nc` runs, as servers have the environment of `nc`.

A program that does not read its input would outlive its connection. Each look finds the children of the listener, and
processes that these started, whose standard input is a socket that is no longer established. The second look ends them
by SIGTERM, the third by SIGKILL. The first only notes them, since a connection may be younger than the table of sockets
that was read.
"""

GATE: Final = """\
(
  B=$1 D=$2 MOST=$3 N= C=
  refuse() { echo "fairlead-gate: $1"; $B timeout 2 $B cat >/dev/null; exit 1; }
  IFS= read -r -t 5 -n 256 line || exit 1
  [ "`printf %s "$line" | $B sha256sum`" = "$D  -" ] || exit 1
  for S in `$B grep -ls "^PPid:.$PPID$" /proc/[0-9]*/status`; do C="$C ${S%status}cmdline"; done
  for S in `[ -z "$C" ] || $B grep -Ls fairlead-gate: $C`; do N=x$N; done
  [ ${#N} -lt $MOST ] || refuse "full $MOST"
  case $6 in
    */*) [ -f "$6" ] && [ -x "$6" ] ;;
    *) command -v "$6" >/dev/null ;;
  esac || refuse "missing $6"
) || exit 1
[ -z "$4" ] || {
  IFS=' ' read -r -t 5 -n 1200 FAIRLEAD_PROGRAM FAIRLEAD_KEY || exit 1
  [ -z "$FAIRLEAD_KEY" ] || {
    [ "$FAIRLEAD_PROGRAM" = "$5" ] || { echo "fairlead-gate: changed"; $1 timeout 2 $1 cat >/dev/null; exit 1; }
    export "$4=$FAIRLEAD_KEY"
  }
}
unset FAIRLEAD_KEY FAIRLEAD_PROGRAM
shift 5
exec "$@"
"""
"""Script of the gate. `read` reads single bytes, so that data after the token in the same segment is left for the
server. With the name of a variable, a second line has the digest of the program that the person's key is for, and the
key: it goes to no other program, such as that of a changed image whose catalog is not published yet. If the line is
empty, the variable stays as the pod has it. The script uses backquotes because Kubernetes expands `$(NAME)` in
commands, and a subshell so that its variables do not overwrite the server's environment.

The limit counts children of the listener that already run the server, not those that have the gate as their command
line (a server that is a shell script may be run by busybox as well), so that clients without the token cannot use the
limit up. Connections within the same milliseconds do not see each other, so they may exceed the limit. The gate reads a
refused connection for a moment, because unread data would make the kernel reset the connection, and the peer could lose
the reason for the refusal (`fairlead_mcp.tcp` reads it).
"""


def digest(token: str) -> str:
    """SHA-256 digest of the token for the gate. The token is long and random, so the digest does not reveal it."""
    return hashlib.sha256(token.encode()).hexdigest()


def listen(
    port: int,
    token_digest: str,
    command: Sequence[str],
    *,
    most: int,
    key_variable: str = "",
    program_digest: str = "",
    busybox: str = BUSYBOX,
    look_s: int = LOOK_S,
) -> list[str]:
    """Command of a container that serves `command` on `port` to clients with the token, up to `most` at a time.

    With `key_variable`, clients send a second line: `program_digest` and a person's key, which the process has under
    that name.
    """
    gate = [busybox, "sh", "-c", GATE, "gate", busybox, token_digest, str(most), key_variable, program_digest, *command]
    return [busybox, "sh", "-c", LISTEN, "listen", str(look_s), busybox, "nc", "-ll", "-p", str(port), "-e", *gate]


def readiness(port: int) -> list[str]:
    """Command that succeeds while the port has a listener. It does not connect, which would start a server."""
    listening = rf"^ *[0-9]*: [0-9A-F]*:{port:04X} [0-9A-F]*:0000 0A "
    return [BUSYBOX, "grep", "-q", listening, "/proc/net/tcp", "/proc/net/tcp6"]


def installation(busybox: str = "/bin/busybox") -> list[str]:
    """Command of an init container that copies busybox to the path that `listen` uses."""
    return [busybox, "cp", busybox, BUSYBOX]
