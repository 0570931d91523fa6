"""Entry point of the `fairlead` command: runs a verb and ends with its exit code.

Expected trouble is one sentence on standard error, `fairlead VERB: what happened. what to do`, and no traceback.
Exit codes: 0 fine, 1 failed (also: an answer that is no), 2 used wrongly, 130 interrupted (Ctrl-C), 141 the reader of
its output went away (`| head`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairlead_cli.failure import BROKEN_PIPE, FAILED, INTERRUPTED, USED_WRONGLY, Failure, missing, readable_in_part

if TYPE_CHECKING:
    from fairlead_cli.tree import Command

HELP: Final = frozenset({"-h", "--help"})
COMPLETE: Final = "_FAIRLEAD_COMPLETE"
"""Environment variable by which a shell asks for completions."""
TRACEBACK: Final = "FAIRLEAD_TRACEBACK"
"""Environment variable that has a fault of ours shown with its traceback."""
EXTRA: Final = "up"
"""Extra that brings what verbs need which ask a gateway, or read what gateways write."""
SERVING: Final = frozenset({"up", "operator", "gateway", "serve", "bridge"})
"""Verbs that run until a signal: their standard error is a log, which a traceback belongs in."""


def main() -> None:
    """Run the command line and end the process."""
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run(words: Sequence[str]) -> int:
    gc.disable()  # nothing of what is made here is garbage, and looking for it takes a tenth of the time of `--help`
    from fairlead_cli.tree import tree

    command = tree()
    gc.enable()
    if HELP.intersection(words):
        readable_in_part()
    if os.environ.get(COMPLETE):
        command.main(prog_name="fairlead", complete_var=COMPLETE)
    name = command.verb_of(words)
    try:
        return _exit_code(command, words)
    except Failure as failure:
        from fairlead_cli.wording import ready_to_paste

        sys.stdout.flush()
        print(f"{name}: {ready_to_paste(str(failure))}", file=sys.stderr)
        return failure.code
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK) or name.partition(" ")[2] in SERVING:
            raise
        sys.stdout.flush()
        if isinstance(error, ModuleNotFoundError) and not (error.name or "fairlead").startswith("fairlead"):
            print(f"{name}: {missing(error, EXTRA)}", file=sys.stderr)
            return FAILED
        fault = f"{type(error).__name__}: {error}".rstrip(".")
        print(f"{name}: a fault of Fairlead: {fault}. {TRACEBACK}=1 shows where; please report it.", file=sys.stderr)
        return FAILED


def _exit_code(command: Command, words: Sequence[str]) -> int:
    """Exit code of the verb. Raises Failure, also for words that are not a command line."""
    import typer
    from typer.exceptions import TyperException

    try:
        with command.group.make_context("fairlead", list(words)) as context:
            command.group.invoke(context)
        return 0
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except TyperException as error:
        from fairlead_cli.wording import after

        text = " ".join(error.format_message().replace("Value error, ", "").split())
        advice = f"`{command.verb_of(words)} --help` says how it is used."
        option = getattr(error, "option_name", "")
        if command.verb_of(words) == "fairlead call" and option.startswith("--"):
            advice = f"An argument of the tool is written without dashes: {option.lstrip('-')}=VALUE. {advice}"
        raise Failure(after(f"{text[:1].lower()}{text[1:]}", advice), code=USED_WRONGLY) from error
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED


if __name__ == "__main__":
    main()
