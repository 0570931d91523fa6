"""A stdio server with bad habits, in nothing but the standard library.

usage: odd_stdio.py HABIT [ARGUMENT]
  noise          writes to stdout lines that are not MCP, then serves one tool
  long N         answers everything with a line of N bytes
  crash          writes to stderr and exits with code 1 at once
  mute           closes stdout and lives on
  stubborn FILE  ignores EOF and SIGTERM, after writing its pid to FILE
  parent FILE    starts a grandchild that ignores EOF and SIGTERM, writes both pids to FILE, then serves
  escapee FILE   as parent, but the grandchild leaves the process group
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        ident = message.get("id")
        match message.get("method"):
            case "initialize":
                info = {"name": "odd", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
                send({"jsonrpc": "2.0", "id": ident, "result": result})
            case _ if ident is not None:
                send({"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    habit = sys.argv[1]
    argument = sys.argv[2] if len(sys.argv) > 2 else ""
    match habit:
        case "noise":
            sys.stdout.write("Starting server...\n\n{not json\n[1]\n")
            sys.stdout.flush()
        case "long":
            for _ in sys.stdin:
                sys.stdout.write("x" * int(argument) + "\n")
                sys.stdout.flush()
        case "crash":
            sys.stderr.write("cannot find the \x1b[31mdatabase\x1b[0m\n")
            sys.exit(1)
        case "mute":
            os.close(1)
            time.sleep(600)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path(argument).write_text(str(os.getpid()))
            while True:
                time.sleep(600)
        case "parent" | "escapee":
            child = subprocess.Popen(
                [sys.executable, "-c", STUBBORN], stdin=subprocess.DEVNULL, start_new_session=habit == "escapee"
            )
            Path(argument + ".new").write_text(f"{os.getpid()} {child.pid}")
            Path(argument + ".new").rename(argument)
    serve()


if __name__ == "__main__":
    main()
