#!/usr/bin/env python3
"""A plugin: JSON-RPC on its standard streams, one object a line. What it prints on stderr is logged."""

import json
import sys

config = {}

TOOLS = [
    {
        "name": "greet",
        "description": "Greets somebody by name.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Who is greeted."}},
            "required": ["name"],
            "additionalProperties": False,
        },
    }
]


def greet(arguments):
    greeting = config.get("tools", {}).get("greeting", "Hello")
    return f"{greeting}, {arguments['name']}!"


def answer(method, params):
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {
                "tools": {},
                "experimental": {"hivewright": {"version": 1, "provides": ["tools"]}},
            },
            "serverInfo": {"name": "{key}", "version": "0.1.0"},
        }
    if method == "plugin/start":
        # The settings of the team, with the values of its secrets: they come only here.
        config.update(params.get("config", {}))
        return {}
    if method in ("plugin/stop", "ping"):
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "greet":
        return {"content": [{"type": "text", "text": greet(params["arguments"])}]}
    raise LookupError(method)


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], message.get("params") or {})
        except LookupError:
            reply["error"] = {"code": -32601, "message": "unknown method"}
        except Exception as error:
            reply["error"] = {"code": -32000, "message": str(error)}
        print(json.dumps(reply), flush=True)
        if message["method"] == "plugin/stop":
            return


if __name__ == "__main__":
    main()
