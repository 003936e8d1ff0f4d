"""Agents in a world: a model that follows a script, tools, and what must hold for their calls.

The model and the tools are outside: no crash and no rollback takes back what they were asked. What
an agent asks must follow from its journal. So a call whose result was kept is not made again, no
call is made on a result that could be lost, and what the agent has spent is the sum of what was
kept, however often it was taken up again.

Some models answer the same to the same messages; then the run must end as it does without faults.
Others never do, as real ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from minuet.events import Event, NodeCompleted, NodeFailed, StepRecorded, decode_event
from minuet.functions.journal import Entry, decode_entries, is_entry, key_of
from minuet.kernel.fold import NumberedEvent, State
from minuet.kernel.program import Program
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task
from minuet.nodes.io.agent import ASKING, Reply
from minuet.nodes.io.client import Client, Request
from minuet.nodes.io.incoming import Answer
from minuet.nodes.io.prompting import RESULT_LENGTH_MAX, cut
from minuet.simulation.coverage import Coverage
from minuet.simulation.faults import Faults
from minuet.simulation.loop import Process, current_process, die
from minuet.simulation.model import ModelStore
from minuet.simulation.rules import Found
from minuet.simulation.streams import Streams
from minuet.store.records import EventRecord, Key

#: Models: the first one answers the same to the same messages.
STEADY, FICKLE = "steady", "fickle"

#: Tools by name; whether the same arguments give the same result, if nothing fails.
TOOLS = {"look_up": True, "draw": False, "refuse": True, "crash": True}

#: Tokens of a prompt. An answer has a few of its own.
PROMPT_TOKENS = 5

#: The calls of an agent's model or tools that were kept: its journal, without errors.
Kept: TypeAlias = Sequence[Entry]


def draw_document(chance: random.Random, name: str, coverage: Coverage) -> dict[str, Any]:
    """A workflow of one or two agents, and a node that reads what they gave."""
    nodes: list[dict[str, Any]] = []
    for number in range(chance.choice((1, 1, 2))):
        config: dict[str, Any] = {
            "model": chance.choice((STEADY, STEADY, FICKLE)),
            # By this, the service knows who asks.
            "prompt": f"{{{{ run.id }}}} n{number}:",
            "available_tools": chance.sample(sorted(TOOLS), chance.choice((0, 1, 2, 4))),
            "max_turns": chance.choice((2, 4, 10, 10)),
        }
        if chance.random() < 0.4:
            coverage.hit("agent with a budget")
            config["budget"] = {"tokens": chance.choice((6, 15, 30, 200))}
        node: dict[str, Any] = {"id": f"n{number}", "type": "agent", "agent_config": config}
        node["retry"] = {"max_attempts": chance.choice((1, 3, 6)), "backoff_ms": 50}
        if number and chance.random() < 0.5:
            node["dependencies"] = ["n0"]
        if chance.random() < 0.3:
            node["on_error"] = "continue"
        nodes.append(node)
    coverage.hit("construct agent")
    last = {"id": "last", "type": "noop", "dependencies": [node["id"] for node in nodes]}
    return {"name": name, "nodes": [*nodes, last]}


class Agents:
    """The agents of a world, their models and their tools."""

    def __init__(
        self,
        model: ModelStore,
        streams: Streams,
        faults: Callable[[], Faults],
        coverage: Coverage,
        lease_s: float,
        durable: Callable[[str], Sequence[EventRecord] | None],
        holder: Callable[[Key, str], Process | None],
        broken: Callable[[str, str, str], None],
    ) -> None:
        self._model = model
        self._streams = streams
        self._faults = faults
        self._coverage = coverage
        self._lease_s = lease_s
        #: The events of a run that are durable; None: a rollback has lost some.
        self._durable = durable
        #: The process that has got a token under a lease.
        self._holder = holder
        self._broken = broken
        self.client: Client = _Service(self._answer)
        #: How often a model was asked the same.
        self._asked: Counter[str] = Counter()
        #: Starts of tools, by instance and step: their idempotency keys.
        self._starts: dict[tuple[Key, str], list[str]] = {}
        #: Effects at a receiver that deduplicates: idempotency keys.
        self._effects: set[str] = set()

    def add_tools(self, handlers: Handlers) -> None:
        """Have a worker offer the tools."""
        for name in TOOLS:
            handlers.add(Task(getattr(self, name), name=name))

    # ── the model ───────────────────────────────────────────────────────────────────────

    async def _answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A status, and what the model says to these messages."""
        run, node = body["messages"][1]["content"].partition(":")[0].split()
        key = (run, node, "")
        for message in self._asking_rules(key, body["messages"]):
            self._broken("agent", f"{node}: {message}", run)
        # Ids of runs differ between a world and the same one without faults.
        said = msgspec.json.encode(body).replace(run.encode(), b"")
        digest = hashlib.sha256(said).hexdigest()[:12]
        self._asked[f"{run} {digest}"] += 1
        again = self._asked[f"{run} {digest}"]
        chance = self._streams.make(f"model/{run}/{node}/{digest}/{again}")
        await self._take_time(chance)
        if chance.random() < 0.3 * self._faults().of("fail"):
            self._coverage.hit("fault fail")
            self._coverage.hit("agent's model failed")
            return 503, {"error": {"message": "overloaded"}}
        name = digest if body["model"] == STEADY else f"{digest}-{again}"
        return 200, _say(random.Random(name), name, body)

    async def _take_time(self, chance: random.Random) -> None:
        await asyncio.sleep(chance.expovariate(20))
        if chance.random() < 0.3 * self._faults().of("slow"):
            self._coverage.hit("fault slow")
            await asyncio.sleep(self._lease_s * (0.3 + 2.5 * chance.random()))

    def _asking_rules(self, key: Key, messages: list[dict[str, Any]]) -> Iterator[str]:
        """A model is asked what follows from the calls that were kept, and no call again."""
        token = self._model.token(key)
        if token is None or token.state != "leased":
            return
        if self._holder(key, token.lease) is not current_process():
            return  # Its worker has lost the lease, and nothing will come of it.
        kept = self._kept(key)
        if kept is None:
            return
        said = [one for one in messages if one["role"] == "assistant"]
        replies = [reply for _, reply in _replies(kept)]
        if len(replies) > len(said):
            yield f"the model is asked for turn {len(said) + 1} again, and its answer was kept"
        elif [_ids(reply) for reply in replies] != [_said_ids(one) for one in said]:
            yield "the messages have an answer of the model that was not kept"
        shown = Counter(
            one["content"]
            for one in messages
            if one["role"] == "tool" and not one["content"].startswith("error:")
        )
        if shown - Counter(_shown(entry) for entry in _of_tools(kept)):
            yield "the model is shown a result of a tool that was not kept"

    def _kept(self, key: Key) -> Kept | None:
        """What is durable of an agent's journal, without errors."""
        durable = self._durable(key[0])
        if durable is None:
            return None
        return _entries(key, (decode_event(record.data) for record in durable))

    # ── tools ───────────────────────────────────────────────────────────────────────────

    async def look_up(self, ctx: Context, x: int) -> int:
        """Always the same."""
        await self._take_time(self._begin(ctx))
        self._effects.add(ctx.idempotency_key)
        return 2 * x % 1000

    async def draw(self, ctx: Context, x: int) -> int:
        """Another number each time."""
        chance = self._begin(ctx)
        await self._take_time(chance)
        self._effects.add(ctx.idempotency_key)
        return chance.randrange(1000)

    async def refuse(self, ctx: Context, x: int) -> int:
        """Only even numbers."""
        await self._take_time(self._begin(ctx))
        if x % 2:
            raise ValueError("odd")
        self._effects.add(ctx.idempotency_key)
        return x

    async def crash(self, ctx: Context, x: int) -> int:
        """Kills its process now and then, before or after the effect."""
        chance = self._begin(ctx)
        await self._take_time(chance)
        if chance.random() < 0.5:
            self._effects.add(ctx.idempotency_key)
        if chance.random() < 0.5 * self._faults().of("crash"):
            self._coverage.hit("fault crash")
            await die()
        self._effects.add(ctx.idempotency_key)
        return x % 17

    def _begin(self, ctx: Context) -> random.Random:
        """Note that a tool is called. Returns the random stream of this very call."""
        key = (ctx.run_id, ctx.token_node, ctx.scope_text)
        step = ctx.step_name
        starts = self._starts.setdefault((key, step), [])
        starts.append(ctx.idempotency_key)
        if len(starts) > 1:
            self._coverage.hit("agent's tool called again")
        token = self._model.token(key)
        if token is not None and (token.state, token.lease) == ("leased", ctx.lease_id):
            kept = self._kept(key)
            if any(_step(entry) == step for entry in kept or ()):
                message = f"{key[1]}: tool {step!r} is called again, and its result was kept"
                self._broken("agent", message, key[0])
            if kept is not None and not _replies(kept):
                message = f"{key[1]}: tool {step!r} is called, and no kept answer asks for it"
                self._broken("agent", message, key[0])
        return self._streams.make(f"tool/{'/'.join(key)}/{step}/{len(starts)}")

    # ── what an agent comes to ──────────────────────────────────────────────────────────

    def event_rules(
        self, run: str, program: Program, state: State, history: list[NumberedEvent], event: Event
    ) -> Iterator[Found]:
        """What must hold after an event was folded into `state`."""
        if not isinstance(event, NodeCompleted | NodeFailed):
            return
        node, token = program.nodes.get(event.node), state.tokens[event.node, event.scope]
        if node is None or node.type != "agent" or token.given or token.edited:
            return
        if self._durable(run) is None:
            return  # What a worker has in its hands, the store has lost.
        entries = _entries((run, event.node, event.scope), (one for _, _, one in history))
        config = cast(dict[str, Any], node.config or {})
        for message in self._end_rules(config, _replies(entries), _of_tools(entries), event):
            yield "agent", f"{event.node}: {message}", run

    def _end_rules(
        self,
        config: dict[str, Any],
        replies: list[tuple[Entry, Reply]],
        tools: list[Entry],
        event: NodeCompleted | NodeFailed,
    ) -> Iterator[str]:
        used = [reply.usage.total_tokens for _, reply in replies if reply.usage is not None]
        budget = config.get("budget", {}).get("tokens")
        if budget is not None and sum(used[:-1]) >= budget:
            yield f"it has spent {used}, and its budget is {budget}"
        if event.error is not None:
            code = event.error.get("code")
            self._coverage.hit(f"agent ended with {code}")
            if code == "agent-budget" and (budget is None or sum(used) < budget):
                yield f"its budget of {budget} is not used up by {used}"
            if code == "agent-max-turns" and len(replies) != config["max_turns"]:
                yield f"it had {len(replies)} turns, and may have {config['max_turns']}"
            return
        assert isinstance(event, NodeCompleted)
        self._coverage.hit("agent completed")
        output = msgspec.json.decode(event.output)
        if output["usage"]["total_tokens"] != sum(used):
            yield f"it says that it has spent {output['usage']}, and it was {used}"
        if output["result"] != replies[-1][1].text:
            yield f"its result is {output['result']!r}, and its model said {replies[-1][1].text!r}"
        called = [one for one in output["tool_calls"] if "error" not in one]
        if Counter(one["tool"] for one in called) != Counter(entry.name for entry in tools):
            yield f"it says that it has called {called}, and it was {[one.name for one in tools]}"

    def judge(self, deleted: set[str]) -> None:
        """Check at the end what the tools have seen."""
        owners: dict[str, tuple[Key, str]] = {}
        for call, keys in self._starts.items():
            (run, node, _), step = call
            if len(set(keys)) != 1 or owners.setdefault(keys[0], call) != call:
                self._broken("I30", f"{node}, tool {step}: its keys are not its own", run)
        for row in self._model.runs():
            if row.run in deleted:
                continue
            found = [decode_event(record.data) for record in self._model.events(row.run)]
            for key in {call[0] for call in self._starts if call[0][0] == row.run}:
                for entry in _of_tools(_entries(key, found)):
                    (first, *_) = self._starts.get((key, _step(entry)), [""])
                    if first not in self._effects:
                        message = f"{key[1]}, tool {_step(entry)}: it left no effect"
                        self._broken("I29", message, row.run)


