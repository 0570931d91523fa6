"""Entry point of the `fairlead` command: runs it and turns expected trouble into a sentence and an exit code.

Exit codes: 0 fine, 1 failed, 2 used wrongly.
"""

from __future__ import annotations

import sys

from fairlead_cli.failure import Failure


def main() -> None:
    """Run the command line and end the process."""
    from fairlead_cli.app import app

    try:
        app()
    except Failure as failure:
        sys.stdout.flush()
        print(f"fairlead: {failure}", file=sys.stderr)
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
