"""The services that `services.yaml` calls: prices, offers and a language model, on this machine.

    python examples/services/server.py

The price service fails at the first call, so that there is a retry to see.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PRICES = {"tea": 12, "cup": 7}
failed = False


class Services(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        global failed
        if not failed:
            failed = True
            self.answer(503, {"error": "busy"}, {"Retry-After": "0"})
        else:
            self.answer(200, {"amount": PRICES[self.path.partition("sku=")[2]]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/offers":
            amount = asked["amount"] - (1 if asked["discount"] else 0)
            self.answer(201, {"offer": amount, "key": len(self.headers["Idempotency-Key"])})
        else:
            text = json.dumps({"likes": "love" in asked["messages"][0]["content"]})
            choice = {"message": {"content": text}, "finish_reason": "stop"}
            self.answer(200, {"choices": [choice]})

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        named = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        for name, value in (named | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Services)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
