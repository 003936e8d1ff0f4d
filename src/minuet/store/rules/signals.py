"""Signals: a run's signals of one name are a queue, and so are the instances that wait for it.

The oldest signal goes to the instance that has waited the longest, in the step in which the second
of the two comes. So no instance waits for a signal that is kept, and what each gets does not depend
on which of them came first.
"""

from __future__ import annotations

import msgspec

from minuet import events
from minuet.store.changes import SendSignal
from minuet.store.families import named_children
from minuet.store.records import (
    FLOW_WAIT,
    KEPT_SIGNALS_MAX,
    RESERVED_SIGNAL,
    SIGNAL_WAIT,
    Run,
    Signal,
    Token,
)
from minuet.store.rules.leases import Leases
from minuet.types import CLOSED


def is_reserved(name: str) -> bool:
    """Whether users cannot send signals of this name."""
    return name.startswith(RESERVED_SIGNAL)


class Signals(Leases):
    """The rules of signals."""

    def _kept_signals(self, run: Run) -> list[Signal]:
        """The signals of a run that no instance has received by now, the oldest first."""
        found = {s.key: self.signals.get(s.key, s) for s in self._source.find_signals(run.run)}
        return sorted((s for s in found.values() if not s.node), key=lambda s: s.seq)

    def _receive(self, run: Run, token: Token, signal: Signal, data: bytes) -> None:
        signal.node, signal.scope = token.node, token.scope
        self.signals[signal.key] = signal
        resumed = events.NodeResumed(token.node, token.scope, signal=signal.seq)
        self._end_wait(run, token, data, resumed)

    def _receive_kept(self, run: Run, token: Token) -> None:
        """Give a token that has just begun to wait the oldest signal of that name, if there is
        one."""
        for signal in self._kept_signals(run):
            if signal.name == token.wait_key:
                sent = events.decode_event(self._source.load_event(run.run, signal.seq) or b"")
                assert isinstance(sent, events.SignalReceived)
                self._receive(run, token, signal, bytes(sent.data))
                return

    def _wake(self, run: Run, token: Token) -> None:
        """There is a signal that a function waits for, which stays kept."""
        self._end_wait(run, token, b"null", events.NodeResumed(token.node, token.scope))

    def _is_missing(self, run: Run, child: str) -> bool:
        """Whether a child run is not there, although it was started: the server has lost its last
        changes since. The node that is to wait for it starts it again."""
        found = self.run(child)
        return found is None or found.tenant != run.tenant

    def _find_awaited(self, run: Run, token: Token) -> None:
        """End the wait of a function that has just begun, if a signal is kept that it names, or a
        child run that it names is lost."""
        kept = self._kept_signals(run) if token.wait_key else []
        is_there = any(events.is_awaited(signal.name, token.wait_key) for signal in kept)
        children = named_children(token.wait, token.wait_key)
        if is_there or any(self._is_missing(run, child) for child in children):
            self._wake(run, token)

    def _wake_functions(self, run: Run, name: str) -> None:
        """End the waits of all functions of a run that name a signal."""
        waiting = sorted(self._source.find_waiting(run, FLOW_WAIT), key=lambda token: token.key)
        for found in waiting:
            token = self.tokens.setdefault(found.key, found)
            if events.is_awaited(name, token.wait_key):
                self._wake(run, token)

    def _receive_in_step(self, run: Run, token: Token, seq: int) -> bool:
        """Let the holder of a token receive a signal; False when it is not kept (any more)."""
        signal = self._source.load_kept(run.run, seq)
        if signal is None or signal.key in self.signals:
            return False
        signal.node, signal.scope = token.node, token.scope
        self.signals[signal.key] = signal
        return True

    def _longest_waiting(self, run: Run, name: str) -> Token | None:
        """The instance that has waited for a signal the longest."""
        waiting = self._source.find_waiting(run, SIGNAL_WAIT, name)
        found = min(waiting, key=lambda token: (token.wait_event, token.key), default=None)
        return None if found is None else self.tokens.setdefault(found.key, found)

    def _is_full(self, run: Run, name: str) -> bool:
        """Whether a run keeps too many signals for another one of this name."""
        if is_reserved(name):
            return False
        users = [s for s in self._kept_signals(run) if not is_reserved(s.name)]
        return len(users) >= KEPT_SIGNALS_MAX

    def _send_signal(self, run: Run, change: SendSignal) -> str | None:
        """Give a signal to the instance that has waited the longest, or keep it; say why not.

        A signal that the run has already changes nothing, whatever has become of the run.
        """
        known = self._source.load_signal(run.run, change.id)
        if known is not None:
            is_same = known.name == change.name
            return None if is_same else f"has a signal of this id with the name {known.name}"
        if run.status in CLOSED:
            return f"is {run.status} and cannot receive signals"
        longest = self._longest_waiting(run, change.name)
        if longest is None and self._is_full(run, change.name):
            return f"keeps {KEPT_SIGNALS_MAX} signals that no node has received, and takes no more"
        data = msgspec.Raw(change.data)
        seq = self._append(run, events.SignalReceived(change.name, change.id, data, change.by))
        signal = Signal(run.run, change.id, change.name, seq)
        self.signals[signal.key] = signal
        if longest is None:
            self._wake_functions(run, change.name)
        else:
            self._receive(run, longest, signal, change.data)
        return None
