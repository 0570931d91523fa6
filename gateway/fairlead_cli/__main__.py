"""Entry point of the `fairlead` command: runs a command and exits with its exit code.

Expected errors are one sentence on standard error, `fairlead VERB: what happened. what to do`, without a traceback.
Exit codes: 0 success, 1 failure (or the answer no), 2 wrong usage, 130 interrupted (Ctrl-C), 141 closed output pipe
(`| head`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fairlead_cli.failure import (
    BROKEN_PIPE,
    FAILED,
    INTERRUPTED,
    USAGE_ERROR,
    Failure,
    die_on_broken_pipe,
    missing_package,
)

if TYPE_CHECKING:
    from fairlead_cli.tree import Command

HELP: Final = frozenset({"-h", "--help"})
COMPLETE: Final = "_FAIRLEAD_COMPLETE"
"""Environment variable with which a shell requests completions."""
TRACEBACK: Final = "FAIRLEAD_TRACEBACK"
"""Environment variable that prints tracebacks of internal errors."""
EXTRA: Final = "up"
"""Extra with the packages of commands that talk to a gateway or read its files."""
SERVING: Final = frozenset({"up", "operator", "gateway", "serve", "bridge"})
"""Commands that run until a signal. Their standard error is a log, so tracebacks are printed there."""


def main() -> None:
    """Run the command line and end the process."""
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes stdout at exit
        code = BROKEN_PIPE
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run(words: Sequence[str]) -> int:
    gc.disable()  # collections find no garbage here, and take a tenth of the time of `--help`
    from fairlead_cli.tree import tree

    command = tree()
    gc.enable()
    if HELP.intersection(words):
        die_on_broken_pipe()
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
            print(f"{name}: {missing_package(error, EXTRA)}", file=sys.stderr)
            return FAILED
        fault = f"{type(error).__name__}: {error}".rstrip(".")
        print(f"{name}: internal error: {fault}. {TRACEBACK}=1 prints a traceback; please report it.", file=sys.stderr)
        return FAILED


def _exit_code(command: Command, words: Sequence[str]) -> int:
    """Exit code of the command. Raises Failure, also for an invalid command line."""
    import typer
    from typer.exceptions import TyperException

    if (empty := command.empty_word(words)) is not None and command.verb_of(words) != "fairlead search":
        message = f"{empty} is empty, perhaps because a shell variable is not set: give a value or leave it out"
        raise Failure(message, code=USAGE_ERROR)
    try:
        with command.group.make_context("fairlead", list(words)) as context:
            command.group.invoke(context)
        return 0
    except typer.Exit as exit_:
        return exit_.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except TyperException as error:
        from fairlead_cli.wording import with_advice

        text = " ".join(error.format_message().replace("Value error, ", "").split())
        advice = f"`{command.verb_of(words)} --help` shows its usage."
        has_no_suggestion = text.startswith("No such command") and "Did you mean" not in text
        if has_no_suggestion and (flags := command.flags_named_by(words)):
            advice = f"Did you mean {' or '.join(f'`{flag}`' for flag in flags)}? {advice}"
        option = getattr(error, "option_name", "")
        if command.verb_of(words) == "fairlead call" and option.startswith("--"):
            advice = f"An argument of the tool is written without dashes: {option.lstrip('-')}=VALUE. {advice}"
        raise Failure(with_advice(f"{text[:1].lower()}{text[1:]}", advice), code=USAGE_ERROR) from error
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else FAILED


if __name__ == "__main__":
    main()
