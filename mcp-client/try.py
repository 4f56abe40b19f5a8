"""The MCP server as the official Python client sees it: `python try.py PROGRAM`, in a project and a home of its own."""

import asyncio
import json
import os
import sys

from mcp import StdioServerParameters
from mcp.client.client import Client


async def answer(session, tool, arguments):
    """How a call ended, and its text."""
    try:
        result = await session.call_tool(tool, arguments)
    except Exception as error:  # An error of the protocol.
        return ["refused", str(error)]
    failed = getattr(result, "is_error", None) or getattr(result, "isError", False)
    return ["failed" if failed else "fine", result.content[0].text]


async def main(program):
    server = StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    # It asks for the newest protocol first, and goes back to the one that is offered.
    async with Client(server) as session:
        tools = await session.list_tools()
        told = {"protocol": session.protocol_version, "tools": [tool.name for tool in tools.tools]}
        for name, tool, arguments in [
            ("recent", "get_recent_context", {"limit": 5}),
            ("found", "search", {"query": "rounding", "type": "observations"}),
            ("huge", "search", {"query": "x" * 2_000_000}),
            ("wrong", "timeline", {"id": ["?"]}),
            ("unknown", "no_such_tool", {}),
            ("after", "context_usage", {}),
        ]:
            told[name] = await answer(session, tool, arguments)
        print(json.dumps(told))


asyncio.run(main(sys.argv[1]))
