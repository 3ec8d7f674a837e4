"""The plugin of the conformance run in Python: main.js and main.rs do the same."""

import base64
import json
import sys
import threading
import time

lock = threading.Lock()
noting = threading.Lock()
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


def get(key):
    return ask("state/get", {"key": key})["value"]


def put(key, value):
    ask("state/set", {"key": key, "value": value})


def show(state):
    send({"method": "plugin/state", "params": state})


def hold(words):
    """Words that begin so are held up the first time, until whoever waits for them is killed."""
    if words.startswith("hold ") and get(words) is None:
        put(words, True)
        show({"holding": words})
        time.sleep(50)


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name, args):
    if name in ("echo", "act"):
        hold(args.get("words", ""))
        time.sleep(args.get("ms", 0) / 1000)
        return text("echo %s with %s" % (args.get("words"), config.get("tools", {}).get("word", "-")))
    if name == "keep":
        put("kept", args["words"])
        return text("kept")
    if name == "kept":
        return text("kept: %s" % get("kept"))
    if name == "image":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]}
    return {**text("it failed on purpose"), "isError": True}


def reword(words, old, new):
    if "rudely" in words:
        return {"decision": "deny", "reason": "not so"}
    if old in words:
        return {"decision": "rewrite", "payload": {"text": words.replace(old, new)}}
    return {"decision": "pass"}


def hook(event, payload):
    if event == "message.inbound":
        return reword(payload["text"], "loudly", "quietly")
    if event == "message.outbound":
        return reword(payload["text"], "quietly", "softly")
    hold(payload["args"].get("content", ""))
    mode = config.get("hooks", {}).get("mode", "pass")
    if mode == "deny":
        return {"decision": "deny", "reason": "not on a Tuesday"}
    if mode == "rewrite":
        return {"decision": "rewrite", "payload": {"args": {**payload["args"], "content": "rewritten"}}}
    return {"decision": mode}


def deliver(content):
    hold(content)
    with noting:
        sent = sorted([*(get("sent") or []), content])
        put("sent", sent)
        show({"sent": sent})
    return {"status": "delivered"}


def webhook(body):
    told = json.loads(base64.b64decode(body))
    name = told["event_id"]
    message = {"event_id": name, "conversation": name, "sender": {"id": "ann"}, "text": told["text"]}
    return {"status": 200, "body": json.dumps(ask("channel/inbound", message))}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": {},
                "experimental": {"hivewright": {"version": 1, "provides": ["tools", "hooks", "channel"]}},
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
        return hook(params["event"], params["payload"])
    if method == "channel/send":
        return deliver(params["content"])
    if method == "channel/webhook":
        return webhook(params["body_base64"])
    if method == "setup/begin":
        fields = [{"key": "secret", "label": "Secret", "type": "password"}]
        return {"state": {"kind": "awaiting_user_input", "fields": fields}}
    if method == "setup/submit":
        return {"state": {"kind": "done", "config": {"secret": params["values"]["secret"]}}}
    return {}


def reply(message):
    send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})


for line in sys.stdin:
    told = json.loads(line)
    if "method" not in told:
        waiting[told["id"]].answer = told.get("result")
        waiting[told["id"]].set()
    elif told["method"] == "plugin/start":
        reply(told)
    elif "id" in told:
        threading.Thread(target=reply, args=(told,), daemon=True).start()
