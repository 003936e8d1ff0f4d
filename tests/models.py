"""A service for language models on the loopback interface: it speaks the chat protocol and says
what a test has it say, with faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from .services import Script, reply

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40},
}


def chunk(text: str | None = None, **fields: Any) -> dict[str, Any]:
    """A part of a stream."""
    delta = {} if text is None else {"content": text}
    delta |= fields.pop("delta", {})
    return {"choices": [{"index": 0, "delta": delta, **fields}]}


def stream(*parts: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """A streamed answer, complete."""
    lines = [
        b": a comment\n\n",
        *(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts),
    ]
    body = b"".join(lines) + end
    return reply(body, kind="text/event-stream; charset=utf-8")


def says(text: str, *, reason: str = "stop", usage: Any = USAGE) -> bytes:
    """An answer that says this, in parts of a few letters."""
    parts = [chunk(text[at : at + 5]) for at in range(0, len(text), 5)]
    return stream(*parts, chunk(finish_reason=reason), {"choices": [], "usage": usage})


def slowly(*parts: Any, gate: asyncio.Event) -> Callable[[asyncio.StreamWriter], Any]:
    """Begin an answer, and go on when the gate opens."""

    async def write(writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(head + b"data: " + json.dumps(parts[0]).encode() + b"\n\n")
        await writer.drain()
        await gate.wait()
        for part in parts[1:]:
            writer.write(b"data: " + json.dumps(part).encode() + b"\n\n")
        await writer.drain()

    return write


def one_after_another(*scripts: Script) -> Callable[[Any], Script]:
    """Answer with these, one for each call; the last one again and again."""
    left = list(scripts)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


def wants(*calls: tuple[str, Any], text: str | None = None, usage: Any = USAGE) -> bytes:
    """An answer that has these tools called: names, and arguments (a text is sent unchanged)."""
    parts = []
    for index, (name, arguments) in enumerate(calls):
        data = arguments if isinstance(arguments, str) else json.dumps(arguments)
        begin = {"index": index, "id": f"call-{index}", "type": "function"}
        parts.append({**begin, "function": {"name": name, "arguments": data[:3]}})
        parts.append({"index": index, "function": {"arguments": data[3:]}})
    return stream(
        chunk(text),
        *(chunk(delta={"tool_calls": [part]}) for part in parts),
        chunk(finish_reason="tool_calls"),
        {"choices": [], "usage": usage},
    )


def chooses(*nodes: str, why: str = "it fits") -> bytes:
    """An answer that chooses these next nodes."""
    return says(json.dumps({"next_nodes": nodes, "reasoning": why, "confidence": 0.9}))
