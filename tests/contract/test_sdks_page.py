"""The page of tested SDKs and frameworks has the clients and versions of the nightly test."""

from __future__ import annotations

import re

from client_environments import PROGRAMS, VERSIONS
from controlplane import REPOSITORY
from framework_tasks import FAILS_ALONE, FRAMEWORKS, page_rows

HEAD = "| client | its word for the API |"


def test_the_table_of_clients_has_the_pinned_versions_and_the_outcomes_of_the_test() -> None:
    lines = (REPOSITORY / "docs/connect/sdks.md").read_text().splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith(HEAD)) + 2
    table = lines[begin : lines.index("", begin)]
    assert table == page_rows()


def test_each_client_of_a_task_has_a_program_and_pins() -> None:
    programs = {file.name.rpartition("_client.")[0] for file in PROGRAMS.iterdir() if "_client." in file.name}
    assert FRAMEWORKS.keys() <= programs
    assert FRAMEWORKS.keys() <= VERSIONS.keys()
    assert {name for name, _ in FAILS_ALONE} <= FRAMEWORKS.keys()


def test_each_pin_is_one_version() -> None:
    for name, pins in VERSIONS.items():
        packages = [pin for each in pins.values() for pin in each]
        assert packages, name
        assert [pin for pin in packages if not re.search(r"[\w\]](==|@)\d[\w.]*$", pin)] == [], name
