"""Groups of options: dataclasses whose fields become options of a verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from fairlead_cli.optiongroups import expand_groups


@dataclass(frozen=True)
class Address:
    host: Annotated[str, typer.Option(help="Where.")] = "localhost"
    port: Annotated[int, typer.Option(envvar="A_PORT", min=1)] = 80


@dataclass(frozen=True)
class Endpoint(Address):
    names: Annotated[list[str] | None, typer.Option("--name")] = None
    port: Annotated[int, typer.Option(envvar="A_PORT", min=1)] = 443


app = typer.Typer()


@app.command()
@expand_groups
def ask(
    word: Annotated[str, typer.Argument()],
    where: Endpoint = Endpoint(),
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """Ask somebody."""
    typer.echo(f"{word} {where} {loud}")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["hi"], "hi Endpoint(host='localhost', port=443, names=None) False"),
        (
            ["hi", "--name", "a", "--loud", "--host", "b", "--name", "c"],
            "hi Endpoint(host='b', port=443, names=['a', 'c']) True",
        ),
    ],
)
def test_a_verb_gets_its_option_group_as_one_object(words: list[str], printed: str) -> None:
    outcome = CliRunner().invoke(app, words)
    assert (outcome.output.strip(), outcome.exit_code) == (printed, 0)


def test_options_of_a_group_keep_their_environment_bounds_and_help() -> None:
    assert "port=8" in CliRunner().invoke(app, ["hi"], env={"A_PORT": "8"}).output
    assert CliRunner().invoke(app, ["hi", "--port", "0"]).exit_code == 2
    words = CliRunner().invoke(app, ["--help"]).output
    assert "Ask somebody." in words
    assert words.index("--host") < words.index("--port") < words.index("--name") < words.index("--loud")
