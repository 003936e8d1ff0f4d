"""What a worker does for the handlers that it runs: the other side of a `Context`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from minuet.types import Json

if TYPE_CHECKING:
    from minuet.nodes.agents import AgentServices
    from minuet.nodes.context import Context
    from minuet.nodes.io.client import Client
    from minuet.nodes.io.prices import Prices


class LlmDefaults(NamedTuple):
    """What the worker says about language models. The key is a secret."""

    base_url: str | None
    api_key: str | None
    prices: Prices


class Services(Protocol):
    """What a worker does for the handlers that it runs."""

    def keep_line(self, context: Context, level: str, text: str) -> None:
        """Keep a line that the handler has printed or logged. Called from any thread."""
        ...

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result."""
        ...

    def encode_step(self, context: Context, name: str, value: Any) -> bytes:
        """A step's result as JSON, without secrets. Called where the handler runs: the result is
        the user's object, and reading it may run the user's code."""
        ...

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result; the first one stays."""
        ...

    async def find_wait(self, context: Context) -> Json:
        """The data of the node instance's last wait; None: it has not waited."""
        ...

    def read_secret(self, name: str) -> str:
        """A secret's value; SecretError if there is none."""
        ...

    @property
    def client(self) -> Client:
        """What makes HTTP calls."""
        ...

    @property
    def llm(self) -> LlmDefaults:
        """What nodes that ask language models need not say."""
        ...

    async def write_blob(self, context: Context, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep a content as a blob of the run; its reference and its size."""
        ...

    def read_blob(self, context: Context, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece, verified."""
        ...

    async def run_child(
        self,
        context: Context,
        workflow: str,
        input: Json,
        *,
        resumed: bool,
        timeout_ms: int | None,
    ) -> Any:
        """The output of the node instance's child run, or what to wait for."""
        ...

    @property
    def agents(self) -> AgentServices:
        """What agents need."""
        ...
