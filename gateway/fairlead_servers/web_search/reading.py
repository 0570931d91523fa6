"""Extracts the readable text of a page in a child process, which is killed if the extraction takes too long."""

from __future__ import annotations

import json

from fairlead_mcp.limited_process import WorkFailed
from fairlead_servers.limited_process import ProcessSlot
from fairlead_servers.page import Page
from fairlead_servers.web_search.page_text import PageUnreadable

_WORK = "fairlead_servers.web_search.page_text"


async def extract_in_child(page: Page, slot: ProcessSlot, characters: int, seconds: float) -> tuple[str, str, bool]:
    """Title of a page, its text up to a limit of characters, and whether the text was cut.

    Raises Unreadable, also on timeout: a crafted page of 2 MB can take a minute.
    """
    head = json.dumps(
        {
            "url": page.url,
            "status": page.status,
            "media_type": page.media_type,
            "charset": page.charset,
            "cut": page.cut,
            "characters": characters,
        }
    )
    try:
        answer = json.loads(await slot.run(_WORK, [head.encode(), b"\n", page.body], seconds))
    except WorkFailed as error:
        raise PageUnreadable(f"{page.url[:200]} cannot be read: its reader {error}") from error
    if "unreadable" in answer:
        raise PageUnreadable(answer["unreadable"])
    return answer["title"], answer["text"], answer["cut"]
