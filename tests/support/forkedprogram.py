"""A `fairlead` command that other programs start, such as a shell or a client: the fork server of a test process forks
it with the streams, folder and environment of this process, which stands for it until its end.

    python -I -S forkedprogram.py SOCKET WORDS...

It imports next to nothing, so that its start takes a hundredth of a second. Where the server does not fork (an
environment that an interpreter reads at its start) or is gone, this process becomes an interpreter with the command.
"""

import _socket
import marshal
import os
import signal
import sys

_ANSWER_BYTES = 64
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _fork(address: str, words: list[str]) -> _socket.socket | None:
    """Connection to the server that forks the command; None if there is no server."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    request = marshal.dumps((words, os.getcwd(), dict(os.environ)))  # noqa: PTH109  # pathlib takes longer than all else
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
    try:
        connection.connect(address)
        connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    except OSError:
        return None
    return connection


def main(address: str, words: list[str]) -> None:
    connection = _fork(address, words)
    pid = int(connection.recv(_ANSWER_BYTES) or b"0") if connection is not None else 0
    if connection is None or not pid:
        os.execv(sys.executable, [sys.executable, "-m", "fairlead_cli", *words])
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    os.closerange(0, 3)  # a reader of the streams waits for the command alone
    code = int(connection.recv(_ANSWER_BYTES) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
