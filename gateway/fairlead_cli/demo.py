"""A small MCP server to try Fairlead with: `python -m fairlead_cli.demo` speaks stdio, with `--port N` HTTP at /mcp.

The quick start of `fairlead up` runs it as a child process. It only needs the `mcp` package, so that its image is
small. Its four tools take 5 ms, 300 ms, 1 s and 3 s, so that each latency tier shows a different set of them. The same
arguments give the same results, and nothing is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import zlib
from typing import TYPE_CHECKING, Annotated, Final

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from starlette.applications import Starlette

ANYWHERE: Final = "0.0.0.0"
"""Address that makes the SDK accept requests for any host name."""

HARMLESS: Final = ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
)

Item = Annotated[str, Field(description="Name of an item in the store room, for example: rope", min_length=1)]


class Stock(BaseModel):
    """How much of an item is there."""

    item: str
    pieces: int


class Orders(BaseModel):
    """Open orders, largest first."""

    customer: str
    pieces: list[int]


class Offer(BaseModel):
    """Offer of a supplier."""

    item: str
    cents: int
    days: int


class Forecast(BaseModel):
    """Expected demand, one number per week."""

    item: str
    pieces: list[int]


server: Final = MCPServer("fairlead-demo", instructions="A ship chandler's store room, to try latency tiers on.")


@server.tool(annotations=HARMLESS, title="Stock")
async def get_stock(item: Item) -> Stock:
    """Say how many pieces of an item are in the store room. Takes about 5 ms."""
    await asyncio.sleep(0.005)
    return Stock(item=item, pieces=_number(item) % 500)


@server.tool(annotations=HARMLESS, title="Open orders")
async def search_orders(customer: Annotated[str, Field(description="Name of a customer")], limit: int = 3) -> Orders:
    """List the open orders of a customer. Takes about 300 ms."""
    await asyncio.sleep(0.3)
    numbers = [_number(customer, str(number)) % 90 + 1 for number in range(max(0, min(limit, 20)))]
    return Orders(customer=customer, pieces=sorted(numbers, reverse=True))


@server.tool(annotations=HARMLESS, title="Supplier's offer")
async def ask_supplier(item: Item, pieces: int = 1) -> Offer:
    """Ask the supplier for the price of an item and the days until it arrives. Takes about 1 s."""
    await asyncio.sleep(1)
    return Offer(item=item, cents=(_number(item) % 9000 + 100) * pieces, days=_number(item, "days") % 14 + 1)


@server.tool(annotations=HARMLESS, title="Demand forecast", meta={"fairlead.dev/estimated_duration_ms": 3000})
async def forecast_demand(item: Item, weeks: int = 4) -> Forecast:
    """Forecast the demand for an item, week by week. Takes about 3 s."""
    await asyncio.sleep(3)
    return Forecast(item=item, pieces=[_number(item, str(week)) % 120 for week in range(max(0, min(weeks, 52)))])


def _number(*texts: str) -> int:
    return zlib.crc32("\0".join(texts).encode())


def main() -> None:
    """Serve on stdio, or with `--port` over HTTP on every address."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_cli.demo")
    parser.add_argument("--port", type=int, help="serve Streamable HTTP at /mcp on this port")
    parser.add_argument("--sse", action="store_true", help="with --port: serve HTTP+SSE at /sse instead")
    options = parser.parse_args()
    if options.port is None:
        server.run()
    elif options.sse:
        _serve(server.sse_app(host=ANYWHERE), options.port)
    else:
        _serve(server.streamable_http_app(host=ANYWHERE), options.port)


def _serve(application: Starlette, port: int) -> None:
    import uvicorn  # not needed for stdio

    with _listening_socket(port) as listener:
        uvicorn.Server(uvicorn.Config(application, log_level="info")).run(sockets=[listener])


def _listening_socket(port: int) -> socket.socket:
    """Socket for clients over IPv6 and IPv4; uvicorn's own socket for `::` does not accept IPv4."""
    is_dual_stack = socket.has_dualstack_ipv6()
    family, address = (socket.AF_INET6, "::") if is_dual_stack else (socket.AF_INET, ANYWHERE)
    try:
        listener = socket.create_server((address, port), family=family, dualstack_ipv6=is_dual_stack)
    except OSError as error:
        sys.exit(f"python -m fairlead_cli.demo: cannot listen on port {port}: {error.strerror}. Give another --port")
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


if __name__ == "__main__":
    main()
