"""One call of a language model, by the chat protocol that OpenAI-compatible services speak.

Answers are streamed. So a long answer can be cancelled, and a slow one is not mistaken for one that
does not come: the limit is the silence between two parts, not the length of the answer. A service
that answers in one piece is read as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.errors import ServiceError, ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.io.answers import CUT_BYTES, status_error
from minuet.types import Json

if TYPE_CHECKING:
    from minuet.nodes.io.client import Client
    from minuet.nodes.io.incoming import Answer

#: Longest silence: before the first part, while a model thinks, and between two parts.
SILENCE_S = 120.0

#: Longest line of a stream.
LINE_BYTES_MAX = 4 * 1024 * 1024

#: Calls of tools in one answer.
TOOL_CALLS_MAX = 128

#: Codes of errors that look as if they might pass, and do not.
_LASTING = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a call has used, in tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    #: Those of the prompt that the service had in its cache.
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


class ToolCall(msgspec.Struct):
    """A tool that a model wants to have called."""

    id: str = ""
    name: str = ""
    #: JSON, if the model has done it right.
    arguments: str = ""


class Said(msgspec.Struct):
    """What a model has said."""

    text: str = ""
    refusal: str = ""
    #: What it says about how it came to its answer, if the service tells.
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    #: Why it stopped; "" if it has not.
    finish_reason: str = ""
    #: None: the service does not say.
    usage: Usage | None = None

    def add(self, part: Any) -> None:
        """Take in a part of a stream, or a whole answer."""
        for choice in part.get("choices") or ():
            if choice.get("index"):
                continue
            message = choice.get("delta") or choice.get("message") or {}
            self.text += message.get("content") or ""
            self.refusal += message.get("refusal") or ""
            self.reasoning += message.get("reasoning_content") or message.get("reasoning") or ""
            for place, called in enumerate(message.get("tool_calls") or ()):
                self._add_call(called.get("index", place), called)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if part.get("usage"):
            self.usage = _read_usage(part["usage"])

    def _add_call(self, index: int, called: Any) -> None:
        """Take in a part of a call: its name and its id come once, its arguments in parts."""
        if not 0 <= index < TOOL_CALLS_MAX:
            raise TypeError(f"call {index} of a tool")
        while len(self.tool_calls) <= index:
            self.tool_calls.append(ToolCall())
        known, function = self.tool_calls[index], called.get("function") or {}
        known.id = known.id or called.get("id") or ""
        known.name = known.name or function.get("name") or ""
        known.arguments += function.get("arguments") or ""

    @property
    def size(self) -> int:
        """How much it has said, in characters."""
        calls = sum(len(one.name) + len(one.arguments) for one in self.tool_calls)
        return len(self.text) + len(self.refusal) + len(self.reasoning) + calls


async def ask(
    client: Client, url: str, api_key: str | None, body: dict[str, Json], bytes_max: int
) -> Said:
    """Ask a model, and wait for all that it says.

    ServiceUnavailableError and ServiceRefusedError as of any call; also if the model refuses, or a
    filter does.
    """
    from minuet.nodes.io.client import Request

    headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    content = msgspec.json.encode(
        {**body, "stream": True, "stream_options": {"include_usage": True}}
    )
    request = Request(method="POST", url=url, headers=headers, content=content, silence_s=SILENCE_S)
    async with client.send(request) as answer:
        if answer.status != 200:
            raise _error_of(answer, await answer.read_start(CUT_BYTES * 10))
        said = Said()
        try:
            async for part in _parts(answer, bytes_max):
                if isinstance(part.get("error"), dict):
                    raise _stream_error(answer, part["error"])
                said.add(part)
                if said.size > bytes_max:
                    raise _too_large(answer)
        except (AttributeError, TypeError) as error:
            # Valid JSON of another shape.
            raise _not_the_protocol(answer, str(error)) from None
    _check_end(said, answer)
    return said


async def _parts(answer: Answer, bytes_max: int) -> AsyncIterator[Any]:
    """The parts of a stream, or the one part of an answer that is not streamed."""
    kind = answer.header("content-type").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        yield _decode(answer, await answer.read(bytes_max))
        return
    async for data in _events(answer, bytes_max):
        if data == b"[DONE]":
            return
        yield _decode(answer, data)


async def _events(answer: Answer, bytes_max: int) -> AsyncIterator[bytes]:
    """The data of server-sent events."""
    rest, size = b"", 0
    async for chunk in answer.chunks():
        size += len(chunk)
        rest += chunk
        # A stream says little with many bytes: a part has some hundred for each token.
        if size > 100 * bytes_max or len(rest) > LINE_BYTES_MAX:
            raise _too_large(answer)
        *lines, rest = rest.split(b"\n")
        for line in lines:
            # Each event of this protocol is one line; comments keep the connection open.
            if line.startswith(b"data:"):
                yield line[5:].strip()
    if rest.startswith(b"data:"):
        yield rest[5:].strip()


def _decode(answer: Answer, data: bytes) -> Any:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_the_protocol(answer, str(error)) from None


def _too_large(answer: Answer) -> ServiceError:
    return ServiceRefusedError(
        f"the answer of {answer.url} is too large",
        code="answer-too-large",
        details={"url": answer.url, "status": answer.status},
    )


def _not_the_protocol(answer: Answer, why: str) -> ServiceError:
    return ServiceUnavailableError(
        f"the answer of {answer.url} is not that of a chat service: {why}",
        code="invalid-answer",
        details={"url": answer.url, "status": answer.status},
    )


def _read_usage(usage: Any) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    return Usage(
        prompt_tokens=int(prompt),
        completion_tokens=int(completion),
        total_tokens=int(usage.get("total_tokens") or prompt + completion),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )


def _error_of(answer: Answer, body: bytes) -> ServiceError:
    """The error of a status, with what the service says about it."""
    text = body.decode("utf-8", "replace")
    try:
        found = msgspec.json.decode(body, type=dict[str, Any]).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    said = found if isinstance(found, dict) else {"message": found}
    message = said.get("message")
    error = status_error(answer, text, message[:500] if isinstance(message, str) else "")
    if said.get("code") in _LASTING:
        return ServiceRefusedError(str(error), code=error.code, details=error.details)
    return error


def _stream_error(answer: Answer, found: dict[str, Any]) -> ServiceError:
    """An error that came instead of the rest: the service has begun, so it may pass."""
    return ServiceUnavailableError(
        f"{answer.url} broke off: {str(found.get('message') or found)[:500]}",
        code="service-failed",
        details={"url": answer.url, "status": answer.status},
    )


def _check_end(said: Said, answer: Answer) -> None:
    details: dict[str, Any] = {"url": answer.url}
    if said.usage is not None:
        details["usage"] = msgspec.to_builtins(said.usage)
    if said.refusal:
        raise ServiceRefusedError(
            f"the model refuses: {said.refusal[:1000]}", code="llm-refused", details=details
        )
    if said.finish_reason == "content_filter":
        raise ServiceRefusedError(
            "the service's content filter stopped the answer",
            code="llm-content-filter",
            details=details,
        )
    if not said.finish_reason:
        raise ServiceUnavailableError(
            f"the answer of {answer.url} ends too early", code="answer-cut", details=details
        )
