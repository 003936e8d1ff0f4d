"""Rows of the PostgreSQL store: as a transition loads them, and as they are written back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from minuet.store.exchange import Done, Exchange, NewStep
from minuet.store.fields import Row, decoder, encoder, names
from minuet.store.lenient import text_of
from minuet.store.postgres.columns import DIALECT, KEY, LISTS, SMALL_BYTES_MAX
from minuet.store.postgres.database import Link
from minuet.store.postgres.granted import Place
from minuet.store.postgres.known import Known
from minuet.store.postgres.statements import statement
from minuet.store.postgres.wanted import ArrivalKey, MissingRows, SlotKey, Wanted
from minuet.store.records import (
    FLOW_WAIT,
    SIGNAL_WAIT,
    Arrival,
    DeadLetter,
    EventRecord,
    Join,
    Key,
    Run,
    Signal,
    Token,
)
from minuet.store.rules.transition import Transition
from minuet.types import TERMINAL

_LOAD_ROWS = statement("load_rows")
_FIND_BLOBS = statement("find_run_blobs")
_INSERT_RUNS = statement("insert_runs")
_LOAD_STEPS = statement("load_steps")
_INSERT_STEPS = statement("insert_steps")
_INSERT_DEAD_LETTERS = statement("insert_dead_letters")
_REPROCESS_DEAD_LETTERS = statement("reprocess_dead_letters")
_SETTLE_DEAD_LETTER = statement("settle_dead_letter")
_REPAIR_TOKEN = statement("repair_token")
_KEPT_SIGNALS = statement("kept_signals")
_LOAD_KEPT = statement("load_kept")
_LOAD_SIGNALS = statement("load_signals")
_WAITING_IN_RUN = statement("waiting_in_run")
_LOAD_EVENTS = statement("load_events")
_WRITE_SIGNALS = statement("write_signals")

#: Rows as they come from the database. Those that come as a table's row may have more columns by
#: the time a later version has changed the table.
run_of = decoder(Run, LISTS["numbered_run"], DIALECT, is_open=True)
token_of = decoder(Token, LISTS["stored_token"], DIALECT, is_open=True)
join_of = decoder(Join, LISTS["join"], DIALECT, is_open=True)
arrival_of = decoder(Arrival, LISTS["arrival"], DIALECT)
dead_letter_of = decoder(DeadLetter, LISTS["dead_letter"], DIALECT)
signal_of = decoder(Signal, LISTS["signal"], DIALECT)
event_of = decoder(EventRecord, names(EventRecord), DIALECT)

#: Records as functions and statements take them.
run_row = encoder(Run, LISTS["run"], DIALECT)
_run_change = encoder(Run, ("run", *LISTS["run_change"]), DIALECT, given=("input",))
_token_row = encoder(Token, LISTS["stored_token"], DIALECT, given=("source_event",))
_token_new = encoder(Token, LISTS["token_new"], DIALECT, given=("due_ms", "source_event"))
_token_repair = encoder(Token, LISTS["token_repair"], DIALECT)
_token_begun = encoder(
    Token, (*LISTS["token_begun"], "lane"), DIALECT, given=("source_event", "lane")
)
_token_settled = encoder(
    Token, ("place", *KEY, "lease", "outcome", "event"), DIALECT, given=("place", "outcome")
)
_token_change = encoder(Token, (*KEY, *LISTS["token_change"]), DIALECT)
_join_row = encoder(Join, LISTS["join"], DIALECT)
_arrival_row = encoder(Arrival, LISTS["arrival"], DIALECT)
_event_row = encoder(EventRecord, LISTS["numbered_event"], DIALECT, given=("run_id",))
_dead_letter_row = encoder(DeadLetter, LISTS["dead_letter"], DIALECT)
_signal_row = encoder(Signal, LISTS["signal"], DIALECT)


class LastCall(msgspec.Struct):
    """What the session row says about its last call."""

    seq: int
    lease: str
    answer: bytes


class Rows:
    """The rows of one atomic step, loaded ahead, as a `Transition` asks for them."""

    def __init__(self, wanted: Wanted, *, inputs: bool) -> None:
        self._wanted = wanted
        #: Whether runs were loaded with their input; without, it is left unchanged.
        self._inputs = inputs
        self.now_ms = 0
        self.last_call: LastCall | None = None
        self.runs: dict[str, Run] = {}
        self._run_ids: dict[str, int] = {}
        self.tokens: dict[Key, Token] = {}
        #: Of tokens that are known and not loaded: where their rows lie.
        self.places: dict[Key, Place] = {}
        self._joins: dict[Key, Join] = {}
        self._arrivals: set[ArrivalKey] = set()
        self._holders: dict[SlotKey, int] = {}
        self._waiters: dict[SlotKey, list[Token]] = {}
        self._waiting_runs: dict[str, Run] = {}
        self.steps: dict[tuple[Key, str], bytes | None] = {}
        self.first_events: dict[str, bytes] = {}
        self._blobs: set[tuple[str, str]] = set()
        self._kept: list[Signal] = []
        self._signals: dict[tuple[str, str], Signal] = {}
        self._events: dict[tuple[str, int], bytes] = {}

    # ── loading ─────────────────────────────────────────────────────────────────────────

    async def load(self, link: Link, now_ms: int | None, session: str | None = None) -> None:
        """Lock and load what is wanted."""
        wanted = self._wanted
        row = await link.row(
            _LOAD_ROWS, wanted.tenant, session, now_ms, self._inputs, *wanted.arguments()
        )
        self.now_ms, seq, lease, answer, runs, tokens, whole, joins, arrivals, slots, others = row
        if session is not None:
            self.last_call = LastCall(seq, lease, answer)
        for run in runs or ():
            self.add_run(run)
        # What was loaded under its own lock comes last: it is the newer one.
        for token in (*(tokens or ()), *(whole or ())):
            self.tokens[token[0], token[1], token[2]] = token_of(token)
        for join in joins or ():
            self._joins[join[0], join[1], join[2]] = join_of(join)
        if arrivals:
            keys = list(wanted.arrivals)
            self._arrivals = {keys[place - 1] for place in arrivals}
        for tenant, slot, holders, waiters in slots or ():
            key = (tenant, text_of(slot))
            self._holders[key] = holders
            self._waiters[key] = [token_of(waiter) for waiter in waiters]
        self._waiting_runs = {run[1]: run_of(run) for run in others or ()}
        if wanted.blobs:
            runs, refs = zip(*wanted.blobs, strict=True)
            self._blobs = {tuple(row) for row in await link.rows(_FIND_BLOBS, runs, refs)}
        if wanted.kept or wanted.signals:
            await self._load_signals(link)
        if wanted.received:
            kept = await link.rows(_LOAD_KEPT, *columns_of(wanted.received))
            self._kept += map(signal_of, kept)

    async def _load_signals(self, link: Link) -> None:
        """What a step about signals needs; most steps are not, and ask for none of it."""
        wanted = self._wanted
        kept = await link.rows(_KEPT_SIGNALS, list(wanted.kept))
        self._kept = [signal_of(row) for row in kept]
        if wanted.signals:
            found = map(signal_of, await link.rows(_LOAD_SIGNALS, *columns_of(wanted.signals)))
            self._signals = {signal.key: signal for signal in found}
        for run, name in wanted.waiting:
            asked = (wanted.tenant, SIGNAL_WAIT, name.encode(), run, FLOW_WAIT)
            for row in await link.rows(_WAITING_IN_RUN, *asked):
                self.tokens[row[0], row[1], row[2]] = token_of(row)
        if wanted.events:
            events = await link.rows(_LOAD_EVENTS, *columns_of(wanted.events))
            self._events = {(run, seq): data for run, seq, data in events}

    async def load_steps(self, link: Link, steps: Sequence[NewStep]) -> None:
        """Load those of some steps, and of those that they follow, that are recorded. Their runs
        are locked before."""
        names = [
            ((new.run, new.node, new.scope), name)
            for new in steps
            for name in (new.name, new.after)
            if name
        ]
        self.steps = dict.fromkeys(names)
        if not names:
            return
        asked = [(*key, name.encode()) for key, name in names]
        for place, value in await link.rows(_LOAD_STEPS, *columns_of(asked)):
            self.steps[names[place - 1]] = value

    def add_run(self, row: Row) -> Run:
        """Add a run that was loaded in another way."""
        run = run_of(row)
        self.runs[run.run] = run
        self._run_ids[run.run] = row[0]
        return run

    def know(self, known: Known, request: Exchange) -> None:
        """Use rows that are known instead of loading them. Targets and arrivals count as new: if
        one is there already, the database refuses it."""
        for item in request.hand_in:
            key = (item.run, item.node, item.scope)
            self.places[key], self.tokens[key] = known.tokens[key]
            self._wanted.want_token(key)
            self._run_ids[item.run], self.runs[item.run] = known.runs[item.run]
            if isinstance(item, Done):
                for delivery in item.deliveries:
                    target = (item.run, delivery.node, delivery.scope)
                    self._wanted.tokens[target] = None
                    if delivery.total > 1:
                        self._wanted.arrivals[*target, item.node] = None
        self.know_joins(known, self.runs)

    def know_joins(self, known: Known, runs: Iterable[str]) -> None:
        """Use the joins that are known of some runs, but for those that were loaded."""
        for run in runs:
            if joins := known.joins_of(run, self.runs[run].seq):
                self._joins = joins | self._joins

    def numbered(self, runs: Iterable[str]) -> list[tuple[int, Run]]:
        """Runs with their numbers in the database."""
        return [(self._run_ids[run], self.runs[run]) for run in runs]

    def joins(
        self, step: Transition, runs: Collection[str]
    ) -> dict[str, tuple[int, dict[Key, Join]]]:
        """The joins of runs after a step that more will arrive at, and how many events these runs
        have."""
        found: dict[str, tuple[int, dict[Key, Join]]] = {}
        for key, join in (self._joins | step.joins).items():
            run = key[0]
            if run in runs and join.live + join.skipped < join.total:
                found.setdefault(run, (step.runs[run].seq, {}))[1][key] = join
        return found

    def take_slots(self, newer: Rows) -> None:
        """Who holds and waits for slots, as it was loaded later."""
        self._holders, self._waiters = newer._holders, newer._waiters

    # ── as a transition asks ────────────────────────────────────────────────────────────

    def _is_absent(self, run: str) -> bool:
        return run in self._wanted.runs and run not in self.runs

    def load_run(self, run: str) -> Run | None:
        found = self.runs.get(run)
        if found is None and run not in self._wanted.runs:
            # Of a run with a token that waits for a slot, only the state is read.
            found = self._waiting_runs.get(run)
            if found is None:
                raise MissingRows("run", run)
        return found

    def load_token(self, key: Key) -> Token | None:
        found = self.tokens.get(key)
        if found is None and key not in self._wanted.tokens and not self._is_absent(key[0]):
            raise MissingRows("token", key)
        return found

    def has_token(self, key: Key) -> bool:
        return self.load_token(key) is not None

    def hold_token(self, key: Key) -> None:
        # Tokens that are loaded with all of their run are locked.
        if key[0] not in self._wanted.whole:
            raise MissingRows("whole", key[0])

    def load_join(self, key: Key) -> Join | None:
        return self._joins.get(key)  # Loaded with the arrivals, which are asked for first.

    def has_arrival(self, key: Key, source: str) -> bool:
        arrival = (*key, source)
        if arrival not in self._wanted.arrivals and not self._is_absent(key[0]):
            raise MissingRows("arrival", arrival)
        return arrival in self._arrivals

    def has_own_blob(self, run: str, ref: str) -> bool:
        if (run, ref) not in self._wanted.blobs:
            raise MissingRows("blob", (run, ref))
        return (run, ref) in self._blobs

    def find_tokens(self, run: str, states: tuple[str, ...]) -> list[Token]:
        if run not in self._wanted.whole and not self._is_absent(run):
            raise MissingRows("whole", run)
        return [t for t in self.tokens.values() if t.run == run and t.state in states]

    def find_waiters(self, tenant: str, slot: str) -> list[Token]:
        if (tenant, slot) not in self._waiters:
            raise MissingRows("slot", (tenant, slot))
        return self._waiters[tenant, slot]

    def count_holders(self, tenant: str, slot: str) -> int:
        if (tenant, slot) not in self._holders:
            raise MissingRows("slot", (tenant, slot))
        return self._holders[tenant, slot]

    def load_step(self, key: Key, name: str, *, with_signal: bool) -> bytes | None:
        return self.steps[key, name]

    def has_step(self, key: Key, name: str) -> bool:
        return self.steps[key, name] is not None

    def load_event(self, run: str, seq: int) -> bytes | None:
        if seq == 1:
            return self.first_events.get(run)
        if (run, seq) not in self._wanted.events:
            raise MissingRows("event", (run, seq))
        return self._events.get((run, seq))

    def load_signal(self, run: str, id: str) -> Signal | None:
        if (run, id) not in self._wanted.signals:
            raise MissingRows("signal", (run, id))
        return self._signals.get((run, id))

    def find_signals(self, run: str) -> list[Signal]:
        if run not in self._wanted.kept:
            raise MissingRows("kept", run)
        return [signal for signal in self._kept if signal.run == run]

    def load_kept(self, run: str, seq: int) -> Signal | None:
        assert (run, seq) in self._wanted.received
        return next((one for one in self._kept if (one.run, one.seq) == (run, seq)), None)

    def find_waiting(self, run: Run, kind: str, key: str | None = None) -> list[Token]:
        assert any(run.run == wanted for wanted, _ in self._wanted.waiting)
        return [
            token
            for token in self.tokens.values()
            if (token.run, token.state, token.wait) == (run.run, "waiting", kind)
            and key in (None, token.wait_key)
        ]

    # ── writing back ────────────────────────────────────────────────────────────────────

    async def write_rare(self, link: Link, step: Transition) -> None:
        """Write what most steps have none of."""
        if step.new_runs:
            rows = [run_row(step.runs[run]) for run in sorted(step.new_runs)]
            for run, number in await link.rows(_INSERT_RUNS, rows):
                self._run_ids[run] = number
        if step.steps:
            steps = [(*key, name.encode(), value) for (key, name), value in step.steps.items()]
            await link.run(_INSERT_STEPS, *columns_of(steps))
        if step.reprocessed:
            await link.run(_REPROCESS_DEAD_LETTERS, sorted(step.reprocessed), step.now_ms)
        for settled, generation, status, why in step.settled_letters:
            how = (status, step.now_ms, why.encode())
            await link.run(_SETTLE_DEAD_LETTER, *settled, generation, *how)
        for repaired in step.repaired_tokens:
            await link.run(_REPAIR_TOKEN, *repaired, *_token_repair(step.tokens[repaired]))
        if step.dead_letters:
            letters = [_dead_letter_row(letter) for letter in step.dead_letters]
            await link.run(_INSERT_DEAD_LETTERS, letters)
        if step.signals:
            await link.run(_WRITE_SIGNALS, [_signal_row(one) for one in step.signals.values()])

    def changes(self, step: Transition) -> tuple[list[Row], ...]:
        """What a step has changed, as `write_rows` takes it."""
        rewritten = step.rewritten_runs - step.new_runs
        advanced = step.changed_runs - step.rewritten_runs - step.new_runs
        large = _large_events(step)
        return (
            [(run, step.runs[run].counter, step.runs[run].seq) for run in advanced],
            [self._changed_run(step.runs[run]) for run in rewritten],
            [_new_token(step, step.tokens[key], large) for key in step.new_tokens],
            [_token_change(step.tokens[key]) for key in _changed(step)],
            [_join_row(step.joins[key]) for key in step.changed_joins],
            [_arrival_row(arrival) for arrival in step.arrivals.values()],
            [_event_row(event, self._run_ids[event.run]) for event in step.events],
        )

    def settlement(self, step: Transition, seqs: dict[str, int]) -> tuple[list[Row], ...]:
        """What a step on known rows has changed, as `settle_rows` takes it. Results of tokens
        end and begin tokens and arrive at joins, and nothing else; a run that they change
        otherwise has ended. Only the time is the database's to add. A column whose type is one of
        this schema's is expensive to read, so what it mostly is goes without saying."""
        tokens = step.tokens
        runs = []
        for name, seq in seqs.items():
            run = step.runs[name]
            ended = run.status if name in step.rewritten_runs else None
            assert (ended in TERMINAL) == (run.counter == 0)
            runs.append((name, seq, run.counter, run.seq, ended, run.unreported))
        settled = [(tokens[key], place) for key, place in self.places.items()]
        begun = [tokens[key] for key in tokens if key in step.new_tokens]
        large = _large_events(step)
        return (
            runs,
            [
                _token_settled(one, place, None if one.outcome == "completed" else one.outcome)
                for one, place in settled
            ],
            [
                _token_begun(token, _source_event(step, token, large), token.lane or None)
                for token in begun
            ],
            [_join_row(step.joins[key]) for key in step.changed_joins],
            [_arrival_row(arrival) for arrival in step.arrivals.values()],
            [(self._run_ids[e.run], e.seq, e.data) for e in step.events],
        )

    def _changed_run(self, run: Run) -> Row:
        return _run_change(run, run.input if self._inputs else None)


