"""Listener and gate that make a stdio server reachable in a pod, both run by one static busybox. Pure.

`busybox nc` starts one process per connection, with the socket as its standard input and output; when the process ends,
so does the connection, and a process without its connection is ended. The gate starts the server only if the first line
of a connection is the server's token, because the port is open to every pod unless the cluster enforces
NetworkPolicies. The pod has a digest of the token instead of the token. No Secret is therefore needed in the server's
namespace, and neither the server nor a user who may read its pods can connect to the server's other replicas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

FOLDER: Final = "/fairlead"
BUSYBOX: Final = f"{FOLDER}/busybox"

WATCH_SECONDS: Final = 10
"""Seconds between two checks for processes without a client, and for processes that were killed for their memory."""

LISTEN: Final = """\
lost() {
  {
    $B cat /proc/net/tcp /proc/net/tcp6 /proc/net/unix
    $B grep -s "^PPid:" /proc/[0-9]*/status
    $B ls -l /proc/[0-9]*/fd/0
  } 2>/dev/null | $B awk -v nc=$NC -v ended=" $ENDED " '
    $2 ~ /:/ && $4 != "08" { open["socket:[" $10 "]"] }
    $1 ~ /:$/ && $2 !~ /:/ { open["socket:[" $7 "]"] }
    /PPid:/ { split($1, path, "/"); parent[path[3]] = $2 }
    $10 == "->" && $11 ~ /^socket/ { split($9, path, "/"); socket[path[3]] = $11 }
    END {
      for (pid in socket) if (!(socket[pid] in open)) {
        for (up = pid; up && up != nc; up = parent[up]);
        if (up == nc || index(ended, " " pid " ")) print pid
      }
    }'
}
killed() { $B grep -hs "^oom_kill " /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; }
watch() {
  SEEN= ENDED= KILLED=`killed`
  while $B sleep $1; do
    NEXT= STOPPED=
    for P in `lost`; do
      case " $ENDED|$SEEN " in
        *" $P "*"|"*) STOPPED="$STOPPED $P "; kill -9 $P ;;
        *"|"*" $P "*)
          STOPPED="$STOPPED $P "; kill $P
          echo "fairlead-gate: process $P is ended: it has no client" >&2 ;;
        *) NEXT="$NEXT $P " ;;
      esac
    done
    SEEN=$NEXT ENDED=$STOPPED NOW=`killed`
    [ "$NOW" = "$KILLED" ] || echo "fairlead-gate: a process was killed: resources.limits.memory is reached" >&2
    KILLED=$NOW
  done
}
end() {
  kill -STOP $NC
  SERVED=`$B grep -ls "^PPid:.$NC$" /proc/[0-9]*/status`
  kill -9 $NC
  for S in $SERVED; do
    while $B grep -qs "^State:.[^Z]" $S; do $B sleep 0.2; done
  done
  exit 0
}
trap end TERM INT
(shift; exec "$@") &
NC=$! B=$2
watch $1 &
wait $NC
"""
"""Script of PID 1 in the container. Its arguments are the interval of `watch` in seconds, and the command line of `nc`.
`nc` is started before the script sets variables, because servers would inherit them. As PID 1, `nc` itself would ignore
SIGTERM; when this script ends, the kernel ends all other processes of the container. At SIGTERM it stops listening and
waits for the processes of connections, whose clients end them when their requests are answered (`fairlead_mcp.tcp`),
until Kubernetes kills it.

`watch` ends processes without a client, because a program that does not read its standard input does not notice that
its connection was closed. It looks for descendants of `nc` whose standard input is a TCP socket that the peer has
closed (state 08), or that the kernel no longer lists. Such a process gets SIGTERM at the second check that finds it,
and SIGKILL at the next. Processes with a Unix socket as standard input are left alone.

