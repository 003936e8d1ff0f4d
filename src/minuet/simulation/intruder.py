"""An intruder who knows every id of other tenants and tries all verbs with them (I24).

Its calls reach the store at any moment, under its own tenant or under another real one.
None of them may change anything, and the replies must be as if nothing existed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from minuet.errors import MinuetError, RunConflictError, RunNotFoundError, SessionError
from minuet.simulation.checker import BrokenRule
from minuet.simulation.coverage import HOSTILE, Coverage
from minuet.simulation.loop import Process
from minuet.simulation.server import Server, apply
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    NewRun,
    Pause,
    Resume,
    RetryRun,
    SendSignal,
)
from minuet.store.exchange import (
    Done,
    Exchange,
    Failed,
    Held,
    NewStep,
    Released,
    Reply,
    Retried,
    Slot,
    Take,
    Waiting,
)
from minuet.store.records import Run, Snapshot, Token

#: A tenant without runs.
INTRUDER = "intruder"

#: Mean seconds between two attempts.
GAP = 0.6

#: A call, and whether its reply reveals nothing.
Attempt = tuple[Callable[[], Coroutine[Any, Any, Any]], Callable[[Any], bool]]


class Intruder:
    """Tries to reach the runs of other tenants."""

    def __init__(
        self,
        server: Server,
        process: Process,
        tenants: tuple[str, ...],
        chance: random.Random,
        coverage: Coverage,
        fail: Callable[[BrokenRule], None],
        trace: Callable[[str], None],
    ) -> None:
        self._server = server
        self._model = server.model
        self.process = process
        self._tenants = tenants
        self._chance = chance
        self._coverage = coverage
        self._fail = fail
        self._trace = trace
        self._number = 0

    async def run(self) -> None:
        """Keep trying."""
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / GAP))
            runs = self._model.runs()
            if runs and self._server.state == "up":
                self._try(self._chance.choice(runs))

    def _try(self, run: Run) -> None:
        others = [tenant for tenant in self._tenants if tenant != run.tenant]
        tenant = self._chance.choice((INTRUDER, *others))
        tokens = self._model.tokens(run.run)
        token = self._chance.choice(tokens) if tokens else None
        verb = self._chance.choice(HOSTILE)
        made = getattr(self, f"_{verb}")(tenant, run, token)
        if made is None:
            return
        operation, is_silent = made
        before = self._look(tenant)
        result, error = apply(operation())
        self._coverage.hit(f"hostile {verb}")
        self._trace(f"intruder as {tenant} {verb} {run.run[-4:]}: {result!r:.60} {error!r:.60}")
        if self._look(tenant) != before:
            self._broken(f"{verb} by {tenant!r} has changed something", run)
        if not is_silent(result if error is None else error):
            reply = result if error is None else error
            self._broken(f"{verb} by {tenant!r} gets {reply!r:.200}", run)
        self._model.drain_changed()

    def _look(self, tenant: str) -> dict[str, Any]:
        tables = self._model.copy_tables()
        # Its own session is not a secret of others.
        mine = [key for key in tables["_sessions"] if key[0] == tenant]
        for key in mine:
            del tables["_sessions"][key]
        return tables

    def _broken(self, message: str, run: Run) -> None:
        self._fail(BrokenRule("I24", message, run.run))

    # ── what it tries ───────────────────────────────────────────────────────────────────

    def _exchange(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        if token is None:
            return None
        self._number += 1
        held = (*token.key, token.lease)
        item = self._chance.choice(
            (
                Done(*held, run.plan),
                Retried(*held),
                Failed(*held, dead_letter="hostile"),
                Waiting(*held, delay_ms=1),
                Released(*held),
                Slot(*held, "k", 1),
            )
        )
        take = (Take(tuple(sorted({"", "inline", token.queue})), 10),) if tenant == INTRUDER else ()
        request = Exchange(
            session=f"hostile-{self._number}",
            seq=1,
            lease=f"hostile-{self._number}",
            tenant=tenant,
            hand_in=(item,),
            renew=(Held(*held),),
            take=take,
        )

        def is_silent(answer: Any) -> bool:
            return isinstance(answer, Reply) and (
                (answer.results, answer.revoked, answer.granted, answer.runs)
                == (("stale",), request.renew, (), {})
            )

        return lambda: self._model.exchange(request), is_silent

    def _repeat(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        """Repeat the last call of another tenant's session."""
        if token is None or not token.session:
            return None
        last = self._model.session(run.tenant, token.session)
        if last is None or self._model.session(tenant, token.session) is not None:
            return None
        request = Exchange(token.session, *last, tenant=tenant)

        def is_silent(answer: Any) -> bool:
            if isinstance(answer, Reply):
                return (answer.results, answer.revoked, answer.granted) == ((), (), ())
            return isinstance(answer, SessionError)

        return lambda: self._model.exchange(request), is_silent

    def _change_run(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        changes: tuple[Change, ...] = (
            *(Cancel(), Pause(), Resume(), RetryRun(), NewPlan(run.plan)),
            SendSignal("s0", "intruder"),
        )
        change = self._chance.choice(changes)
        return (
            lambda: self._model.change_run(tenant, run.run, change),
            lambda answer: type(answer) is RunNotFoundError,
        )

    def _resolve(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        if token is None:
            return None
        return lambda: self._model.resolve(tenant, token.key, b"1"), _is(False)

    def _record_steps(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        if token is None:
            return None
        new = NewStep(*token.key, token.lease, "first", b"1", self._chance.choice((0, 2)))
        return lambda: self._model.record_steps(tenant, [new]), _is(["lost"])

    def _delete_runs(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        return lambda: self._model.delete_runs(tenant, [run.run]), _is(0)

    def _put_run(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        """Put a run's rows unchanged, or as if they were its own."""
        rows, _ = apply(self._model.read_snapshot(run.tenant, run.run))
        if self._chance.random() < 0.5:
            own = msgspec.structs.replace(run, tenant=tenant, idempotency_key=None)
            rows = Snapshot(run=own, events=rows.events)
        expected = self._chance.choice((run.seq, None))
        return lambda: self._model.put_run(tenant, rows, expected), _is(False)

    def _create_runs(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        """Create a run with the id of another tenant's run."""
        new = NewRun(run.run, run.workflow, run.plan, tenant, run.input)

        def is_silent(answer: Any) -> bool:
            (conflict,) = answer
            return isinstance(conflict, RunConflictError) and (conflict.status, conflict.seq) == (
                "",
                0,
            )

        return lambda: self._model.create_runs([new]), is_silent

    def _discard_dead_letter(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        return (
            lambda: self._model.discard_dead_letter(tenant, run.run, run.generation),
            _is(False),
        )

    def _read(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        model, name = self._model, run.run
        key = token.key if token is not None else (name, "n0", "")
        reads: tuple[Attempt, ...] = (
            (lambda: model.read_run(tenant, name), _is(None)),
            (lambda: model.read_snapshot(tenant, name), _is(None)),
            (lambda: model.read_events(tenant, name), _is([])),
            (lambda: model.read_tokens(tenant, name), _is([])),
            (lambda: model.read_steps(tenant, key), _is({})),
            (lambda: model.read_signals(tenant, name), _is([])),
            (lambda: model.list_dead_letters(tenant, run=name, status=None), _is([])),
        )
        return self._chance.choice(reads)

    def _list(self, tenant: str, run: Run, token: Token | None) -> Attempt:
        model = self._model

        def are_mine(rows: Any) -> bool:
            return all(row.tenant == tenant for row in rows)

        lists: tuple[Attempt, ...] = (
            (lambda: model.list_runs(tenant), are_mine),
            (lambda: model.list_runs(tenant, workflow=run.workflow), are_mine),
            (lambda: model.list_waiting(tenant, "timer"), are_mine),
            (lambda: model.list_dead_letters(tenant, status=None), are_mine),
        )
        return self._chance.choice(lists)

    def _get_blob(self, tenant: str, run: Run, token: Token | None) -> Attempt | None:
        if self._model.has_blob(tenant, run.run, run.plan):
            # It has its own copy of the plan.
            return None
        return lambda: self._model.get_blob(run.plan, run=run.run, tenant=tenant), _is(None)


def _is(expected: Any) -> Callable[[Any], bool]:
    return lambda answer: not isinstance(answer, MinuetError) and answer == expected