def is_determined(config: dict[str, Any] | None, faults: Faults) -> bool:
    """Whether an agent comes to the same each time."""
    config = config or {}
    if config.get("model") != STEADY or faults.of("fail") or faults.of("crash"):
        return False
    return all(TOOLS[name] for name in config.get("available_tools", ()))


# ── the journal of an agent ─────────────────────────────────────────────────────────────────


def _entries(key: Key, events: Iterator[Event] | Sequence[Event]) -> list[Entry]:
    """The entries of an instance that are no errors, in order."""
    values = [
        bytes(event.value)
        for event in events
        if isinstance(event, StepRecorded)
        and (event.node, event.scope) == key[1:]
        and is_entry(event.name)
    ]
    return [one for one in decode_entries(key[0], values) if one.error is None]


def _replies(entries: Kept) -> list[tuple[Entry, Reply]]:
    """What the model has said."""
    return [
        (one, msgspec.json.decode(one.output, type=Reply)) for one in entries if one.name == ASKING
    ]


def _of_tools(entries: Kept) -> list[Entry]:
    return [one for one in entries if one.kind == "step" and one.name in TOOLS]


def _step(entry: Entry) -> str:
    return key_of(entry.kind, entry.name, entry.occurrence)


def _shown(entry: Entry) -> str:
    """What the model is shown of a tool's result."""
    return cut(msgspec.json.decode(entry.output), RESULT_LENGTH_MAX)


