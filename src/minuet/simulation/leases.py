"""What workers do with leases: rules that need to know when each worker was heard of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minuet.kernel.fold import State
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import Process
from minuet.simulation.model import ModelStore
from minuet.simulation.rules import POLL, Grants, exchange_rules
from minuet.store.exchange import Exchange, Grant, Held, Output, Reply
from minuet.store.records import RETURNS_MAX, EventRecord, Key

#: Sweeps of one process per second: normally about one, a few more when much is due.
SWEEPS_MAX = 100


class Leases:
    """What was granted to whom, and when its worker was heard of."""

    def __init__(
        self,
        model: ModelStore,
        coverage: Coverage,
        broken: Callable[[str, str, str], None],
        now: Callable[[], float],
        lease_s: float,
    ) -> None:
        self._model = model
        self._coverage = coverage
        self._broken = broken
        self._now = now
        self._lease_s = lease_s
        self.grants: Grants = {}
        #: How many events a run had when a token was granted, and the last of them. A call that
        #: is repeated after a rollback of the store grants under the same lease again.
        self._bases: dict[tuple[Key, str], list[tuple[int, EventRecord]]] = {}
        #: What the record has of a run, if there is one. Leases whose inputs it had when they were
        #: checked.
        self.logged: Callable[[str], Sequence[EventRecord]] = lambda run: ()
        self._gated: set[tuple[Key, str]] = set()
        #: How often a token got a slot, by token and lease.
        self._slots: dict[tuple[Key, str], int] = {}
        #: Exchanges that got a reply: session and number.
        self._calls: set[tuple[str, int]] = set()
        #: When runs ended.
        self.ended: dict[str, float] = {}
        #: Rounds of each process: when it sent the exchange, and when it had processed the reply.
        self._heard: dict[Process, list[tuple[float, float]]] = {}
        #: When tokens were taken, and how many of their workers had not come back by then.
        self._taken: dict[tuple[Key, str], tuple[float, int]] = {}
        #: What they were handed out with: inputs and reads.
        self._given: dict[Key, tuple[tuple[Output, ...], tuple[Output, ...]]] = {}
        #: When they were handed in or renewed, in time or late.
        self._named: dict[tuple[Key, str], list[float]] = {}
        #: When leases expired.
        self._expired: dict[tuple[Key, str], float] = {}
        #: How many workers of a token may die before Minuet gives up on it.
        self.crashes_max = 0
        #: By process: the current second, and the sweeps in it.
        self._sweeps: dict[Process, tuple[int, int]] = {}

    def note_sweep(self, process: Process, now: float) -> None:
        """Notice a process that sweeps all the time and does nothing else."""
        second, count = self._sweeps.get(process, (0, 0))
        count = count + 1 if second == int(now) else 1
        self._sweeps[process] = (int(now), count)
        if count > SWEEPS_MAX:
            self._broken("busy", f"{process.name} has swept {count} times within a second", "")

    def check_exchange(self, process: Process, request: Exchange, reply: Reply) -> None:
        """Check what was granted and answered, and note who is alive."""
        # A repeated call returns what was done before, which was checked then.
        call = (request.session, request.seq)
        repeated = call in self._calls
        self._calls.add(call)
        for id_, message, run in exchange_rules(
            self._model, self.grants, self._slots, process, request, reply, repeated=repeated
        ):
            self._broken(id_, message, run)
        for one in () if repeated else (*request.hand_in, *request.renew):
            name = ((one.run, one.node, one.scope), one.lease)
            self._named.setdefault(name, []).append(self._now())
        for grant in reply.granted:
            events = self._model.events(grant.run)
            taken = ((grant.run, grant.node, grant.scope), grant.lease)
            self._bases.setdefault(taken, []).append((len(events), events[-1]))
            self._taken.setdefault(taken, (self._now(), grant.expiry))
            self._check_inputs(grant)
        for item, result in zip(request.hand_in, reply.results, strict=True):
            token = self._model.token((item.run, item.node, item.scope))
            if result == "closed" and token is not None and token.outcome == "superseded":
                self._coverage.hit("race late result of a withdrawn node")

    def _check_inputs(self, grant: Grant) -> None:
        """I30: a token is handed out with the same inputs each time."""
        if grant.skip or grant.cursor or grant.oversize:
            return
        key, given = (grant.run, grant.node, grant.scope), (grant.inputs, grant.reads)
        if self._given.setdefault(key, given) != given:
            self._broken("I30", f"{key[1:]} is handed out with other inputs than before", grant.run)

    def note_expiry(self, key: Key, lease: str) -> None:
        """A lease has expired."""
        self._expired[key, lease] = self._now()

    def copy_grants(self) -> Grants:
        """Which process holds which lease, for `go_back`."""
        return dict(self.grants)

    def forget_inputs(self, run: str) -> None:
        """A run is gone, or was replaced."""
        self._given = {key: given for key, given in self._given.items() if key[0] != run}

    def go_back(self, grants: Grants) -> None:
        """The store was rolled back to the moment at which `grants` were copied."""
        self.grants = grants
        self.ended = {}
        self._given = {}

    def note_heard(self, process: Process, sent_at: float) -> None:
        """A process has processed the reply to an exchange that it sent at this time."""
        self._heard.setdefault(process, []).append((sent_at, self._now()))

    def note_start(self, instance: Key, process: Process) -> None:
        """I32: no handler is started when its worker could know that the run is over.

        It could know once it got the reply to an exchange that it sent a lease after the end: by
        then it had to renew, and learned of the end.
        """
        ended_at = self.ended.get(instance[0])
        if ended_at is None:
            return
        self._coverage.hit("race started after the end")
        for sent_at, heard_at in self._heard.get(process, ()):
            if sent_at >= ended_at + self._lease_s and self._now() > heard_at + POLL:
                late = self._now() - ended_at
                message = f"{instance[1:]} is started {late:.1f} s after the end of its run"
                self._broken("I32", message, instance[0])
                return

    def note_gate(self, held: Held) -> None:
        """A lease was just found to be current, for a handler that is about to start."""
        taken = ((held.run, held.node, held.scope), held.lease)
        if self._has_inputs(*taken):
            self._gated.add(taken)

    def check_gate(self, instance: Key, lease: str) -> None:
        """I26: a handler with effects starts only when everything its token depends on is durable.

        Its process may be stopped just before the start, and its run deleted meanwhile.
        """
        if (instance, lease) not in self._gated and not self._has_inputs(instance, lease):
            seq, _ = self._bases[instance, lease][-1]
            message = f"{instance[1:]} began on event {seq}, which is not in the record"
            self._broken("I26", message, instance[0])

    def _has_inputs(self, instance: Key, lease: str) -> bool:
        logged = self.logged(instance[0])
        bases = self._bases.get((instance, lease), ())
        return any(len(logged) >= seq and logged[seq - 1] == last for seq, last in bases)

    def check_crashes(self, key: Key, last: str, state: State) -> None:
        """Minuet gives up on a run because workers died or hung, not because they were cut off.

        A worker that named a lease after its expiry is alive. So is one that got the reply to an
        exchange that it sent a lease later, in which it should have named it. What counts is the
        moment at which the token was last taken. A worker that never named a lease may not have
        received it, and a store that forgets may have lost the message. A repeated call names
        nothing: the store does not look into it, it returns the reply that was lost.
        """
        token = state.tokens[key[1:]]
        if self._model.has_forgotten or token.lost.count("") >= RETURNS_MAX:
            return
        taken_at, expiry = self._taken[key, last]
        alive = 0
        for lease in filter(None, token.lost):
            worker, expired_at = self.grants.get((key, lease)), self._expired[key, lease]
            named = self._named.get((key, lease), [])
            heard = self._heard.get(worker, ()) if worker is not None and worker.alive else ()
            alive += any(expired_at < at < taken_at for at in named) or any(
                named and sent >= expired_at + self._lease_s and until <= taken_at
                for sent, until in heard
            )
        if expiry - alive < self.crashes_max:
            message = f"{key[1:]} is given up, and {alive} of its {expiry} workers live"
            self._broken("crash", message, key[0])