def columns_of(keys: Iterable[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    """Rows as a statement takes them: a list for each column."""
    return tuple(list(column) for column in zip(*keys, strict=True))


def _changed(step: Transition) -> Iterable[Key]:
    """Tokens to update: a new one is written as it began, so only if it has ended since."""
    tokens = step.tokens
    return [
        key
        for key in step.changed_tokens
        if key not in step.new_tokens or tokens[key].state != "ready"
    ]


def token_rows(step: Transition) -> list[Row]:
    """The current rows of new tokens, with all their columns."""
    large = _large_events(step)
    tokens = [step.tokens[key] for key in step.new_tokens]
    return [_token_row(token, _source_event(step, token, large)) for token in tokens]


def _new_token(step: Transition, token: Token, large: set[tuple[str, int]]) -> Row:
    """A token's first row."""
    due_ms = token.due_ms if token.state == "ready" else 0
    return _token_new(token, due_ms, _source_event(step, token, large))


def _large_events(step: Transition) -> set[tuple[str, int]]:
    """Those of a step's events that tokens do not name as the one with their source's output."""
    return {(e.run, e.seq) for e in step.events if len(e.data) > SMALL_BYTES_MAX}


def _source_event(step: Transition, token: Token, large: set[tuple[str, int]]) -> int:
    """Number of the event with the output of the node that made a token ready; 0 if it is large,
    or was written long ago: a patch delivers for nodes that have ended before."""
    if not token.source:
        return 0
    key = (token.run, token.source, token.source_scope)
    source = step.tokens.get(key)
    if source is None or key not in step.changed_tokens:
        return 0
    return 0 if large and (token.run, source.event) in large else source.event
