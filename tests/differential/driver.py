"""The same random calls to several stores: replies and snapshots must be equal after each.

The first store is the reference (`memory`). Requests are made from what it holds and from every
lease that was ever granted, so that most of them succeed and the rest fail in interesting ways.
What happened is counted by (verb, outcome), which shows what a run of this has really tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import methodcaller
from random import Random
from typing import Any

import msgspec
from tests.differential.follower import Follower

from minuet.clock import ManualClock
from minuet.errors import MinuetError
from minuet.scopes import decode, encode
from minuet.store.base import Store
from minuet.store.blob import blob_ref, blob_value
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    NewRun,
    Pause,
    Repair,
    RepairAction,
    ReportStall,
    Resume,
    RetryRun,
    Rollback,
    SendSignal,
    Start,
)
from minuet.store.exchange import (
    Delivery,
    Done,
    Exchange,
    Failed,
    Grant,
    Held,
    Item,
    NewStep,
    Released,
    Retried,
    Slot,
    Take,
    Waiting,
)
from minuet.store.families import child_id
from minuet.store.records import (
    FIRST_PLACE,
    LEASE_MS_MAX,
    TIMED_OUT,
    TOUCH_MS,
    BlobEntry,
    CellChange,
    Read,
    Snapshot,
    Token,
    WorkerRecord,
    WorkflowVersion,
)

BLOBS = (b"", b"one", b"\x00\xff" * 40_000)
TENANTS = ("a", "b")
QUEUES = ("", "q1", "q2")
SCOPES = ("", "0001", "0002")
LEASE_MS = 1000

#: Joins by node: needed, expected, and what they withdraw.
JOINS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "all": (3, 3, ()),
    "two": (2, 3, ()),
    "any": (1, 3, ("n1", "n2", "n3")),
}
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")

#: The nodes of a foreach: what gathers, and the item. A list is any node that sends to both.
GATHER, ITEM = "gather", "item"

#: Lists: how many items there are, how many are alive at once, and how many must complete.
LISTS = ((0, 0, None), (1, 1, None), (4, 2, None), (5, 1, 2), (12, 3, None), (6, 6, 3))

#: What a long run must have seen, so that it has not only tried errors.
EXPECTED = {
    *(("done", r) for r in ("applied", "duplicate", "stale", "replan", "closed", "limit")),
    *(("retry", r) for r in ("applied", "duplicate", "stale", "closed")),
    *(("failed", r) for r in ("applied", "stale", "closed")),
    *(("waiting", r) for r in ("applied", "duplicate", "stale", "closed")),
    *(("released", r) for r in ("applied", "duplicate", "stale", "closed")),
    *(("slot", r) for r in ("applied", "held", "stale", "closed")),
    *(("renew", r) for r in ("renewed", "revoked")),
    *((name, r) for name in ("take", "take of runs") for r in ("granted", "nothing")),
    *(("exchange", r) for r in ("answered", "repeated", "SessionError")),
    *(("sweep", r) for r in ("expired", "resumed", "cancelled", "nothing", "more")),
    *(("create", r) for r in ("new", "child", "RunConflictError")),
    *(("mark_reported", r) for r in ("True", "False")),
    *(("list_unreported", r) for r in ("some", "none")),
    *(
        (name, r)
        for name in ("start", "cancel", "pause", "resume", "retry_run", "new_plan", "signal")
        for r in ("changed", "RunConflictError", "RunNotFoundError")
    ),
    *(("signal", r) for r in ("received", "kept", "again")),
    *(("resolve", r) for r in ("True", "False")),
    *(("record_steps", r) for r in ("first", "again", "lost", "gone", "signal")),
    *(("delete_runs", r) for r in ("some", "none")),
    *(("discard_dead_letter", r) for r in ("True", "False")),
    *(("put_run", r) for r in ("True", "False", "back", "RunConflictError")),
    *(("run", r) for r in ("PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED")),
    *(
        (f"list_{name}", "some")
        for name in ("runs", "waiting", "dead_letters", "queues", "tenants")
    ),
    ("read_steps", "some"),
    *(("register_worker", r) for r in ("True", "False")),
    *((verb, r) for verb in ("drain_worker", "remove_worker") for r in ("True", "False")),
    *(("find_queues", "some"), ("list_workers", "some")),
    *(("put_blob", r) for r in ("kept", "refused")),
    *(("get_blob", r) for r in ("some", "none")),
    *(("touch_blobs", r) for r in ("some", "none")),
    *(("list_blobs", r) for r in ("some", "none")),
    *(("delete_blobs", r) for r in ("some", "none")),
    *(("list_plans", "some"), ("forget_idle", "none")),
    *(("deploy_workflow", r) for r in ("new", "same", "refused")),
    *(("read_workflow", r) for r in ("some", "none")),
    ("delete_workflow", "True"),
    *((f"list_{name}", "some") for name in ("workflows", "versions", "cells", "notable")),
    *((verb, r) for verb in ("mark_noted", "write_cells", "decide") for r in ("True", "False")),
}


#: What the scenes of a long run must have seen.
EXPECTED_SCENES = {
    *(("signal", r) for r in ("received", "kept", "again")),
    *(("wait for a signal", r) for r in ("kept", "begun", "several")),
    *(("receive by a step", r) for r in ("received", "gone")),
    ("signal", "woke a function"),
    *(("family", r) for r in ("born", "known", "refused", "waits", "is over")),
    *(("item", r) for r in ("completed", "failed", "gathered")),
    *(("bytes", r) for r in ("counted", "full")),
    *(("deploy_workflow", r) for r in ("new", "same", "refused")),
    *(("undo", r) for r in ("begun", "refused", "compensator failed", "COMPENSATING")),
    *(("undo", r) for r in ("discarded True", "discarded False", "RUNNING", "COMPLETED")),
}


ACTIONS: tuple[RepairAction, ...] = ("skip", "output", "take_back", "retry", "fail", "edit")

#: What many repairs must have seen.
EXPECTED_REPAIRS = {
    *((f"repair {action}", r) for action in ACTIONS for r in ("changed", "refused")),
    *(("letters", status) for status in ("pending", "reprocessed", "discarded")),
    *(("failed", r) for r in ("held", "fails")),
}

#: Keys of waits of functions: nothing, some names, and all names that begin alike.
FLOW_KEYS = ("", '["k1"]', '["ключ","k1"]', '["k2","$c:"]')

#: What instances wait for that share a run's signals: kind and key.
WAITS = (("signal", "k1"), ("signal", "k2"), ("flow", FLOW_KEYS[1]), ("flow", FLOW_KEYS[3]))


class Driver:
    """Random calls, the same for every store."""

    def __init__(self, clock: ManualClock, stores: Sequence[Store]) -> None:
        self._clock = clock
        self._stores = list(stores)
        self._runs: list[tuple[str, str]] = []
        #: Whether results stand for blobs, which may be there or not.
        self.names_blobs = True
        #: Whether runs are marked as reported.
        self.marks_reported = True
        self._granted: list[tuple[str, Grant]] = []
        self._sessions: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], Exchange] = {}
        #: Runs that were deleted, as they were.
        self._deleted: list[Snapshot] = []
        self._session_names = ("s1", "s2", "s3")
        #: Runs that ask people.
        self._asking: list[str] = []
        self._number = 0
        self._compared = 0
        self._has_moved = False
        #: Blobs that belong to no run, as they were listed.
        self._listed: list[tuple[str, list[BlobEntry]]] = []
        self.seen: Counter[tuple[str, str]] = Counter()
        #: Of each store that was there from the beginning.
        self._followers = [Follower(store) for store in self._stores]

    @property
    def verbs(self) -> list[Callable[[Random], Awaitable[None]]]:
        """Every verb, as often as it should be picked."""
        return [
            *[self.exchange] * 12,
            *[self.create, self.sweep, self.change] * 2,
            *[self.resolve, self.record_steps, self.repeat, self.pass_time] * 1,
            *[self.signal] * 2,
            *[self.delete, self.discard, self.look, self.blob, self.report] * 1,
            self.put,
            *[self.worker, self.collect, self.deploy] * (not self._has_moved),
        ]

    @property
    def scenes(self) -> list[Callable[[Random], Awaitable[None]]]:
        """Several calls in a row about one thing, which single calls hardly ever come to."""
        return [self.mailbox, self.mailbox, self.family, self.family, self.deploy, self.list_items]

    def go_on_with(self, store: Store) -> None:
        """Compare with another store as well, which has the same runs and knows no session."""
        self._stores.append(store)
        # Workers and deployed workflows are no part of a run, and stay where they were.
        self._has_moved = True
        self._sessions.clear()
        self._last.clear()
        self._session_names = ("t1", "t2", "t3")

    async def step(self, rng: Random, *, scenes: bool = False) -> None:
        """Make one random call, or those of a scene, and compare."""
        await rng.choice(self.scenes if scenes else self.verbs)(rng)
        if scenes and self._compared % 3 == 0:
            await self._beside(self.undo)
        if scenes and self._compared % 3 == 1:
            await self._beside(self.count_bytes)
        if self._compared % 5 == 4:
            # Chances of their own: what is drawn above does not depend on this.
            own = Random(f"notable {self._compared}")
            await own.choice((self.ask_people, self.note, self.note, self.write_cells))(own)
        await self.compare()

    async def _beside(self, scene: Callable[[Random], Awaitable[None]]) -> None:
        """A scene that draws, and leaves behind, nothing that the others would notice."""
        kept = self._number, self._runs[:], self._granted[:]
        self._number = 1_000_000 + 1_000 * self._compared
        await scene(Random(f"{scene.__name__} {self._compared}"))
        self._number, self._runs, self._granted = kept

    # ── comparing ───────────────────────────────────────────────────────────────────────

    async def _ask(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """Ask all stores the same; the answer, or the error, that they all gave."""
        for follower in self._followers:
            await follower.begin()
        answers = []
        for store in self._stores:
            try:
                answers.append(await call(store))
            except MinuetError as error:
                answers.append(error)
        first, *others = answers
        for other in others:
            assert describe(other) == describe(first)
        return first

    async def compare(self) -> None:
        """All stores hold the same, and it is sound."""
        self._compared += 1
        # Old runs hardly change any more: look at all of them only now and then.
        runs = self._runs if self._compared % 50 == 0 else self._runs[-8:]
        for tenant, run in runs:
            snapshot = await self._ask(methodcaller("read_snapshot", tenant, run))
            if snapshot is not None:
                self.seen["run", snapshot.run.status] += 1
                live = sum(t.state in ("ready", "leased", "waiting") for t in snapshot.tokens)
                assert snapshot.run.counter == live
        for follower in self._followers:
            await follower.read(1 + self._compared % 7)
            if self._compared % 50 == 0:
                await follower.check(self._runs)

    def _new_name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number:06d}"

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, rng: Random) -> None:
        tenant = rng.choice(TENANTS) if rng.random() < 0.2 else "a"
        session = (tenant, rng.choice(self._session_names))
        seq = self._sessions.get(session, 0) + 1
        if rng.random() < 0.03:
            seq += rng.choice((-1, 1, 5))
        items, renew = self._items(rng), self._held(rng)
        request = Exchange(
            session=session[1],
            seq=seq,
            lease=self._new_name("lease"),
            lease_ms=rng.choice((LEASE_MS, 10 * LEASE_MS, LEASE_MS_MAX * 2)),
            tenant=tenant,
            hand_in=items,
            renew=renew,
            take=self._takes(rng),
            runs=self._some_runs(rng),
            lease_ms_by_queue=self._leases(rng),
        )
        reply = await self._ask(lambda s: s.exchange(request))
        if isinstance(reply, MinuetError):
            self.seen["exchange", type(reply).__name__] += 1
            return
        self._sessions[session] = seq
        self._last[session] = request
        self.seen["exchange", "answered"] += 1
        found = "granted" if reply.granted else "nothing"
        self.seen["take" if request.runs is None else "take of runs", found] += 1
        self._granted += [(tenant, grant) for grant in reply.granted]
        for item, result in zip(items, reply.results, strict=True):
            self.seen[str(item.__struct_config__.tag), result] += 1
        if renew:
            self.seen["renew", "revoked" if reply.revoked else "renewed"] += 1

    async def repeat(self, rng: Random) -> None:
        if self._last:
            request = self._last[rng.choice(sorted(self._last))]
            reply = await self._ask(lambda s: s.exchange(request))
            name = type(reply).__name__ if isinstance(reply, MinuetError) else "repeated"
            self.seen["exchange", name] += 1

    def _some_grants(self, rng: Random) -> list[Grant]:
        recent = self._granted[-12:] if rng.random() < 0.8 else self._granted
        return [grant for _, grant in rng.sample(recent, min(len(recent), rng.randint(0, 4)))]

    def _held(self, rng: Random) -> tuple[Held, ...]:
        if rng.random() < 0.7:
            return ()
        return tuple(Held(g.run, g.node, g.scope, g.lease) for g in self._some_grants(rng))

    def _takes(self, rng: Random) -> tuple[Take, ...]:
        return tuple(
            Take(tuple(rng.sample(QUEUES, rng.randint(1, 3))), rng.randint(0, 5))
            for _ in range(rng.choice((0, 1, 1, 1, 2)))
        )

    def _leases(self, rng: Random) -> dict[str, int]:
        """Now and then, queues with their own length of leases."""
        queues = rng.sample(QUEUES, rng.randint(1, 3)) if rng.random() < 0.4 else ()
        lengths = (0, LEASE_MS // 2, 3 * LEASE_MS, LEASE_MS_MAX * 2)
        return {queue: rng.choice(lengths) for queue in queues}

    def _some_runs(self, rng: Random) -> tuple[str, ...] | None:
        """Now and then, the runs that a call takes from."""
        if rng.random() < 0.8:
            return None
        recent = [run for _, run in self._runs[-8:]]
        return tuple(rng.sample(recent, min(len(recent), rng.randint(0, 3))))

    def _items(self, rng: Random) -> tuple[Item, ...]:
        return tuple(self._item(rng, grant) for grant in self._some_grants(rng))

    def _item(self, rng: Random, g: Grant) -> Item:
        lease = g.lease if rng.random() < 0.95 else rng.choice(("", "other"))
        name = (g.run, g.node, g.scope, lease)
        kind = rng.choices(
            ("done", "retry", "failed", "waiting", "released", "slot"), (12, 2, 1, 2, 2, 3)
        )[0]
        error = {"code": rng.choice(("x", "y")), "message": "é \x00 broken", "type": "E"}
        match kind:
            case "retry":
                return Retried(*name, error=error, delay_ms=rng.choice((-5, 0, 1, 5 * LEASE_MS)))
            case "failed":
                return Failed(*name, error=error, dead_letter=rng.choice((None, "crash_loop")))
            case "waiting":
                if rng.random() < 0.4:
                    key = child_id(name[:3])
                    return Waiting(*name, kind="child", key=key)
                kind = rng.choice(("timer", "signal", "flow"))
                return Waiting(
                    *name,
                    kind=kind,
                    key=rng.choice(FLOW_KEYS if kind == "flow" else ("", "k1", "ключ")),
                    due_ms=rng.choice((None, self._clock.now_ms() + LEASE_MS)),
                    delay_ms=rng.choice((None, None, 0, 3 * LEASE_MS)),
                    data=b'{"form":1}',
                )
            case "released":
                return Released(*name)
            case "slot":
                return Slot(
                    *name, key=rng.choice(("s1", "s2", "s1", "s2", "")), limit=rng.randint(1, 2)
                )
        return self._done(rng, g, lease)

    def _done(self, rng: Random, g: Grant, lease: str) -> Done:
        output = rng.choice((b"1", b'{"a":[1.50, "\xc3\xa9"]}', b"null", b" [ ] "))
        if rng.random() < 0.01:
            output = b'"' + b"x" * (1 << 20) + b'"'
        elif self.names_blobs and rng.random() < 0.05:
            output = blob_value(blob_ref(rng.choice(BLOBS)), 1)
        cursor = None
        if not g.skip and rng.random() < 0.1:
            cursor = g.cursor + 1
        return Done(
            g.run,
            g.node,
            g.scope,
            lease,
            plan=rng.choice(("p1", "p1", "p1", "p1", "p1", "p2")),
            outcome="skipped" if g.skip else rng.choice(("completed", "completed", "failed")),
            output=output,
            deliveries=self._sends(rng, g),
            error=rng.choice((None, {"code": "handled"})),
            notes=rng.choice((None, [["rule", 1]])),
            cursor=cursor,
        )

    def _sends(self, rng: Random, g: Grant) -> tuple[Delivery, ...]:
        """What a token sends: an item to what gathers it; another anywhere, or it starts items."""
        if g.node == ITEM:
            # The scope of a list says which one it is.
            return (self._arrival(rng, g.scope[:2], rng.random() < 0.8),)
        if g.skip or rng.random() > 0.15:
            return self._deliveries(rng, live=not g.skip)
        number = rng.randrange(len(LISTS))
        _, window, _ = LISTS[number]
        scope, queue = encode((number,)), rng.choice(QUEUES[1:])
        reads = tuple(Read(n, rng.choice(SCOPES)) for n in NODES if rng.random() < 0.1)
        items = (
            Delivery(ITEM, scope + encode((n,)), True, 1, 1, queue, reads) for n in range(window)
        )
        gathered = msgspec.structs.replace(self._arrival(rng, scope, True), window=0)
        return (gathered, *items)

    def _arrival(self, rng: Random, scope: str, live: bool) -> Delivery:
        count, window, need = LISTS[decode(scope)[0]]
        at_once = not live and rng.random() < 0.2
        return Delivery(
            GATHER,
            scope,
            live,
            1 if at_once else (need or count) + 1,
            count + 1,
            "q1",
            (Read(ITEM, scope, 0, True), Read("n1", "")),
            (ITEM,) if need or at_once else (),
            window,
        )

    def _deliveries(self, rng: Random, *, live: bool = True) -> tuple[Delivery, ...]:
        count = rng.choice((0, 1, 1, 2, 2, 3))
        targets = {(rng.choice((*NODES, *JOINS)), rng.choice(SCOPES)) for _ in range(count)}
        return tuple(
            self._delivery(rng, node, scope, live and rng.random() < 0.85)
            for node, scope in sorted(targets)
        )

    def _delivery(self, rng: Random, node: str, scope: str, live: bool) -> Delivery:
        need, total, withdraws = JOINS.get(node, (1, 1, ()))
        reads = tuple(Read(n, rng.choice(SCOPES)) for n in NODES if rng.random() < 0.15)
        return Delivery(
            node=node,
            scope=scope,
            live=live,
            need=need,
            total=total,
            queue=rng.choice(QUEUES[1:]),
            reads=reads,
            withdraws=withdraws,
        )

    # ── time ────────────────────────────────────────────────────────────────────────────

    async def pass_time(self, rng: Random) -> None:
        steps = (1, 10, LEASE_MS // 2, LEASE_MS + 1, 6 * LEASE_MS, 2 * LEASE_MS_MAX, -10, -7200000)
        self._clock.advance(rng.choices(steps, (9, 9, 9, 9, 9, 1, 2, 1))[0])

    async def sweep(self, rng: Random) -> None:
        limit = rng.choice((1, 2, 1000))
        swept = await self._ask(lambda s: s.sweep(limit))
        for name in ("expired", "resumed", "cancelled", "more"):
            if getattr(swept, name):
                self.seen["sweep", name] += 1
        if not (swept.expired or swept.resumed or swept.cancelled):
            self.seen["sweep", "nothing"] += 1

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create(self, rng: Random) -> None:
        new = [self._new_run(rng) for _ in range(rng.randint(1, 2))]
        answers = await self._ask(lambda s: s.create_runs(new))
        for run, answer in zip(new, answers, strict=True):
            if isinstance(answer, MinuetError):
                self.seen["create", type(answer).__name__] += 1
            else:
                self.seen["create", "new" if answer.run == run.run else "known"] += 1
                if answer.parent is not None:
                    self.seen["create", "child"] += 1
                if (run.tenant, answer.run) not in self._runs:
                    self._runs.append((run.tenant, answer.run))

    def _a_parent(self, rng: Random) -> tuple[str, Held | None]:
        """A token that was granted, with its tenant: mostly one of the last."""
        if not self._granted:
            return "a", None
        tenant, g = rng.choice(self._granted[-6:] if rng.random() < 0.9 else self._granted)
        return tenant, Held(g.run, g.node, g.scope, g.lease)

    def _new_child(self, rng: Random) -> NewRun | None:
        """The child run of a token that was granted."""
        tenant, held = self._a_parent(rng)
        if held is None:
            return None
        number = rng.choice((0, 0, 1, 2))
        return NewRun(
            run=child_id((held.run, held.node, held.scope), number),
            parent_number=number,
            workflow="w1",
            plan="p1",
            tenant=tenant if rng.random() < 0.95 else "b",
            entries=(self._delivery(rng, "n1", "", live=True),) * rng.randint(0, 1),
            deadline_ms=rng.choice((None, None, 2 * LEASE_MS)),
            parent=held,
            blobs=BLOBS[: rng.choice((0, 0, 1)) if self.names_blobs else 0],
        )

    def _new_run(self, rng: Random) -> NewRun:
        child = self._new_child(rng) if rng.random() < 0.4 else None
        if child is not None:
            return child
        name = self._new_name("run")
        if self._runs and rng.random() < 0.1:
            name = rng.choice(self._runs)[1]
        entries = tuple(
            self._delivery(rng, node, "", live=True)
            for node in sorted(rng.sample(NODES, rng.randint(0, 3)))
        )
        return NewRun(
            run=name,
            workflow=rng.choice(("w1", "w2")),
            plan="p1",
            tenant="a" if rng.random() < 0.8 else "b",
            input=rng.choice((b"{}", b'{"x":1}')),
            entries=None if rng.random() < 0.2 else entries,
            deadline_ms=rng.choice((None, None, None, 4 * LEASE_MS)),
            idempotency_key=rng.choice((None, None, None, "key1", "key2")),
            tags=rng.choice(({}, {"team": "blue", "n": 1})),
            version=rng.choice((None, 1, 70_000)),
            tag=rng.choice((None, "main", "ü")),
            blobs=BLOBS[: rng.choice((0, 0, 0, 1, 2))],
        )

    async def change(self, rng: Random) -> None:
        recent = self._runs[-5:] if rng.random() < 0.8 else self._runs
        tenant, run = rng.choice(recent) if recent else ("a", "none")
        if rng.random() < 0.1:
            tenant = rng.choice(TENANTS)
        name, change = self._change(rng)
        expected = None
        if rng.random() < 0.3:
            row = await self._stores[0].read_run(tenant, run)
            expected = (row.seq if row else 1) + rng.choice((0, 0, 1))
        answer = await self._ask(lambda s: s.change_run(tenant, run, change, expected))
        outcome = type(answer).__name__ if isinstance(answer, MinuetError) else "changed"
        self.seen[name, outcome] += 1

    def _change(self, rng: Random) -> tuple[str, Change]:
        match rng.choices(
            ("start", "cancel", "pause", "resume", "retry_run", "new_plan"), (3, 1, 2, 4, 4, 2)
        )[0]:
            case "start":
                source = self._deliveries(rng)
                return "start", Start(source, input=rng.choice((None, b'{"y":2}')))
            case "cancel":
                return "cancel", Cancel(by="me")
            case "pause":
                return "pause", Pause()
            case "resume":
                return "resume", Resume(by="me")
            case "retry_run":
                deadline_ms = rng.choice((None, 4 * LEASE_MS))
                parent = self._a_parent(rng)[1] if rng.random() < 0.2 else None
                return "retry_run", RetryRun(deadline_ms=deadline_ms, parent=parent)
        new = tuple((rng.choice(NODES), "", d) for d in self._deliveries(rng))
        return "new_plan", NewPlan(rng.choice(("p1", "p1", "p2")), new, by="me")

    async def signal(self, rng: Random) -> None:
        """A signal: mostly to a run in which something waits, often not the first of its id."""
        tenant = rng.choice(TENANTS) if rng.random() < 0.1 else "a"
        waiting = [t.run for t in await self._stores[0].list_waiting(tenant, "signal")]
        runs = waiting if waiting and rng.random() < 0.6 else [r for _, r in self._runs[-8:]]
        run = rng.choice(runs) if runs and rng.random() < 0.95 else "none"
        name, id = rng.choice(("", "k1", "ключ", "$c:1")), f"id{rng.randint(0, 30)}"
        data = rng.choice((b'{"ok": [1.50]}', b" null ", TIMED_OUT))
        await self._send(rng, tenant, run, SendSignal(name, id, data, by=rng.choice(("", "me"))))

    async def _send(self, rng: Random, tenant: str, run: str, change: SendSignal) -> None:
        before = await self._stores[0].read_run(tenant, run)
        answer = await self._ask(lambda s: s.change_run(tenant, run, change))
        if isinstance(answer, MinuetError):
            self.seen["signal", type(answer).__name__] += 1
            return
        self.seen["signal", "changed"] += 1
        more = answer.seq - (before.seq if before else 0)
        if not more:
            self.seen["signal", "again"] += 1
            return
        kept = await self._ask(methodcaller("read_signals", tenant, run))
        is_kept = change.id in [signal.id for signal in kept]
        self.seen["signal", "kept" if is_kept else "received"] += 1
        if is_kept and more > 1:
            self.seen["signal", "woke a function"] += 1

    # ── what single calls hardly ever come to ───────────────────────────────────────────

    async def mailbox(self, rng: Random) -> None:
        """A run whose instances wait for the same signals, which come before and after them, and
        which is put again meanwhile."""
        run = await self._new_open_run(rng, "mail", rng.randint(2, 4))
        for _ in range(rng.randint(5, 9)):
            match rng.choice(("wait", "wait", "signal", "signal", "signal", "put", "step")):
                case "wait":
                    await self._begin_to_wait(rng, run)
                case "step":
                    await self._receive_by_steps(rng, run)
                case "signal":
                    id = f"id{rng.randint(0, 9)}"
                    change = SendSignal(rng.choice(("k1", "k1", "k2")), id, b"1")
                    await self._send(rng, "a", run, change)
                case _:
                    await self._put_back(run)
            await self._compare_run("a", run)

    async def repair(self, rng: Random) -> None:
        """A run whose nodes wait, fail and are held, and which somebody repairs, right or wrong."""
        run = await self._new_open_run(rng, "repair", rng.randint(2, 4))
        for _ in range(rng.randint(6, 12)):
            tokens = await self._stores[0].read_tokens("a", run)
            held = [t for t in tokens if t.state == "leased"]
            match rng.choice(("work", "work", "work", "repair", "repair", "repair", "run", "put")):
                case "work" if held:
                    await self._work(rng, rng.choice(held))
                case "work":
                    await self._hand_in(take=(Take(("q1", ""), 3),), runs=(run,))
                case "repair":
                    await self._repair(rng, run, rng.choice(tokens))
                case "run":
                    await self._change_whole(rng, run)
                case _:
                    await self._put_back(run)
            await self._compare_run("a", run)
            await self._ask(lambda s: s.list_dead_letters("a", run=run, status=None))
        for status in ("pending", "reprocessed", "discarded"):
            found = await self._ask(
                methodcaller("list_dead_letters", "a", status=status, limit=1000)
            )
            self.seen["letters", status if found else "none"] += 1
        await self._ask(methodcaller("list_queues"))

    async def _work(self, rng: Random, token: Token) -> None:
        """What the worker of a token hands in."""
        name, error = (*token.key, token.lease), {"code": "x", "message": "broken"}
        item: Item
        match rng.choice(("done", "failed", "failed", "waiting", "part", "retry")):
            case "done":
                to = (Delivery("n6", "", True, 1, 1, "q1"),) if rng.random() < 0.5 else ()
                item = Done(*name, plan="p1", deliveries=to)
            case "part":
                item = Done(*name, plan="p1", cursor=1)
            case "failed":
                letter = rng.choice((None, "final", "final"))
                hold = letter is not None and rng.random() < 0.8
                item = Failed(*name, error=error, dead_letter=letter, hold=hold)
                self.seen["failed", "held" if hold else "fails"] += 1
            case "waiting":
                item = Waiting(*name, *rng.choice(WAITS))
            case _:
                item = Retried(*name, error=error, delay_ms=rng.choice((0, LEASE_MS)))
        await self._hand_in(item)

    async def _repair(self, rng: Random, run: str, token: Token) -> None:
        action = rng.choice(ACTIONS)
        change = Repair(
            *(token.node, rng.choice((token.scope, token.scope, "0009")), action),
            rng.choice((b'{"v": 1}', b" {} ")),
            by=rng.choice(("", "me")),
            why=rng.choice(("", 'a"b é')),
            deadline_ms=rng.choice((None, 4 * LEASE_MS)),
            anywhere=rng.random() < 0.8,
            error={"code": "let", "message": "it fails"},
        )
        answer = await self._ask(lambda s: s.change_run("a", run, change))
        outcome = "refused" if isinstance(answer, MinuetError) else "changed"
        self.seen[f"repair {action}", outcome] += 1
        if token.lease and outcome == "changed":
            # Its worker does not know it.
            late = Done(*token.key, token.lease, plan="p1")
            renew = (Held(*token.key, token.lease),)
            await self._hand_in(late, renew=renew)

    async def _change_whole(self, rng: Random, run: str) -> None:
        """A change of the whole run, or of its dead letters."""
        match rng.choice(("cancel", "retry", "pause", "resume", "discard", "time")):
            case "cancel":
                await self._ask(lambda s: s.change_run("a", run, Cancel()))
            case "retry":
                await self._ask(lambda s: s.change_run("a", run, RetryRun()))
            case "pause":
                await self._ask(lambda s: s.change_run("a", run, Pause()))
            case "resume":
                await self._ask(lambda s: s.change_run("a", run, Resume()))
            case "discard":
                held = rng.choice((None, ("n1", ""), ("n2", "")))
                await self._ask(lambda s: s.discard_dead_letter("a", run, 1, "why", held))
            case _:
                self._clock.advance(LEASE_MS + 1)
                await self._ask(methodcaller("sweep"))

    async def _begin_to_wait(self, rng: Random, run: str) -> None:
        """Some instances that are held begin to wait for a signal."""
        held = [t for t in await self._stores[0].read_tokens("a", run) if t.state == "leased"]
        some = rng.sample(held, min(len(held), rng.randint(1, 2)))
        await self._hand_in(*(Waiting(*t.key, t.lease, *rng.choice(WAITS)) for t in some))
        after = {t.key: t.state for t in await self._stores[0].read_tokens("a", run)}
        for token in some:
            self.seen[
                "wait for a signal", "begun" if after[token.key] == "waiting" else "kept"
            ] += 1
        if list(after.values()).count("waiting") > 1:
            self.seen["wait for a signal", "several"] += 1

    async def _receive_by_steps(self, rng: Random, run: str) -> None:
        """Instances that are held receive the kept signals of their run, sometimes the same."""
        tokens = await self._stores[0].read_tokens("a", run)
        held = [t for t in tokens if t.state == "leased"]
        kept = [signal.seq for signal in await self._stores[0].read_signals("a", run)]
        steps = [
            NewStep(*t.key, t.lease, f"s{rng.randint(0, 9)}", b"1", rng.choice(kept))
            for t in held * 2
            if kept
        ]
        for answer in await self._ask(methodcaller("record_steps", "a", steps)):
            self.seen["receive by a step", "gone" if answer == "gone" else "received"] += 1

    async def family(self, rng: Random) -> None:
        """Instances start child runs, wait for them and hear of their ends, in any order."""
        parent = await self._new_open_run(rng, "parent", 2)
        tokens = await self._stores[0].read_tokens("a", parent)
        held = {t.key: Held(*t.key, t.lease) for t in tokens if t.state == "leased"}
        for _ in range(rng.randint(4, 8)):
            key = rng.choice(sorted(held))
            child = child_id(key)
            match rng.choice(("start", "start", "wait", "end", "end", "report", "lose", "retry")):
                case "start":
                    await self._start_child(held[key], child)
                case "wait":
                    name = (*key, held[key].lease)
                    (result,) = await self._hand_in(Waiting(*name, kind="child", key=child))
                    self.seen["family", "waits" if result == "applied" else "waits no more"] += 1
                case "end":
                    victim = rng.choice((child, child, parent))
                    await self._ask(methodcaller("change_run", "a", victim, Cancel()))
                case "report":
                    await self.report(rng)
                case "lose":
                    self._clock.advance(2 * LEASE_MS)
                    await self.sweep(rng)
                case _:
                    change = RetryRun(parent=held[key])
                    await self._ask(methodcaller("change_run", "a", child, change))
            for run in (parent, child):
                if await self._compare_run("a", run) in ("CANCELLED", "FAILED", "COMPLETED"):
                    self.seen["family", "is over"] += 1

    async def undo(self, rng: Random) -> None:
        """A run ends, is undone without being asked to or by hand, and is changed meanwhile."""
        undo_on = rng.choice(("", "failure", "cancel", "both"))
        run = await self._new_open_run(rng, "undo", 2, undo_on=undo_on)
        first, second = await self._stores[0].read_tokens("a", run)
        error = {"code": "broken", "message": "no"}
        await self._hand_in(Done(*first.key, first.lease, plan="p1"))
        match rng.choice(("fail", "cancel", "complete", "move")):
            case "fail":
                await self._hand_in(Failed(*second.key, second.lease, error, "non_retryable"))
            case "complete":
                await self._hand_in(Done(*second.key, second.lease, plan="p1"))
            case end:
                cancel = Cancel(by="me", undo=end == "cancel")
                await self._ask(methodcaller("change_run", "a", run, cancel))
        for _ in range(rng.randint(3, 8)):
            row = await self._stores[0].read_run("a", run)
            assert row is not None
            match rng.choice(("go on", "go on", "go on", "rollback", "change", "put", "discard")):
                case "go on":
                    await self._go_on_undoing(rng, run, error)
                case "put":
                    await self._put_back(run)
                case "discard":
                    letter = methodcaller("discard_dead_letter", "a", run, row.generation, "no")
                    held = methodcaller(
                        "discard_dead_letter", "a", run, 1, "no", ("n1$undo", encode((1,)))
                    )
                    self.seen["undo", f"discarded {await self._ask(letter)}"] += 1
                    self.seen["undo", f"discarded {await self._ask(held)}"] += 1
                case "rollback":
                    change: Change = Rollback(by="me", back_to=rng.choice(("", "n1")))
                    answer = await self._ask(methodcaller("change_run", "a", run, change))
                    is_begun = not isinstance(answer, MinuetError)
                    self.seen["undo", "begun" if is_begun else "refused"] += 1
                case _:
                    undone = rng.random() < 0.3
                    change = rng.choice((Cancel(), Pause(), RetryRun(undone=undone)))
                    await self._ask(methodcaller("change_run", "a", run, change))
                    # Whether it may stall follows from what it is by now.
                    stall = ReportStall(row.seq, 'no "one"' if row.seq % 2 else "")
                    answer = await self._ask(methodcaller("change_run", "a", run, stall))
                    is_reported = not isinstance(answer, MinuetError)
                    self.seen["stall", "reported" if is_reported else "refused"] += 1
            self.seen["undo", await self._compare_run("a", run)] += 1
            await self._ask(lambda s: s.list_dead_letters("a", run=run, status=None))
        await self._ask(lambda s: s.list_runs("a", statuses=("COMPENSATING",)))

    async def _go_on_undoing(self, rng: Random, run: str, error: dict[str, Any]) -> None:
        """Settle what an undo has ready, in one of the ways in which that can go."""
        await self._hand_in(take=(Take(("", "q1"), 5),), runs=(run,))
        row = await self._stores[0].read_run("a", run)
        tokens = await self._stores[0].read_tokens("a", run)
        for token in [t for t in tokens if t.state == "leased"]:
            name = (*token.key, token.lease)
            scope = encode((row.undos if row is not None else 0,))
            after = Delivery(rng.choice(("n1$undo", "n2$undo")), scope, True, 1, 1, "q1")
            item: Item = Done(*name, plan="p1", deliveries=rng.choice(((), (after,))))
            match rng.choice(("done", "done", "failed", "lost", "waiting")):
                case "failed":
                    item = msgspec.structs.replace(
                        item, outcome="failed", error=error, dead_letter="max_retries_exceeded"
                    )
                    self.seen["undo", "compensator failed"] += 1
                case "lost":
                    item = Failed(*name, error, "no_plan")
                case "waiting":
                    item = Waiting(*name, kind="child", key="none")
            await self._hand_in(item)

    async def list_items(self, rng: Random) -> None:
        """A list whose items end one after the other, until they are gathered."""
        run = await self._new_open_run(rng, "list", 1)
        number = rng.randrange(1, len(LISTS))
        scope, window = encode((number,)), LISTS[number][1]
        (first,) = await self._stores[0].read_tokens("a", run)
        items = (Delivery(ITEM, scope + encode((n,)), True, 1, 1, "q1") for n in range(window))
        gathered = msgspec.structs.replace(self._arrival(rng, scope, True), window=0)
        await self._hand_in(
            Done(*first.key, first.lease, plan="p1", deliveries=(gathered, *items)),
            take=(Take(("q1",), 20),),
            runs=(run,),
        )
        for _ in range(20):
            tokens = await self._stores[0].read_tokens("a", run)
            held = [t for t in tokens if (t.state, t.node) == ("leased", ITEM)]
            if not held:
                break
            token, is_live = rng.choice(held), rng.random() < 0.8
            outcome: Any = "completed" if is_live else "failed"
            done = Done(
                *token.key,
                token.lease,
                plan="p1",
                outcome=outcome,
                output=b"1",
                deliveries=(self._arrival(rng, scope, is_live),),
            )
            await self._hand_in(done, take=(Take(("q1",), 1),), runs=(run,))
            self.seen["item", outcome] += 1
            await self._compare_run("a", run)
        if any(t.node == GATHER for t in await self._stores[0].read_tokens("a", run)):
            self.seen["item", "gathered"] += 1

    async def count_bytes(self, rng: Random) -> None:
        """Results of a run whose outputs may have only so many bytes, until one has no room."""
        run = await self._new_open_run(rng, "bytes", rng.randint(2, 5))
        most = rng.choice((10, 30, 60))
        tokens = await self._stores[0].read_tokens("a", run)
        for token in tokens:
            size = rng.choice((1, 9, 25))
            done = Done(
                *token.key,
                token.lease,
                plan="p1",
                output=b'"x"',
                output_bytes=size,
                max_bytes=rng.choice((most, most, most, None)),
                deliveries=(Delivery("n6", "", True, len(tokens), len(tokens), "q2"),),
            )
            # Twice: a result counts once.
            (result, _) = await self._hand_in(done, done)
            self.seen["bytes", "full" if result == "full" else "counted"] += 1
            if result == "full" and rng.random() < 0.3:
                await self._hand_in(Failed(*token.key, token.lease, error={"code": "full"}))
                await self._ask(methodcaller("change_run", "a", run, RetryRun()))
            await self._compare_run("a", run)

    async def _start_child(self, held: Held, child: str) -> None:
        new = NewRun(
            run=child,
            workflow="w1",
            plan="p1",
            tenant="a",
            entries=(Delivery("n1", "", True, 1, 1, "q1"),),
            parent=held,
        )
        is_known = await self._stores[0].read_run("a", child) is not None
        (answer,) = await self._ask(lambda s: s.create_runs([new]))
        born = "known" if is_known else "born"
        self.seen["family", "refused" if isinstance(answer, MinuetError) else born] += 1
        if ("a", child) not in self._runs and not isinstance(answer, MinuetError):
            self._runs.append(("a", child))

    async def _new_open_run(
        self, rng: Random, prefix: str, count: int, *, undo_on: str = ""
    ) -> str:
        """A new run, all of whose tokens are held."""
        run = self._new_name(prefix)
        entries = tuple(Delivery(node, "", True, 1, 1, "q1") for node in NODES[:count])
        new = NewRun(
            run=run, workflow="w1", plan="p1", tenant="a", entries=entries, undo_on=undo_on
        )
        await self._ask(lambda s: s.create_runs([new]))
        self._runs.append(("a", run))
        await self._hand_in(take=(Take(("q1",), count),), runs=(run,))
        return run

    async def _hand_in(self, *items: Item, **fields: Any) -> tuple[str, ...]:
        """A call in a session of its own."""
        request = Exchange(
            session=self._new_name("session"),
            seq=1,
            lease=self._new_name("lease"),
            lease_ms=LEASE_MS,
            tenant="a",
            hand_in=items,
            **fields,
        )
        reply = await self._ask(lambda s: s.exchange(request))
        self._granted += [("a", grant) for grant in reply.granted]
        return tuple(reply.results)

    async def _put_back(self, run: str) -> None:
        """Put a run as it is."""
        rows = await self._stores[0].read_snapshot("a", run)
        assert rows is not None
        await self._ask(lambda s: s.put_run("a", rows, rows.run.seq))

    async def _compare_run(self, tenant: str, run: str) -> str:
        """Compare one run; its status."""
        snapshot = await self._ask(methodcaller("read_snapshot", tenant, run))
        return "" if snapshot is None else str(snapshot.run.status)

    async def resolve(self, rng: Random) -> None:
        tenant = rng.choice(TENANTS) if rng.random() < 0.1 else "a"
        waiting = await self._stores[0].list_waiting(
            tenant, rng.choice(("timer", "signal", "flow"))
        )
        keys = [t.key for t in waiting] or [(g.run, g.node, g.scope) for _, g in self._granted[-5:]]
        if keys:
            key, wait_key = rng.choice(keys), rng.choice((None, None, "k1", "ключ"))
            data = rng.choice((b'{"ok":true}', b"null", TIMED_OUT))
            answer = await self._ask(
                lambda s: s.resolve(tenant, key, data, by="me", wait_key=wait_key)
            )
            self.seen["resolve", str(answer)] += 1

    async def record_steps(self, rng: Random) -> None:
        """Steps of several instances in one call, some of which receive signals."""
        tenant = "b" if rng.random() < 0.1 else "a"
        steps = []
        for g in [*self._some_grants(rng), *self._some_grants(rng)]:
            signal = 0
            if rng.random() < 0.5:
                kept = await self._ask(methodcaller("read_signals", tenant, g.run))
                signal = rng.choice([2, *(one.seq for one in kept)])
            name, value = rng.choice(("one", "two")), rng.choice((b"1", b"2"))
            after = "one" if (name, value) == ("two", b"2") else ""
            steps.append(NewStep(g.run, g.node, g.scope, g.lease, name, value, signal, after))
        known = {
            (new.run, new.node, new.scope, name)
            for new in steps
            for name in await self._stores[0].read_steps(tenant, (new.run, new.node, new.scope))
        }
        answers = await self._ask(methodcaller("record_steps", tenant, steps))
        for new, answer in zip(steps, answers, strict=True):
            outcome = answer
            if isinstance(answer, bytes):
                step = (new.run, new.node, new.scope, new.name)
                outcome = "again" if step in known else "signal" if new.signal else "first"
                known.add(step)
            self.seen["record_steps", outcome] += 1

    async def delete(self, rng: Random) -> None:
        if self._runs and rng.random() < 0.3:
            runs = [run for _, run in rng.sample(self._runs, min(len(self._runs), 3))]
            before = [await self._stores[0].read_snapshot("a", run) for run in runs]
            count = await self._ask(lambda s: s.delete_runs("a", runs))
            self.seen["delete_runs", "some" if count else "none"] += 1
            for snapshot in before:
                if snapshot and not await self._stores[0].read_run("a", snapshot.run.run):
                    self._deleted.append(snapshot)

    async def put(self, rng: Random) -> None:
        """A run that was deleted, or one that is there, once more."""
        rows, expected, outcome = None, None, "back"
        if self._deleted and rng.random() < 0.3:
            rows = rng.choice(self._deleted)
        elif self._runs:
            tenant, run = rng.choice(self._runs[-8:])
            rows = await self._stores[0].read_snapshot(tenant, run)
            expected = rng.choice((rows.run.seq, rows.run.seq, rows.run.seq + 1)) if rows else None
        if rows is None:
            return
        if rng.random() < 0.5:
            given_back(rows, self._clock.now_ms())
        if expected is not None and rng.random() < 0.2:
            expected = None
        if rng.random() < 0.2:
            rows.run.idempotency_key = rng.choice((None, "key1", "key2"))
        tenant = rng.choice(TENANTS) if rng.random() < 0.1 else rows.run.tenant
        blobs = BLOBS[1 : rng.randint(1, 3)]
        answer = await self._ask(lambda s: s.put_run(tenant, rows, expected, blobs=blobs))
        if isinstance(answer, MinuetError):
            outcome = type(answer).__name__
        elif not answer or expected is not None:
            outcome = str(answer)
        self.seen["put_run", outcome] += 1

    async def discard(self, rng: Random) -> None:
        letters = await self._stores[0].list_dead_letters("a", status=None)
        if letters and rng.random() < 0.3:
            letter = rng.choice(letters)
            tenant = "b" if rng.random() < 0.1 else "a"
            named = (letter.run, letter.generation + (rng.random() < 0.1), rng.choice(("", "ключ")))
            answer = await self._ask(lambda s: s.discard_dead_letter(tenant, *named))
            self.seen["discard_dead_letter", str(answer)] += 1

    async def report(self, rng: Random) -> None:
        after = rng.choice(("", "", "5"))
        limit = rng.choice((0, 1, 100))
        found = await self._ask(lambda s: s.list_unreported(after=after, limit=limit))
        self.seen["list_unreported", "some" if found else "none"] += 1
        tenant, name, seq = "a", "none", 1
        if found:
            run = rng.choice(found)
            tenant, name, seq = run.tenant, run.run, run.seq - rng.choice((0, 0, 1))
        elif self._runs:
            tenant, name = rng.choice(self._runs)
        if not self.marks_reported:
            return
        answer = await self._ask(lambda s: s.mark_reported(tenant, name, seq))
        self.seen["mark_reported", str(answer)] += 1

    async def ask_people(self, rng: Random) -> None:
        """A run of a tenant of its own, which nothing else touches, that waits for a decision."""
        name = f"asks{len(self._asking):06d}"
        new = NewRun(name, "w1", "p1", tenant="n", entries=(Delivery("n1", "", True, 1, 1, "q9"),))
        await self._ask(lambda s: s.create_runs([new]))
        worker = self._session_names[0]
        number = self._sessions.get(("n", worker), 0)
        session: dict[str, Any] = {"session": worker, "tenant": "n", "lease_ms": LEASE_MS}
        lease, take = f"{name}-1", (Take(("q9",), 1),)
        taking = Exchange(seq=number + 1, lease=lease, take=take, runs=(name,), **session)
        await self._ask(lambda s: s.exchange(taking))
        item = Waiting(name, "n1", "", lease, kind="approval", key="k", data=b"{}")
        asking = Exchange(seq=number + 2, lease=f"{name}-2", hand_in=(item,), **session)
        await self._ask(lambda s: s.exchange(asking))
        self._sessions["n", worker] = number + 2
        self._asking.append(name)
        self.seen["ask_people", "waits"] += 1

    async def note(self, rng: Random) -> None:
        """What is notable, whoever has made it so, and marks that come in any order."""
        if self._asking and rng.random() < 0.5:
            run = rng.choice(self._asking)
            key = (run, "n1", "")
            answer = await self._ask(lambda s: s.resolve("n", key, b'"yes"', wait_key="k"))
            self.seen["decide", str(answer)] += 1
        after, limit = rng.choice(("", "", "5")), rng.choice((0, 1, 100))
        found = await self._ask(lambda s: s.list_notable(after=after, limit=limit))
        self.seen["list_notable", "some" if found else "none"] += 1
        if found and self.marks_reported:
            run = rng.choice(found)
            upto = rng.choice((run.seq, run.seq, run.notable, run.notable - 1))
            tenant = "b" if rng.random() < 0.1 else run.tenant
            answer = await self._ask(lambda s: s.mark_noted(tenant, run.run, upto))
            self.seen["mark_noted", str(answer)] += 1

    async def write_cells(self, rng: Random) -> None:
        if self._has_moved:
            return
        names = rng.sample(("a", "a/1", "a/10", "a/2", "ä/1", "b"), 3)
        changes = [
            CellChange(
                name,
                rng.choice((None, b"", b"1", b"\x00\xff")),
                rng.random() < 0.4,
                rng.choice((None, b"", b"1")),
            )
            for name in names
        ]
        answer = await self._ask(lambda s: s.write_cells(changes))
        self.seen["write_cells", str(answer)] += 1
        prefix, after = rng.choice(("", "a", "a/", "z")), rng.choice(("", "a/1"))
        limit = rng.choice((0, 2, 100))
        found = await self._ask(lambda s: s.list_cells(prefix, after=after, limit=limit))
        self.seen["list_cells", "some" if found else "none"] += 1

    # ── reads and blobs ─────────────────────────────────────────────────────────────────

    async def look(self, rng: Random) -> None:
        tenant, limit = rng.choice(TENANTS), rng.choice((0, 1, 3, 100))
        statuses: Any = tuple(
            rng.sample(("RUNNING", "COMPLETED", "FAILED", "PENDING"), rng.randint(0, 3))
        )
        workflow = rng.choice((None, "w1"))
        before = rng.choice((None, f"run{rng.randint(0, self._number + 1):06d}"))
        kind, key = rng.choice(("timer", "signal", "flow")), rng.choice((None, "k1", "ключ"))
        run = rng.choice(self._runs)[1] if self._runs and rng.random() < 0.5 else None
        status = rng.choice((None, "pending", "reprocessed", "discarded"))
        letters = await self._stores[0].list_dead_letters(tenant, status=None)
        places = [FIRST_PLACE, *(letter.place for letter in letters)]
        # One that is not there any more is a place as well.
        at_ms, *rest = rng.choice(places)
        after: Any = (at_ms + rng.choice((0, 0, 0, 1)), *rest)
        found = {
            "list_runs": await self._ask(
                lambda s: s.list_runs(
                    tenant, statuses=statuses, workflow=workflow, before=before, limit=limit
                )
            ),
            "list_waiting": await self._ask(
                lambda s: s.list_waiting(tenant, kind, key=key, limit=limit)
            ),
            "list_dead_letters": await self._ask(
                lambda s: s.list_dead_letters(
                    tenant, run=run, status=status, after=after, limit=limit
                )
            ),
            "list_queues": await self._ask(lambda s: s.list_queues()),
            "count_runs": await self._ask(lambda s: s.count_runs(tenant)),
            "list_tenants": await self._ask(lambda s: s.list_tenants()),
        }
        for name, rows in found.items():
            self.seen[name, "some" if rows else "none"] += 1
        await self._look_at_run(rng, tenant)

    async def _look_at_run(self, rng: Random, tenant: str) -> None:
        for _, g in self._granted[-20:]:
            key = (g.run, g.node, g.scope)
            steps = await self._ask(methodcaller("read_steps", tenant, key))
            self.seen["read_steps", "some" if steps else "none"] += 1
        if self._runs:
            run, after = rng.choice(self._runs)[1], rng.randint(0, 5)
            await self._ask(lambda s: s.read_run(tenant, run))
            await self._ask(lambda s: s.read_tokens(tenant, run))
            limit = rng.choice((1, 3))
            await self._ask(lambda s: s.read_events(tenant, run, after, limit))

    async def worker(self, rng: Random) -> None:
        tenant, name = rng.choice(TENANTS), rng.choice(("w1", "w2", "w3"))
        record = WorkerRecord(name, tenant, running=rng.randint(0, 9), capabilities={"x": [1.5]})
        verb = rng.choice(("register_worker", "register_worker", "drain_worker", "remove_worker"))
        if verb == "register_worker":
            answer = await self._ask(lambda s: s.register_worker(record))
        else:
            answer = await self._ask(lambda s: getattr(s, verb)(tenant, name))
        self.seen[verb, str(answer)] += 1
        limit = rng.choice((1, 100))
        found = await self._ask(lambda s: s.list_workers(tenant, limit=limit))
        self.seen["list_workers", "some" if found else "none"] += 1
        after = rng.choice(("", "q1"))
        queues = await self._ask(lambda s: s.find_queues(tenant, "q", after=after, limit=limit))
        self.seen["find_queues", "some" if queues else "none"] += 1

    async def deploy(self, rng: Random) -> None:
        """Versions of few workflows with few contents, so that many are the same; and reads."""
        tenant, name = rng.choice(TENANTS), rng.choice(("order", "Order", "über"))
        tags = rng.sample(("main", "canary", "ü"), rng.choice((0, 1, 1, 2)))
        new = WorkflowVersion(
            tenant,
            name,
            version=rng.choice((0, 0, 0, 0, 1, 2, 3, 9)),
            plan=rng.choice(("p1", "p2", "p3")),
            document=rng.choice(("d1", "d2")),
            message=rng.choice(("", "größer \x00")),
            created_ms=rng.choice((0, 5)),
            created_by=rng.choice(("", "Zoë")),
        )
        made = await self._ask(lambda s: s.deploy_workflow(new, tags))
        outcome = "refused" if made is None else "new" if made.is_new else "same"
        self.seen["deploy_workflow", outcome] += 1
        at = rng.choice((None, 0, 1, 2, 50, "main", "canary", "other"))
        found = await self._ask(lambda s: s.read_workflow(tenant, name, at))
        self.seen["read_workflow", "none" if found is None else "some"] += 1
        limit, number = rng.choice((0, 1, 3, 1000)), rng.randint(0, 12)
        workflows = await self._ask(lambda s: s.list_workflows(tenant, after="O", limit=limit))
        versions = await self._ask(
            lambda s: s.list_versions(tenant, after=("order", number), limit=limit)
        )
        self.seen["list_workflows", "some" if workflows else "none"] += 1
        self.seen["list_versions", "some" if versions else "none"] += 1
        if at == 50 and limit == 0:
            deleted = await self._ask(lambda s: s.delete_workflow(tenant, name))
            self.seen["delete_workflow", str(deleted)] += 1

    async def collect(self, rng: Random) -> None:
        """Blobs that belong to no run: touched, listed, and deleted as they were listed."""
        tenant, idle_ms = rng.choice(TENANTS), rng.choice((0, LEASE_MS, TOUCH_MS))
        refs = [blob_ref(data) for data in rng.sample(BLOBS, 2)]
        if rng.random() < 0.3:
            found = await self._ask(lambda s: s.touch_blobs(tenant, refs))
            self.seen["touch_blobs", "some" if found else "none"] += 1
        listed = await self._ask(lambda s: s.list_blobs(tenant, idle_ms=idle_ms, limit=2))
        self.seen["list_blobs", "some" if listed else "none"] += 1
        self._listed = [*self._listed[-5:], (tenant, listed)]
        if rng.random() < 0.3:
            owner, doomed = rng.choice(self._listed)
            count = await self._ask(lambda s: s.delete_blobs(owner, doomed))
            self.seen["delete_blobs", "some" if count else "none"] += 1
        plans = await self._ask(lambda s: _all_plans(s, tenant))
        self.seen["list_plans", "some" if plans else "none"] += 1
        forgotten = await self._ask(lambda s: s.forget_idle())
        self.seen["forget_idle", "some" if forgotten.workers else "none"] += 1

    async def blob(self, rng: Random) -> None:
        data = rng.choice(BLOBS)
        tenant, run = rng.choice(self._runs[-8:]) if self._runs else ("a", "none")
        tenant = rng.choice(TENANTS) if rng.random() < 0.2 else tenant
        owner = rng.choice((run, run, None))
        # Nobody's hide whether a run has its own.
        if owner is not None or data == BLOBS[0]:
            kept = await self._ask(lambda s: s.put_blob(data, run=owner, tenant=tenant))
            self.seen["put_blob", "refused" if isinstance(kept, MinuetError) else "kept"] += 1
        for asked in BLOBS:
            ref = blob_ref(asked)
            found = await self._ask(methodcaller("get_blob", ref, run=run, tenant=tenant))
            assert found in (None, asked)
            self.seen["get_blob", "none" if found is None else "some"] += 1


async def _all_plans(store: Store, tenant: str) -> list[str]:
    """How a store divides them into pages is its own affair."""
    found: set[str] = set()
    after = ""
    while True:
        plans, after = await store.list_plans(tenant, after=after, limit=3)
        found.update(plans)
        if not after:
            return sorted(found)


def given_back(rows: Snapshot, now_ms: int) -> None:
    """Make those tokens ready that somebody holds."""
    for token in rows.tokens:
        if token.state == "leased":
            token.state, token.lease, token.due_ms = "ready", "", now_ms
            token.slot, token.slot_limit = "", 0
            token.lane = "pause" if rows.run.status == "PAUSED" else ""


def describe(answer: Any) -> Any:
    """An answer as something that can be compared: errors by their kind, fields and words."""
    if isinstance(answer, MinuetError):
        return (type(answer), str(answer), vars(answer))
    if isinstance(answer, list):
        return [describe(part) for part in answer]
    return answer
