"""A `fairlead` command, or a server of the tests, that other programs start, such as a shell, a client or a gateway.
The fork server of a test process forks it with the streams, folder and environment of this process, which stands for
it until its end.

    python -I -S forkedprogram.py WORDS...
    python -I -S forkedprogram.py SCRIPT.py WORDS...
    python -I -S forkedprogram.py -m MODULE WORDS...

It imports next to nothing, so that its start takes a hundredth of a second. The server is that of the nearest process
above this one that has a socket in FOLDER. Where there is none, or it does not fork (an environment that an interpreter
reads at its start), this process becomes an interpreter with the command.
"""

import _socket
import marshal
import os
import signal
import sys

FOLDER = f"/tmp/fairlead-fork-{os.getuid()}"  # noqa: S108  # a program here does not know the folder of its tests
"""Folder with a socket for each fork server, by its process id and by that of the test process that started it."""
_ANSWER_BYTES = 64
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _address() -> str | None:
    """Socket of the nearest process above this one that has one."""
    pid = os.getppid()
    while pid > 1:
        address = f"{FOLDER}/{pid}"
        if os.path.exists(address):  # noqa: PTH110  # pathlib takes longer than all else
            return address
        try:
            with open(f"/proc/{pid}/stat") as status:  # noqa: PTH123  # as above
                pid = int(status.read().rpartition(")")[2].split()[1])
        except OSError:
            return None
    return None


def _fork(words: list[str]) -> _socket.socket | None:
    """Connection to the server that forks the command; None if there is no server."""
    address = _address()
    if address is None:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    request = marshal.dumps((words, os.getcwd(), dict(os.environ)))  # noqa: PTH109  # as above
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
    try:
        connection.connect(address)
        connection.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    except OSError:
        return None
    return connection


def main(words: list[str]) -> None:
    connection = _fork(words)
    pid = int(connection.recv(_ANSWER_BYTES) or b"0") if connection is not None else 0
    if connection is None or not pid:
        program = [] if words and words[0].endswith((".py", "-m")) else ["-m", "fairlead_cli"]
        os.execv(sys.executable, [sys.executable, *program, *words])
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup has it ignored, by the programs of a program too
            signal.signal(number, lambda number, _: os.kill(pid, number))
    os.closerange(0, 3)  # a reader of the streams waits for the command alone
    code = int(connection.recv(_ANSWER_BYTES) or b"1")
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
