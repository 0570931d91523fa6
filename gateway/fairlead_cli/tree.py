"""The command line as a tree of commands, with the features that all commands have in common.

A command that prints a result declares `output: OutputOption`; this module adds `--json` to these commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from fairlead_cli.output import Output

HELP = "Print JSON, for programs."
MAX_FLAGS: Final = 2
"""Maximum number of commands that are suggested for a word that is not a command but the name of their flag."""


@dataclass(frozen=True)
class Command:
    """The complete command line, as the group of all commands."""

    group: TyperGroup

    def verb_of(self, words: Sequence[str]) -> str:
        """The command that the words name, such as `fairlead keys create`."""
        return self._parse(words)[0]

    def flags_named_by(self, words: Sequence[str]) -> list[str]:
        """Commands with a flag that is named like the first word that is not a command, such as `fairlead client setup
        CLIENT --undo` for `client undo`. Empty if that word is a command, or if more than `MAX_FLAGS` commands have the
        flag.
        """
        name, group, rest = self._parse(words)
        if group is None or not rest:
            return []
        flag = f"--{rest[0]}"
        commands = [
            " ".join([name, verb, *_required_arguments(command), flag])
            for verb, command in _verbs(group, "")
            if any(flag in param.opts for param in command.params if isinstance(param, TyperOption) and param.is_flag)
        ]
        return commands if len(commands) <= MAX_FLAGS else []

    def empty_word(self, words: Sequence[str]) -> str | None:
        """The option whose value is empty on a command line, or `an argument`; None if no word is empty. Words after
        `--` belong to another program.
        """
        previous_word = ""
        for word in words:
            if word == "--":
                return None
            if not word:
                return previous_word if self._takes_value(previous_word) else "an argument"
            option, sign, value = word.partition("=")
            if sign and not value and self._takes_value(option):
                return option
            previous_word = word
        return None

    def _takes_value(self, name: str) -> bool:
        """Whether any verb has an option of this name that is not a flag."""
        return any(
            isinstance(param, TyperOption) and not param.is_flag and name in param.opts
            for _, verb in self.verbs()
            for param in verb.params
        )

    def verbs(self) -> Iterator[tuple[str, TyperCommand]]:
        """Every executable command by its words, such as `keys create`."""
        yield from _verbs(self.group, "")

    def _parse(self, words: Sequence[str]) -> tuple[str, TyperGroup | None, list[str]]:
        """The command that the words name; its group, None if it is executable; the words after it, without options."""
        command_words, group = ["fairlead"], self.group
        rest = [word for word in words if not word.startswith("-")]
        while rest:
            command = group.commands.get(rest[0])
            if command is None:
                break
            command_words.append(rest.pop(0))
            if not isinstance(command, TyperGroup):
                return " ".join(command_words), None, rest
            group = command
        return " ".join(command_words), group, rest

    def main(self, **options: Any) -> None:
        """Answer a shell's request for completions, and end the process."""
        from typer._completion_classes import completion_init  # registers typer's supported shells

        completion_init()
        self.group.main(**options)


def tree() -> Command:
    """Build the command line."""
    from fairlead_cli.app import app

    group = get_command(app)
    assert isinstance(group, TyperGroup)
    command = Command(group)
    flag = _flag()
    for _, verb in command.verbs():
        _add_json_flag(verb, flag)
    for subcommand in _commands(group):
        subcommand.short_help = _first_sentence(subcommand.help)  # typer would truncate it to one line
    return command


def _commands(group: TyperGroup) -> Iterator[TyperCommand | TyperGroup]:
    for command in group.commands.values():
        if isinstance(command, TyperCommand | TyperGroup):
            yield command
        if isinstance(command, TyperGroup):
            yield from _commands(command)


def _first_sentence(text: str | None) -> str:
    first, end, _ = " ".join((text or "").split("\n\n")[0].split()).partition(". ")
    return first + "." if end else first


def _required_arguments(command: TyperCommand) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, TyperArgument) and param.required:
            yield param.metavar or str(param.name).upper()


def _verbs(group: TyperGroup, prefix: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _verbs(command, f"{prefix}{name} ")
        elif isinstance(command, TyperCommand):
            yield f"{prefix}{name}", command


def _add_json_flag(verb: TyperCommand, flag: TyperOption) -> None:
    """Add `--json` to a command that has `--output`, and hide `--output` in its help."""
    index = next((at for at, param in enumerate(verb.params) if param.name == "output"), None)
    if index is None or verb.callback is None:
        return
    output_option = verb.params[index]
    assert isinstance(output_option, TyperOption)
    output_option.hidden = True
    verb.params.insert(index, flag)
    verb.callback = _set_output(verb.callback)


def _set_output(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_with_output(*, json: bool = False, **params: Any) -> Any:
        return run(**params | ({"output": Output.json} if json else {}))

    return run_with_output


def _flag() -> TyperOption:
    """The option `--json`, which all commands share. typer has no public function that creates an option, so the option
    is taken from a command that is made for this purpose.
    """
    app = typer.Typer(add_completion=False)

    @app.command()
    def verb(json: Annotated[bool, typer.Option("--json", help=HELP)] = False) -> None: ...

    return next(param for param in get_command(app).params if isinstance(param, TyperOption) and param.name == "json")
