"""A channel that does what tests want, well or badly. Its webhook says what; what it sends is written down."""

import base64
import json
import os
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
home = os.environ["HOME"]


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    with lock:
        key = "p-%d" % len(waiting)
        done = waiting[key] = threading.Event()
    done.answer = None
    send({"id": key, "method": method, "params": params})
    done.wait(20)
    return done.answer


def lines(name):
    path = os.path.join(home, name)
    if not os.path.exists(path):
        return []
    with open(path) as found:
        return [json.loads(line) for line in found]


def write(name, row):
    with open(os.path.join(home, name), "a") as found:
        found.write(json.dumps(row) + "\n")
        found.flush()
        os.fsync(found.fileno())


def deliver(message):
    """A network that knows a message by its name, and stumbles over some the first time."""
    name, content = message["delivery_id"], message["content"]
    tries = sum(1 for row in lines("tries") if row["delivery_id"] == name)
    write("tries", message)
    if "hold" in content and tries == 0:
        time.sleep(600)
    if all(row["delivery_id"] != name for row in lines("sent")):
        write("sent", message)
    if "die" in content and tries == 0:
        os._exit(9)
    if "later" in content and tries == 0:
        return {"status": "retry", "after_ms": 200}
    if "never" in content:
        return {"status": "undeliverable", "reason": "nobody lives there"}
    if "rubbish" in content and tries == 0:
        return {"status": "perhaps"}
    return {"status": "delivered", "native_id": "n-" + name[:8]}


def flood(part):
    """Brings messages of many people until there are too many."""
    for number in range(500):
        name = "f%d-%d" % (part, number)
        message = {"event_id": name, "conversation": name, "sender": {"id": name}, "text": "hi"}
        code = ask("channel/inbound", message).get("code", "accepted")
        if code != "not_authorized":
            return write("flood", code)


def webhook(params):
    told = json.loads(base64.b64decode(params["body_base64"]))
    if told["do"] == "inbound":
        return {"status": 200, "body": json.dumps(ask("channel/inbound", told["message"]))}
    if told["do"] == "flood":
        for part in range(8):
            threading.Thread(target=flood, args=(part,), daemon=True).start()
        return {"status": 200}
    if told["do"] == "page":
        return {"status": 200, "headers": {"content-type": "text/html"}, "body": json.dumps(params["headers"])}
    return {"status": 302}


def answer(message):
    method, params, key = message["method"], message.get("params") or {}, message.get("id")
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"experimental": {"hivewright": {"version": 1, "provides": []}}},
            "serverInfo": {"name": "carrier", "version": "1"},
        }
    elif method == "plugin/start":
        write("started", params.get("public_url"))
    elif method == "channel/send":
        result = deliver(params)
    elif method == "channel/webhook":
        result = webhook(params)
    elif method == "setup/begin":
        result = {"state": {"kind": "awaiting_external", "instructions": "Wait.", "poll_interval_ms": 1}}
    elif method == "setup/poll":
        fields = [{"key": "password", "label": "Password", "type": "password"}]
        result = {"state": {"kind": "awaiting_user_input", "fields": fields}}
    elif method == "setup/submit":
        sys.stderr.write("I was told %s\n" % params["values"]["password"])
        sys.stderr.flush()
        # Where everybody could read it.
        result = {"state": {"kind": "done", "config": {"note": "it is " + params["values"]["password"]}}}
    if key is not None:
        send({"id": key, "result": result})


for line in sys.stdin:
    told = json.loads(line)
    if "method" not in told:
        done = waiting.get(told.get("id"))
        if done:
            done.answer = told.get("result", told.get("error"))
            done.set()
    elif told["method"].startswith("channel/"):
        threading.Thread(target=answer, args=(told,), daemon=True).start()
    else:
        answer(told)
