"""A language model for `triage.yaml`, played by a few rules on this machine.

    python examples/agent/model.py

It speaks the chat protocol of OpenAI, as real services do.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 200, "completion_tokens": 20, "total_tokens": 220}


def say(asked: dict[str, Any]) -> dict[str, Any]:
    """The next message of the model."""
    last = asked["messages"][-1]
    if "tools" not in asked:
        # Where to go: everything is in one message.
        known = json.loads(last["content"])
        chosen = "refund" if "lost" in known["output"] else "answer"
        decision = {"next_nodes": [chosen], "reasoning": known["output"], "confidence": 0.9}
        return {"content": json.dumps(decision)}
    if last["role"] == "user":
        text = last["content"].partition("writes: ")[2].partition("\n")[0]
        customer = last["content"].partition("(")[2].partition(")")[0]
        calls = [("find_orders", {"customer": customer}), ("search_help", {"words": text})]
        return {
            "content": None,
            "tool_calls": [
                {
                    "id": f"call-{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for number, (name, arguments) in enumerate(calls)
            ],
        }
    orders, helped = (json.loads(one["content"]) for one in asked["messages"][-2:])
    states = ", ".join(f"order {one['order']} is {one['state']}" for one in orders)
    return {"content": f"{states or 'no orders'}; help: {' '.join(helped) or 'nothing'}"}


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = say(asked)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"message": message, "finish_reason": reason}
        data = json.dumps({"choices": [choice], "usage": USAGE}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