`watch` also reports when a process was killed for its memory: if the cgroup kills a single process instead of the whole
container, no other message says so.
"""

GATE: Final = """\
path() {
  case $1 in
    */*) [ -f "$1" ] && [ -x "$1" ] && echo "$1" ;;
    *) (IFS=:; for D in $PATH; do [ -f "$D/$1" ] && [ -x "$D/$1" ] && echo "$D/$1" && exit; done; exit 1) ;;
  esac
}
(
  B=$1 D=$2 MOST=$3 N= C=
  refuse() { echo "fairlead-gate: $1"; $B timeout 2 $B cat >/dev/null; exit 1; }
  IFS= read -r -t 5 -n 256 line || exit 1
  [ "`printf %s "$line" | $B sha256sum`" = "$D  -" ] || exit 1
  for S in `$B grep -ls "^PPid:.$PPID$" /proc/[0-9]*/status`; do C="$C ${S%status}cmdline"; done
  for S in `[ -z "$C" ] || $B grep -Ls fairlead-gate: $C`; do N=x$N; done
  [ ${#N} -lt $MOST ] || refuse "full $MOST"
  path "$6" >/dev/null || refuse "missing $6"
) || exit 1
[ -z "$4" ] || {
  IFS=' ' read -r -t 5 -n 1200 FAIRLEAD_PROGRAM FAIRLEAD_KEY || exit 1
  [ -z "$FAIRLEAD_KEY" ] || {
    [ "$FAIRLEAD_PROGRAM" = "$5" ] || { echo "fairlead-gate: changed"; $1 timeout 2 $1 cat >/dev/null; exit 1; }
    export "$4=$FAIRLEAD_KEY"
  }
}
shift 5
FAIRLEAD_PROGRAM=`path "$1"`
shift
set -- "$FAIRLEAD_PROGRAM" "$@"
unset FAIRLEAD_KEY FAIRLEAD_PROGRAM
exec "$@"
"""
"""Script of the gate, which runs once per connection. `read` reads single bytes, so that data after the token in the
same segment is left for the server. The script uses backquotes because Kubernetes expands `$(NAME)` in commands, and a
subshell so that its variables do not overwrite the server's environment.

With the name of a variable, the client sends a second line: the digest of the program for which the user entered a key,
and the key. The key is passed only to that program, not, for example, to the program of a changed image whose catalog
is not published yet. If the line is empty, the variable keeps its value in the pod.

The script looks up the server's program in `PATH` itself, because busybox would run its own program of that name, such
as `sh`, instead of the image's program.

The limit counts those children of the listener that already run the server. Children that still run the gate do not
count, so that clients without the token cannot exhaust the limit. They are recognised by their command line, because a
server that is a shell script may be run by busybox too. Connections that begin within the same milliseconds do not see
each other, so they may exceed the limit. The gate reads a refused connection for a moment: with unread data, the kernel
would reset the connection, and the peer could lose the reason for the refusal, which `fairlead_mcp.tcp` reads.
"""


def digest(token: str) -> str:
    """SHA-256 digest of the token for the gate. The token is long and random, so the digest does not reveal it."""
    return hashlib.sha256(token.encode()).hexdigest()


def listener_command(
    port: int,
    token_digest: str,
    command: Sequence[str],
    *,
    max_processes: int,
    key_variable: str = "",
    program_digest: str = "",
    busybox: str = BUSYBOX,
    watch_seconds: int = WATCH_SECONDS,
) -> list[str]:
    """Command of a container that serves `command` on `port` to clients with the token, with at most `max_processes` at
    the same time. Processes without a client are ended, with a check every `watch_seconds`.

    With `key_variable`, clients send a second line with `program_digest` and a user's key. The process gets the key in
    the environment variable `key_variable`.
    """
    gate = [
        busybox,
        "sh",
        "-c",
        GATE,
        "gate",
        busybox,
        token_digest,
        str(max_processes),
        key_variable,
        program_digest,
        *command,
    ]
    script = [busybox, "sh", "-c", LISTEN, "listen", str(watch_seconds)]
    return [*script, busybox, "nc", "-ll", "-p", str(port), "-e", *gate]


def readiness_command(port: int) -> list[str]:
    """Command that succeeds while the port has a listener. It does not connect, which would start a server."""
    listening = rf"^ *[0-9]*: [0-9A-F]*:{port:04X} [0-9A-F]*:0000 0A "
    return [BUSYBOX, "grep", "-q", listening, "/proc/net/tcp", "/proc/net/tcp6"]


def installation_command(busybox: str = "/bin/busybox") -> list[str]:
    """Command of an init container that copies busybox to the path that `listener_command` uses."""
    return [busybox, "cp", busybox, BUSYBOX]
