"""`play` and `aplay`: a workflow from start to end, at once, with stubs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, TypedDict, Unpack

from minuet.app.app import App
from minuet.app.compiling import is_name, read_source
from minuet.app.options import OptionArguments
from minuet.app.portal import refuse_loop
from minuet.clock import ManualClock
from minuet.errors import InputError
from minuet.ids import Ids, SeededIds
from minuet.nodes.secrets import SecretProvider
from minuet.testing.decisions import Decision, GivenDecisions
from minuet.testing.played import Played, read_played
from minuet.testing.stage import GivenSignals, PlayStore, Signals, Stage
from minuet.testing.stubs import Failure, Spot, Stubs, spots_of

#: Real seconds that a play may take.
TIMEOUT_S = 30.0

#: Virtual time may pass the worker's heartbeats by years; it is never dead.
_NEVER_S = 1_000_000_000.0


class PlayArguments(TypedDict, total=False):
    """What a play can be given besides the workflow and its input; `play` says what each means."""

    handlers: Mapping[str, Any] | None
    decisions: Mapping[str, Decision] | None
    signals: Mapping[str, Any] | None
    fail: Mapping[str, Failure | Sequence[Failure]] | None
    workflows: Iterable[Any]
    modules: Iterable[str | ModuleType]
    secrets: Mapping[str, str] | SecretProvider | None
    tags: dict[str, Any] | None
    now: datetime | None
    concurrency: int
    timeout: float
    options: OptionArguments | None


class GivenSecrets:
    """Secrets that a test gives."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        """The value; LookupError if it was not given."""
        return self._values[name]


async def aplay(
    workflow: Any,
    input: Any = None,
    *,
    handlers: Mapping[str, Any] | None = None,
    decisions: Mapping[str, Decision] | None = None,
    signals: Mapping[str, Any] | None = None,
    fail: Mapping[str, Failure | Sequence[Failure]] | None = None,
    workflows: Iterable[Any] = (),
    modules: Iterable[str | ModuleType] = (),
    secrets: Mapping[str, str] | SecretProvider | None = None,
    tags: dict[str, Any] | None = None,
    now: datetime | None = None,
    concurrency: int = 1,
    timeout: float = TIMEOUT_S,
    options: OptionArguments | None = None,
) -> Played:
    """Run a workflow to its end at once, on the real engine with a store in memory, and return how
    it ended. A run that fails is returned too; PlayError if it would wait forever.

    `workflow` is a `Workflow`, a dict, a path or the text of a document. `workflows` are those that
    it starts as child runs.

    `handlers` replaces what nodes call, by a function or by the value to return. A key is a node's
    id, the name of a handler or a node type, and stands for all nodes that it names; a node's id
    wins over its handler, and its handler over its type. Functions get the node's config by name,
    as handlers do. Handlers without a stub are called as in any run; `modules` are modules that
    documents name as `module:function`.

    `fail` maps nodes, or instances such as `price[1]`, to what they raise: an exception, its class
    or a message. With a list, the first attempts raise its entries, and the next one goes on.

    `signals` maps names to data. A node that waits for a signal receives it at once. With a list,
    each wait takes the next entry; without one, all waits receive the same. `decisions` maps human
    nodes to what is decided: "approve", "reject", a dict with `decision`, `comments`, `data` and
    `by`, or a function of the approval that returns one of these. With a list, each approval of the
    node takes the next entry. `approve` is the node of a durable function's `ctx.approve`.

    Waits and the delays of retries are skipped: the clock begins at `now`, and is set to the next
    moment at which something is due. What a handler itself waits for is not skipped. `timeout` is
    in seconds of real time.

    Handlers run one at a time, so the path is the same each time; `concurrency` lets more of them
    run at once. `secrets` are a mapping or a provider. `options` are other options of the App, such
    as `capabilities` for nodes with placement constraints.
    """
    document, *children = documents = [_read(one) for one in (workflow, *workflows)]
    play = Play(
        GivenSignals(signals or {}),
        decisions=decisions,
        modules=modules,
        secrets=secrets,
        now=now,
        concurrency=concurrency,
        options=options,
    )
    play.replace(spots_of(documents), handlers or {}, fail or {}, decisions or {})
    async with play.app as app:
        for child in children:
            await app.workflows.deploy(child)
        return await play.run(document, input, tags, timeout)


def play(workflow: Any, input: Any = None, **arguments: Unpack[PlayArguments]) -> Played:
    """As `aplay`, for tests that do not use asyncio. It takes the same arguments."""
    refuse_loop("play(…)", "await aplay(…)")
    return asyncio.run(aplay(workflow, input, **arguments))


class Play:
    """The real engine on a stage of its own."""

    def __init__(
        self,
        signals: Signals,
        *,
        decisions: Mapping[str, Decision] | None = None,
        modules: Iterable[str | ModuleType] = (),
        secrets: Mapping[str, str] | SecretProvider | None = None,
        now: datetime | None = None,
        concurrency: int = 1,
        ids: Ids | None = None,
        options: OptionArguments | None = None,
    ) -> None:
        clock = ManualClock(int((now or datetime.now(UTC)).timestamp() * 1000))
        self.store = PlayStore(clock)
        chosen: OptionArguments = {
            "handlers": modules,
            "secrets": GivenSecrets(secrets) if isinstance(secrets, Mapping) else secrets,
            "egress_private": True,
            "concurrency": concurrency,
            "drain_seconds": 0,
            "stale_seconds": _NEVER_S,
            "dead_seconds": _NEVER_S,
            **(options or {}),
        }
        # The same ids each time, so that idempotency keys are the same too.
        self.app = App(self.store, clock=clock, ids=ids or SeededIds(), **chosen)
        self.app.handlers.skips_delays = True
        self.app.handlers.isolates = False
        self._stage = Stage(self.app, self.store, clock, signals, GivenDecisions(decisions or {}))

    def replace(
        self,
        spots: Sequence[Spot],
        handlers: Mapping[str, Any],
        fail: Mapping[str, Failure | Sequence[Failure]],
        decisions: Mapping[str, Decision],
    ) -> None:
        """Have stand-ins called at these spots."""
        Stubs(spots, self.app.handlers).put(handlers, fail, decisions)

    async def run(
        self, workflow: Any, input: Any, tags: dict[str, Any] | None, timeout: float
    ) -> Played:
        """Start a run while the App is open, and play it to its end."""
        run = await self.app.start(workflow, input, tags=tags)
        await self._stage.finish(run.id, timeout)
        return await read_played(self.app, run.id)


def _read(workflow: Any) -> Any:
    if is_name(workflow):
        problem = (
            f"workflow: {workflow!r:.100} is a name, and nothing is deployed in a play: pass the "
            "workflow itself, a path, or the text or the data of a document"
        )
        raise InputError([problem], argument="workflow")
    return read_source(workflow)