def _ids(reply: Reply) -> list[str]:
    return [call.id for call in reply.tool_calls]


def _said_ids(message: dict[str, Any]) -> list[str]:
    return [call["id"] for call in message.get("tool_calls", ())]


# ── the service ─────────────────────────────────────────────────────────────────────────────


def _say(chance: random.Random, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a model says: calls of tools, or a result. Some calls are wrong."""
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    message: dict[str, Any] = {"content": f"result {name}"}
    if tools and chance.random() < 0.7:
        calls = []
        for place in range(chance.choice((1, 1, 2, 4))):
            tool = chance.choice([*tools, *tools, "nothing"])
            arguments = chance.choice(('{"x": %d}', '{"x": %d}', '{"x": %d}', "{%d", '{"y": %d}'))
            function = {"name": tool, "arguments": arguments % chance.randrange(100)}
            calls.append({"index": place, "id": f"{name}.{place}", "function": function})
        message = {"content": None, "tool_calls": calls}
    used = chance.randint(1, 9)
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": used}
    choice = {
        "message": message,
        "finish_reason": "tool_calls" if message["content"] is None else "stop",
    }
    return {"choices": [choice], "usage": {**usage, "total_tokens": PROMPT_TOKENS + used}}


class _Service(Client):
    """The client of all workers: it reaches one service, which is in the same process."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__()
        self._answer = answer

    @contextlib.asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Answer]:
        status, said = await self._answer(msgspec.json.decode(request.content))
        yield Answer(cast(Any, _Response(status, msgspec.json.encode(said))), request.url)


class _Response:
    """An answer in one piece."""

    headers = ((b"content-type", b"application/json"),)

    def __init__(self, status: int, data: bytes) -> None:
        self.status = status
        self.stream = _once(data)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
