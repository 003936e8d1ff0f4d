"""Rows of the SQLite store: loading them for a transition and writing back what it changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minuet.store.exchange import Done, Exchange
from minuet.store.fields import Row, decoder, encoder, names, to_json
from minuet.store.records import Arrival, DeadLetter, EventRecord, Join, Key, Run, Signal, Token
from minuet.store.rules.transition import Transition
from minuet.store.sqlite.batches import Batch
from minuet.store.sqlite.columns import DIALECT, LISTS
from minuet.store.sqlite.known import BYTES_MAX, Known
from minuet.store.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

_LOAD_RUNS = statement("load_runs")
_LOAD_TOKENS = statement("load_tokens")
_LOAD_JOINS = statement("load_joins")
_LOAD_ARRIVALS = statement("load_arrivals")
_HAS_TOKEN = statement("has_token")
_TOKENS_OF_RUN = statement("tokens_of_run")
_SLOT_WAITERS = statement("slot_waiters")
_SLOT_HOLDERS = statement("slot_holders")
_LOAD_STEP = statement("load_step")
_LOAD_EVENT = statement("load_event")
_LAST_RUN_ID = statement("last_run_id")
_LAST_TOKEN_ID = statement("last_token_id")
_HAS_BLOB = statement("has_blob")
_INSERT_RUN = Batch("insert_run")
_ADVANCE_RUN = Batch("advance_run", "advance_runs")
_UPDATE_RUN = Batch("update_run", "update_runs")
_INSERT_TOKEN = Batch("insert_token")
_BEGIN_TOKEN = Batch("begin_token")
_UPDATE_TOKEN = statement("update_token")
_SETTLE_TOKEN = Batch("settle_token", "settle_tokens")
_REPAIR_TOKEN = statement("repair_token")
_WRITE_JOIN = statement("write_join")
_INSERT_ARRIVAL = Batch("insert_arrival")
_INSERT_EVENT = Batch("insert_event")
_INSERT_STEP = statement("insert_step")
_INSERT_DEAD_LETTER = statement("insert_dead_letter")
_REPROCESS_DEAD_LETTERS = statement("reprocess_dead_letters")
_SETTLE_DEAD_LETTER = statement("settle_dead_letter")
_LOAD_SIGNAL = statement("load_signal")
_LOAD_KEPT = statement("load_kept")
_KEPT_SIGNALS = statement("kept_signals")
_WAITING_IN_RUN = statement("waiting_in_run")
_WAITING_FOR_KEY_IN_RUN = statement("waiting_for_key_in_run")
_WRITE_SIGNAL = statement("write_signal")

#: Rows as statements return them: runs and tokens with their numbers in the file.
run_of = decoder(Run, LISTS["numbered_run"], DIALECT)
token_of = decoder(Token, LISTS["numbered_token"], DIALECT)
join_of = decoder(Join, LISTS["join"], DIALECT)
arrival_of = decoder(Arrival, LISTS["arrival"], DIALECT)
dead_letter_of = decoder(DeadLetter, LISTS["dead_letter"], DIALECT)
signal_of = decoder(Signal, LISTS["signal"], DIALECT)
event_of = decoder(EventRecord, names(EventRecord), DIALECT)

#: Records as statements write them, and what a step changes of them, with the number last.
_run_row = encoder(Run, LISTS["numbered_run"], DIALECT, given=("id",))
_run_change = encoder(Run, (*LISTS["run_change"], "id"), DIALECT, given=("id",))
_token_row = encoder(Token, LISTS["numbered_token"], DIALECT, given=("id",))
_token_begun = encoder(Token, LISTS["begun_token"], DIALECT, given=("id",))
_token_change = encoder(Token, (*LISTS["token_change"], "id"), DIALECT, given=("id",))
_token_repair = encoder(Token, (*LISTS["token_repair"], "id"), DIALECT, given=("id",))
_join_row = encoder(Join, LISTS["join"], DIALECT)
_arrival_row = encoder(Arrival, LISTS["arrival"], DIALECT)
_event_row = encoder(EventRecord, LISTS["numbered_event"], DIALECT, given=("run_id",))
_dead_letter_row = encoder(DeadLetter, LISTS["dead_letter"], DIALECT)
_signal_row = encoder(Signal, LISTS["signal"], DIALECT)


class Rows:
    """The rows of one atomic step, as a `Transition` loads them.

    What is known to be needed is loaded ahead, in a few statements for a whole group of calls;
    anything else is loaded when it is asked for. A row that is known is one object and is
    never copied, so later reads see a change.
    """

    def __init__(self, db: apsw.Connection, known: Known, *, careful: bool = True) -> None:
        self._db = db
        self._known = known
        #: Check whether a token or a step exists before one is made. Otherwise the unique index
        #: finds out, and the whole group is applied again with care: it hardly ever happens.
        self._careful = careful
        #: Runs and tokens with their numbers in the file; None: there is no such row.
        self._runs: dict[str, tuple[int, Run] | None] = {}
        self._tokens: dict[Key, tuple[int, Token] | None] = {}
        self._joins: dict[Key, Join | None] = {}
        self._arrivals: dict[tuple[str, str, str, str], bool] = {}

    # ── loading ahead ───────────────────────────────────────────────────────────────────

    def look_ahead(self, requests: Iterable[Exchange], step: Transition) -> None:
        """Load what these exchanges hand in and renew, and the joins that they deliver to."""
        tokens: dict[Key, None] = {}
        arrivals: dict[tuple[str, str, str, str], None] = {}
        for request in requests:
            for item in request.hand_in:
                tokens[item.run, item.node, item.scope] = None
                if isinstance(item, Done):
                    for d in item.deliveries:
                        if d.total > 1:
                            arrivals[item.run, d.node, d.scope, item.node] = None
            for held in request.renew:
                tokens[held.run, held.node, held.scope] = None
        self.load_tokens(tokens)
        self.load_runs({key[0]: None for key in tokens})
        if arrivals:
            self._load_joins(list(arrivals))
        # Given to the step at once, so that it need not ask for each of them.
        step.tokens = {key: entry[1] for key, entry in self._tokens.items() if entry is not None}
        step.runs = {run: entry[1] for run, entry in self._runs.items() if entry is not None}

    def load_runs(self, runs: Iterable[str]) -> None:
        """Load runs by name."""
        mine, known = self._runs, self._known.runs
        missing = []
        for run in runs:
            if run not in mine:
                entry = mine[run] = known.get(run)
                if entry is None:
                    missing.append(run)
        if missing:
            for row in self._db.execute(_LOAD_RUNS, (to_json(missing),)):
                mine[row[1]] = (row[0], run_of(row))

    def load_tokens(self, keys: Iterable[Key]) -> None:
        """Load tokens by key."""
        mine, known = self._tokens, self._known.tokens
        missing = []
        for key in keys:
            if key not in mine:
                entry = mine[key] = known.get(key)
                if entry is None:
                    missing.append(key)
        if missing:
            for row in self._db.execute(_LOAD_TOKENS, (to_json(missing),)):
                mine[row[1:4]] = (row[0], token_of(row))

    def _load_joins(self, arrivals: list[tuple[str, str, str, str]]) -> None:
        joins = list({key[:3]: None for key in arrivals if key[:3] not in self._joins})
        if joins:
            self._joins.update(dict.fromkeys(joins))
            for row in self._db.execute(_LOAD_JOINS, (to_json(joins),)):
                self._joins[row[:3]] = join_of(row)
        self._arrivals.update(dict.fromkeys(arrivals, False))
        for row in self._db.execute(_LOAD_ARRIVALS, (to_json(arrivals),)):
            self._arrivals[row] = True

    def _token(self, row: Row) -> Token:
        key = row[1:4]
        entry = self._tokens.get(key) or self._known.tokens.get(key)
        if entry is None:
            entry = (row[0], token_of(row))
        self._tokens[key] = entry
        return entry[1]

    # ── as a transition asks ────────────────────────────────────────────────────────────

    def load_run(self, run: str) -> Run | None:
        if run not in self._runs:
            self.load_runs([run])
        entry = self._runs[run]
        return None if entry is None else entry[1]

    def load_token(self, key: Key) -> Token | None:
        if key not in self._tokens:
            self.load_tokens([key])
        entry = self._tokens[key]
        return None if entry is None else entry[1]

    def has_token(self, key: Key) -> bool:
        return self._careful and self._db.execute(_HAS_TOKEN, key).get is not None

    def hold_token(self, key: Key) -> None:
        pass  # There is one writer at a time.

    def load_join(self, key: Key) -> Join | None:
        if key not in self._joins:
            self._load_joins([(*key, "")])
        return self._joins[key]

    def has_arrival(self, key: Key, source: str) -> bool:
        arrival = (*key, source)
        if arrival not in self._arrivals:
            self._load_joins([arrival])
        return self._arrivals[arrival]

    def has_own_blob(self, run: str, ref: str) -> bool:
        return self._db.execute(_HAS_BLOB, (run, ref)).get is not None

    def find_tokens(self, run: str, states: tuple[str, ...]) -> list[Token]:
        rows = self._db.execute(_TOKENS_OF_RUN, (run, to_json(states)))
        return [self._token(row) for row in rows]

    def find_waiters(self, tenant: str, slot: str) -> list[Token]:
        return [self._token(row) for row in self._db.execute(_SLOT_WAITERS, (tenant, slot))]

    def count_holders(self, tenant: str, slot: str) -> int:
        return int(self._db.execute(_SLOT_HOLDERS, (tenant, slot)).get)

    def load_step(self, key: Key, name: str, *, with_signal: bool) -> bytes | None:
        if not (self._careful or with_signal):
            return None
        value = self._db.execute(_LOAD_STEP, (*key, name)).get
        return None if value is None else bytes(value)

    def has_step(self, key: Key, name: str) -> bool:
        return self._db.execute(_LOAD_STEP, (*key, name)).get is not None

    def load_event(self, run: str, seq: int) -> bytes | None:
        value = self._db.execute(_LOAD_EVENT, (run, seq)).get
        return None if value is None else bytes(value)

    def load_signal(self, run: str, id: str) -> Signal | None:
        for row in self._db.execute(_LOAD_SIGNAL, (run, id)):
            return signal_of(row)
        return None

    def find_signals(self, run: str) -> list[Signal]:
        return [signal_of(row) for row in self._db.execute(_KEPT_SIGNALS, (run,))]

    def load_kept(self, run: str, seq: int) -> Signal | None:
        for row in self._db.execute(_LOAD_KEPT, (run, seq)):
            return signal_of(row)
        return None

    def find_waiting(self, run: Run, kind: str, key: str | None = None) -> list[Token]:
        if key is None:
            rows = self._db.execute(_WAITING_IN_RUN, (run.tenant, kind, run.run))
        else:
            rows = self._db.execute(_WAITING_FOR_KEY_IN_RUN, (run.tenant, kind, key, run.run))
        return [self._token(row) for row in rows]

    # ── writing back ────────────────────────────────────────────────────────────────────

    def write(self, step: Transition) -> None:
        """Write what a transition changed."""
        self.write_changes(step)
        self.insert_tokens([step.tokens[key] for key in step.new_tokens])

    def write_changes(self, step: Transition) -> None:
        """Write what a transition changed, except for the tokens that it made."""
        step.promote_waiters()
        db = self._db
        self._insert_runs(step)
        self._update_runs(step)
        self._update_tokens(step)
        if step.changed_joins:
            db.executemany(_WRITE_JOIN, [_join_row(step.joins[key]) for key in step.changed_joins])
        if step.arrivals:
            _INSERT_ARRIVAL.write(db, [_arrival_row(one) for one in step.arrivals.values()])
        if step.events:
            _INSERT_EVENT.write(db, [self._numbered(event) for event in step.events])
        if step.steps:
            steps = [(*key, name, value) for (key, name), value in step.steps.items()]
            db.executemany(_INSERT_STEP, steps)
        for run in step.reprocessed:
            self._db.execute(_REPROCESS_DEAD_LETTERS, {"run": run, "now": step.now_ms})
        for settled, generation, status, why in step.settled_letters:
            letter_key = (*settled, generation)
            self._db.execute(_SETTLE_DEAD_LETTER, (status, step.now_ms, why, *letter_key))
        for letter in step.dead_letters:
            self._db.execute(_INSERT_DEAD_LETTER, _dead_letter_row(letter))
        for signal in step.signals.values():
            self._db.execute(_WRITE_SIGNAL, _signal_row(signal))
        for key, output in step.outputs.items():
            if len(output) <= BYTES_MAX:
                self._known.outputs[key] = output

    def insert_tokens(self, tokens: Sequence[Token]) -> None:
        """Write tokens that are new, in any state."""
        if tokens:
            numbered = self._numbered_tokens(tokens)
            rows = [_token_row(token, number) for number, token in numbered]
            _INSERT_TOKEN.write(self._db, rows)

    def begin_tokens(self, tokens: Sequence[Token]) -> None:
        """Write tokens that an exchange has made, and perhaps taken or ended since."""
        begun = [token for token in tokens if not token.outcome]
        if begun:
            numbered = self._numbered_tokens(begun)
            rows = [_token_begun(token, number) for number, token in numbered]
            _BEGIN_TOKEN.write(self._db, rows)
        if len(begun) < len(tokens):
            self.insert_tokens([token for token in tokens if token.outcome])

    def _numbered_tokens(self, tokens: Sequence[Token]) -> list[tuple[int, Token]]:
        """New tokens with their numbers in the file; those that are leased are known from now."""
        first = int(self._db.execute(_LAST_TOKEN_ID).get) + 1
        numbered = list(enumerate(tokens, start=first))
        for entry in numbered:
            if entry[1].state == "leased":
                self._known.tokens[entry[1].key] = entry
        return numbered

    def _insert_runs(self, step: Transition) -> None:
        if not step.new_runs:
            return
        last = int(self._db.execute(_LAST_RUN_ID).get)
        rows = []
        for number, name in enumerate(sorted(step.new_runs), start=last + 1):
            run = step.runs[name]
            self._runs[name] = (number, run)
            rows.append(_run_row(run, number))
        _INSERT_RUN.write(self._db, rows)

    def _numbered(self, event: EventRecord) -> Row:
        entry = self._runs[event.run]
        assert entry is not None
        return _event_row(event, entry[0])

    def _update_runs(self, step: Transition) -> None:
        rewritten: list[Row] = []
        advanced: list[Row] = []
        known = self._known.runs
        for name in step.changed_runs:
            entry = self._runs[name]
            assert entry is not None
            number, run = entry
            if name in step.new_runs:
                pass  # Written already.
            elif name in step.rewritten_runs:
                rewritten.append(_run_change(run, number))
            else:
                advanced.append((run.counter, run.seq, number))
            if run.counter == 0:
                known.pop(name, None)
            elif len(run.input) <= BYTES_MAX:
                known[name] = entry
        if rewritten:
            _UPDATE_RUN.write(self._db, rewritten)
        if advanced:
            _ADVANCE_RUN.write(self._db, advanced)

    def _update_tokens(self, step: Transition) -> None:
        changed: list[Row] = []
        settled: list[Row] = []
        known = self._known.tokens
        for key in step.changed_tokens:
            entry = self._tokens.get(key)
            if entry is None:  # It is new.
                continue
            number, token = entry
            if key in step.settled_tokens:
                settled.append((token.outcome, token.event, number))
                known.pop(key, None)
                continue
            changed.append(_token_change(token, number))
            if token.state == "leased":
                known[key] = entry
            else:
                known.pop(key, None)
        if settled:
            _SETTLE_TOKEN.write(self._db, settled)
        if changed:
            self._db.executemany(_UPDATE_TOKEN, changed)
        for key in step.repaired_tokens:
            entry = self._tokens[key]
            assert entry is not None
            self._db.execute(_REPAIR_TOKEN, _token_repair(entry[1], entry[0]))
