"""Run it with: python3 -m unittest"""

import json
import os
import subprocess
import sys
import unittest

MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")


class Greeting(unittest.TestCase):
    def test_somebody_is_greeted_as_the_team_wants_it(self):
        calls = [
            ("initialize", {"protocolVersion": "2025-11-25"}),
            ("plugin/start", {"config": {"tools": {"greeting": "Good morning"}}, "state": {}}),
            ("tools/list", {}),
            ("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}),
            ("plugin/stop", {"reason": "test", "deadline_ms": 1000}),
        ]
        lines = [
            json.dumps({"jsonrpc": "2.0", "id": place, "method": method, "params": params})
            for place, (method, params) in enumerate(calls)
        ]

        ended = subprocess.run(
            [sys.executable, MAIN],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=30,
        )

        results = [json.loads(line)["result"] for line in ended.stdout.splitlines()]
        self.assertEqual(results[2]["tools"][0]["name"], "greet")
        self.assertEqual(results[3]["content"][0]["text"], "Good morning, Ada!")


if __name__ == "__main__":
    unittest.main()
