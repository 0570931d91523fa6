"""The page about tool policies: a real `fairlead up` serves its manifests, and its commands run unchanged."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
import yaml

from commands import fairlead, program_in
from controlplane import REPOSITORY
from fairlead_api.policies.globs import Glob
from fairlead_tools.validation.constraint import Constraint, allowance
from upprocess import fairlead_up
from waiting import until_async

PAGE = (REPOSITORY / "docs" / "configure" / "policies.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


async def run(command: str, folder: Path, url: str) -> str:
    """Output of a shell command in which `fairlead` is this one."""
    program_in(folder)
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f"PATH={folder}:$PATH; export FAIRLEAD_URL={url}; {command}", stdout=PIPE, stderr=PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return (out + err).decode()


@pytest.mark.timeout(180)
async def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    (kind, manifests), (_, start), *rest = BLOCKS
    assert (kind, start) == ("yaml", "fairlead up ./shop\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "policies.yaml").write_text(manifests.replace("python3", sys.executable))
    shown = [(command, text) for (lang, command), (_, text) in itertools.pairwise(rest) if lang == "sh"]
    assert len(shown) == 4
    async with fairlead_up("./shop", cwd=tmp_path) as up:
        await up.ready("default/shop")
        for command, text in shown:
            printed = await run(command, tmp_path, up.url)
            assert all(line in printed for line in text.splitlines()), (command, printed)
        code, _, _ = await fairlead("can", "npc", "call", "shop__get_stock", "--url", up.url, "--group", "players")
        assert code == 0


@pytest.mark.timeout(180)
async def test_a_rule_that_matches_no_tool_is_named_with_file_and_line_until_it_is_corrected(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    manifests = BLOCKS[0][1].replace("python3", sys.executable)
    misspelt = manifests.replace("[ask_supplier]", "[ask_suplier]")
    file.write_text(misspelt)
    async with fairlead_up(file, cwd=tmp_path) as up:
        await up.ready("default/shop")

        async def problems() -> list[str]:
            _, out, _ = await fairlead("servers", "--json", "--url", up.url)
            return [each["message"] for each in json.loads(out).get("fileProblems", ())]

        async def is_named() -> bool:
            return bool(await problems())

        async def is_gone() -> bool:
            return not await problems()

        await until_async("the problem of the misspelt rule", is_named, seconds=20)
        (problem,) = await problems()
        file.write_text(f"{misspelt}  tiers: {{max: quick}}\n")

        async def is_about_the_tier() -> bool:
            return any("LatencyTier quick does not exist" in each for each in await problems())

        await until_async("the problem of the unknown tier", is_about_the_tier, seconds=20)
        (unknown,) = await problems()
        file.write_text(manifests)
        await until_async("the end of the problem", is_gone, seconds=20)
    line = manifests.splitlines().index("metadata: {name: no-suppliers}") - 1
    start = f"{file}:{line}: ToolPolicy no-suppliers: rules that match no tool: rules[0]"
    assert problem.startswith(start), (problem, start)
    assert unknown.endswith("or create the tier."), "nothing of the chart"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data/public/a", True),
        ("/data/public/..a", True),
        ("/data/public/../etc", False),
        ("/data/public/..", False),
        ("/data/publicity", False),
        ("x/data/public/a", False),
        ("/data/public/a/../../../etc/passwd", False),
    ],
)
def test_the_schema_of_the_page_holds_a_path_within_its_folder(path: str, allowed: bool) -> None:
    (text,) = [text for kind, text in BLOCKS if kind == "yaml" and text.startswith("arguments:")]
    schema = yaml.safe_load(text)["arguments"]
    refusal = Constraint([allowance("rule", schema)], quote_rules=True).refusal(b'{"path":"%b"}' % path.encode())
    assert (refusal is None) is allowed


def test_the_globs_of_the_page_mean_what_it_says() -> None:
    assert not Glob("shop__get_stock").matches("get_stock")
    assert Glob("get_*").matches("get_stock")
