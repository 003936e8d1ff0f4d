"""`app.webhooks`: who is sent webhooks, how that goes, and trying it."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import msgspec

from minuet.app.options import Options, to_ms
from minuet.bridge.pages import read_cells
from minuet.clock import Clock
from minuet.errors import ConfigError, SecretError
from minuet.ids import Ids
from minuet.nodes.io.client import Client
from minuet.nodes.secrets import EnvironmentSecrets, NoSecrets, SecretProvider
from minuet.store.base import Store
from minuet.webhooks.notifier import Notifier
from minuet.webhooks.outbox import (
    GONE,
    OUT,
    RECEIVER,
    Queued,
    Standing,
    read_queued,
    read_standing,
)
from minuet.webhooks.receivers import Receiver, read_receivers
from minuet.webhooks.sending import NotAccepted, Sender, post_with


class WebhookReceiver(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of webhooks, and how it does."""

    name: str
    #: None: it is not one of the receivers of this process, but there are webhooks for it.
    url: str | None
    events: tuple[str, ...]
    #: Webhooks that it has not accepted yet, when the oldest of them happened, and those that were
    #: given up.
    waiting: int
    oldest_ms: int | None
    given_up: int
    #: Failed attempts since it last accepted one; what the last one met, and when the next is due.
    failures: int
    error: str
    due_ms: int | None
    sent_ms: int | None


class Webhooks:
    """The webhooks of a store."""

    def __init__(self, store: Store, options: Options, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._options = options
        self._clock, self._ids = clock, ids
        self.receivers = read_receivers(options.webhooks)
        self._client: Client | None = None

    def make_notifier(self) -> Notifier | None:
        """What sends them; None: there are no receivers."""
        if not self.receivers:
            return None
        read = _secret_reader(self._options.secrets)
        for receiver in self.receivers:
            try:
                read(receiver.secret)
            except SecretError as error:
                raise ConfigError(
                    f"the webhooks of {receiver.name} cannot be signed: {error}"
                ) from None
        return Notifier(
            self._store,
            self.receivers,
            self._sender(),
            clock=self._clock,
            ids=self._ids,
            public_url=self._options.public_url,
            give_up_ms=to_ms(self._options.webhook_give_up_seconds),
        )

    def _sender(self) -> Sender:
        if self._client is None:
            self._client = Client(self._options.egress)
        read = _secret_reader(self._options.secrets)
        return Sender(post_with(self._client), read, self._clock)

    async def close(self) -> None:
        """Close the connections to receivers."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def list(self) -> builtins.list[WebhookReceiver]:
        """All receivers, and how they do."""
        queued: dict[str, list[Queued]] = {}
        async for cell in read_cells(self._store, OUT):
            queued.setdefault(_receiver_of(cell.name, OUT), []).append(read_queued(cell.data))
        given_up: dict[str, int] = {}
        async for cell in read_cells(self._store, GONE):
            name = _receiver_of(cell.name, GONE)
            given_up[name] = given_up.get(name, 0) + 1
        standings = {
            cell.name.removeprefix(RECEIVER): read_standing(cell.data)
            async for cell in read_cells(self._store, RECEIVER)
        }
        known = {one.name: one for one in self.receivers}
        names = sorted({*known, *queued, *given_up})
        return [
            _shown(
                name,
                known.get(name),
                queued.get(name, []),
                given_up.get(name, 0),
                standings.get(name, Standing()),
            )
            for name in names
        ]

    async def test(self, name: str) -> str | None:
        """Send a receiver a webhook of the type `test`; why it was not accepted, or None."""
        found = next((one for one in self.receivers if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.receivers) or "none"
            raise ConfigError(f"there is no receiver {name!r} in MINUET_WEBHOOKS, only: {known}")
        now_ms = self._clock.now_ms()
        body = msgspec.json.encode({"type": "test", "data": {}})
        id = f"test.{self._ids.token()}"
        queued = Queued(id=id, tenant="", run="", seq=0, kind="test", at_ms=now_ms, body=body)
        try:
            await self._sender().send(found, queued)
        except NotAccepted as error:
            return str(error)
        return None


def _receiver_of(name: str, folder: str) -> str:
    return name.removeprefix(folder).partition("/")[0]


def _shown(
    name: str,
    receiver: Receiver | None,
    queued: builtins.list[Queued],
    given_up: int,
    standing: Standing,
) -> WebhookReceiver:
    errors = [standing.error, *(one.error for one in queued)]
    return WebhookReceiver(
        name=name,
        url=None if receiver is None else receiver.url,
        events=() if receiver is None else tuple(sorted(receiver.kinds)),
        waiting=len(queued),
        oldest_ms=min((one.at_ms for one in queued), default=None),
        given_up=given_up,
        failures=standing.failures,
        error=next((error for error in errors if error), ""),
        due_ms=standing.due_ms or None,
        sent_ms=standing.sent_ms,
    )


def _secret_reader(secrets: SecretProvider | None) -> Callable[[str], str]:
    """Who gives the secrets of receivers. They are settings: which variables documents may read
    does not matter for them."""
    is_ours = secrets is None or isinstance(secrets, EnvironmentSecrets | NoSecrets)
    provider = EnvironmentSecrets() if is_ours else secrets
    assert provider is not None

    def read(name: str) -> str:
        try:
            value = provider.get(name)
        except LookupError as error:
            raise SecretError(f"the secret {name!r} is not here: {error}") from None
        if not value:
            raise SecretError(f"the secret {name!r} is empty")
        return value

    return read
