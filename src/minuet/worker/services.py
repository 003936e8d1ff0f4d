"""What a worker does for the handlers that it runs: their steps, secrets, calls and blobs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any

import msgspec

from minuet.bridge.history import HistoryReader
from minuet.bridge.values import encode, encode_value
from minuet.errors import LeaseLost, SecretError, StoreUnavailableError
from minuet.events import NodeWaiting
from minuet.nodes.agents import AgentServices
from minuet.nodes.context import Context
from minuet.nodes.io.client import Client
from minuet.nodes.io.prices import Prices
from minuet.nodes.masking import MASKED, NO_MASK, Mask
from minuet.nodes.secrets import EnvironmentSecrets, NoSecret, NoSecrets, SecretProvider
from minuet.nodes.services import LlmDefaults
from minuet.nodes.spec import Wait
from minuet.store.base import Store
from minuet.store.exchange import NewStep
from minuet.store.large import write_content
from minuet.types import Json
from minuet.worker.children import Children
from minuet.worker.contents import read_of_family
from minuet.worker.log_keeping import LogKeeper
from minuet.worker.recording import StepRecorder

_log = logging.getLogger("minuet.worker")


class WorkerServices:
    """What contexts ask of one worker (`nodes.services.Services`)."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        secrets: SecretProvider,
        client: Client,
        children: Children,
        prices: Prices,
        recorder: StepRecorder,
        log_keeper: LogKeeper,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._secrets = secrets
        self.client = client
        self._prices = prices
        self._children = children
        self._recorder = recorder
        self._agents: AgentServices | None = None
        #: Keeps a line that a handler has printed or logged.
        self.keep_line = log_keeper.add

    @property
    def agents(self) -> AgentServices:
        """What agents need."""
        assert self._agents is not None
        return self._agents

    def serve_agents(self, agents: AgentServices) -> None:
        """Have agents served: by what needs these services itself."""
        self._agents = agents

    async def run_child(
        self,
        context: Context,
        workflow: str,
        input: Json,
        *,
        resumed: bool,
        timeout_ms: int | None,
    ) -> Json | Wait:
        """The output of the node instance's child run, or what to wait for."""
        with outage_of(context):
            return await self._children.run(
                context, workflow, input, resumed=resumed, timeout_ms=timeout_ms
            )

    async def load_step(self, context: Context, name: str) -> tuple[bool, Json]:
        """Whether a step has a result, and the result."""
        key = (context.run_id, context.token_node, context.scope_text)
        with outage_of(context):
            known = (await self._store.read_steps(self._tenant, key)).get(context.mask(name))
        return (False, None) if known is None else (True, msgspec.json.decode(known))

    def encode_step(self, context: Context, name: str, value: Any) -> bytes:
        """A step's result as JSON, without secrets."""
        return encode_step(context, name, value)

    async def keep_step(self, context: Context, name: str, data: bytes) -> Json:
        """Keep a step's result under the handler's lease."""
        key = (context.run_id, context.token_node, context.scope_text)
        step = NewStep(*key, context.lease_id, context.mask(name), data)
        with outage_of(context):
            (kept,) = await self._recorder.record([step])
        if not isinstance(kept, bytes):
            context.cancel()
            raise LeaseLost(f"step {name!r}: the node is no longer ours")
        return msgspec.json.decode(kept)

    async def find_wait(self, context: Context) -> Json:
        """The data of the node instance's last wait; None: it has not waited."""
        place = (context.token_node, context.scope_text)
        with outage_of(context):
            history = await HistoryReader(self._store, self._tenant).history(context.run_id)
        for _, _, event in reversed(history):
            if isinstance(event, NodeWaiting) and (event.node, event.scope) == place:
                return msgspec.json.decode(event.data)
        return None

    @property
    def llm(self) -> LlmDefaults:
        """The service and its key come from where secrets come from: from the same place, so that
        a key never goes to a service that it was not meant for."""
        return LlmDefaults(
            self._read_optional("OPENAI_BASE_URL"),
            self._read_optional("OPENAI_API_KEY"),
            self._prices,
        )

    def _read_optional(self, name: str) -> str | None:
        # These are settings. Which variables documents may read does not matter for them.
        is_ours = isinstance(self._secrets, EnvironmentSecrets | NoSecrets)
        try:
            value = _read_secret(EnvironmentSecrets() if is_ours else self._secrets, name)
            return value.strip() or None
        except SecretError:
            return None

    def read_secret(self, name: str) -> str:
        """A secret's value; SecretError if there is none."""
        return _read_secret(self._secrets, name)

    async def write_blob(self, context: Context, pieces: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep a content as a blob of the run; its reference and its size."""

        async def wanted() -> AsyncIterator[bytes]:
            async for piece in pieces:
                context.heartbeat()
                yield piece

        with outage_of(context):
            return await write_content(
                self._store, wanted(), run=context.run_id, tenant=self._tenant
            )

    async def read_blob(self, context: Context, ref: str) -> AsyncIterator[bytes]:
        """The bytes of a blob of the run or of a run above it, or of one that belongs to none."""
        with outage_of(context):
            async for piece in read_of_family(self._store, self._tenant, context.run_id, ref):
                context.heartbeat()
                yield piece


def _read_secret(provider: SecretProvider, name: str) -> str:
    kind = type(provider).__name__
    try:
        # A provider is the user's object and may return a value of another type.
        value: Any = provider.get(name)
    except NoSecret as error:
        raise SecretError(f"the secret {name!r} is not here: {error}") from None
    except LookupError:
        # Its text may name other secrets.
        value = None
    if value is None:
        raise SecretError(f"the secret {name!r} is not here: {kind} does not have it")
    if not isinstance(value, str):
        raise SecretError(
            f"{kind} returned {type(value).__name__} for the secret {name!r}; a secret is a str"
        )
    return value


def encode_step(context: Context, name: str, value: Any) -> bytes:
    """A step's result as JSON, without secrets."""
    if context.mask is NO_MASK:
        return encode_value(value)
    return mask_output(context.mask, *encode(value), f"step {name!r} of {context}")[0]


def mask_output(mask: Mask, data: bytes, value: Json, what: str) -> tuple[bytes, Json]:
    """What a handler returned, encoded and as a value, without the secrets that it may read."""
    masked = mask.data(data, value)
    if masked is value:
        return data, value
    _log.warning("%s contained a secret, which was replaced by %s", mask(what), MASKED)
    return encode_value(masked), masked


@contextlib.contextmanager
def outage_of(context: Context) -> Iterator[None]:
    """Remember an outage of the worker's own store, which the handler gets to see as well."""
    try:
        yield
    except StoreUnavailableError as error:
        context.outage = error
        raise
