"""The plugin of the conformance run in Python: main.js and main.rs do the same."""

import json
import sys
import threading
import time

lock = threading.Lock()
config = {}
waiting = {}

SCHEMA = {
    "type": "object",
    "properties": {"words": {"type": "string"}, "ms": {"type": "integer"}},
    "additionalProperties": False,
}


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    done = threading.Event()
    with lock:
        key = "p-%d" % len(waiting)
        waiting[key] = done
    send({"id": key, "method": method, "params": params})
    done.wait(20)
    return done.answer


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name, args):
    if name == "act":
        send({"method": "plugin/state", "params": {"acting": True}})
    if name in ("echo", "act"):
        time.sleep(args.get("ms", 0) / 1000)
        return text("echo %s with %s" % (args.get("words"), config.get("tools", {}).get("word", "-")))
    if name == "keep":
        ask("state/set", {"key": "kept", "value": args["words"]})
        return text("kept")
    if name == "kept":
        return text("kept: %s" % ask("state/get", {"key": "kept"})["value"])
    if name == "image":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]}
    return {**text("it failed on purpose"), "isError": True}


def hook(payload):
    mode = config.get("hooks", {}).get("mode", "pass")
    if mode == "deny":
        return {"decision": "deny", "reason": "not on a Tuesday"}
    if mode == "rewrite":
        return {"decision": "rewrite", "payload": {"args": {**payload["args"], "content": "rewritten"}}}
    return {"decision": mode}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": {},
                "experimental": {"hivewright": {"version": 1, "provides": ["tools", "hooks"]}},
            },
            "serverInfo": {"name": "conformance", "version": "1"},
        }
    if method == "plugin/start":
        config.update(params["config"])
    if method == "tools/list":
        names = ("echo", "act", "keep", "kept", "fail", "image")
        return {"tools": [{"name": name, "description": "Does it.", "inputSchema": SCHEMA} for name in names]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    if method == "hook/fire":
        return hook(params["payload"])
    return {}


def reply(message):
    send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})


for line in sys.stdin:
    told = json.loads(line)
    if "method" not in told:
        waiting[told["id"]].answer = told.get("result")
        waiting[told["id"]].set()
    elif told["method"] == "tools/call":
        threading.Thread(target=reply, args=(told,), daemon=True).start()
    elif "id" in told:
        reply(told)
