"""Steps inside handlers: the first result of each stays."""

from __future__ import annotations

import msgspec

from minuet import events
from minuet.store.exchange import NewStep, Refusal
from minuet.store.records import Key
from minuet.store.rules.signals import Signals


class Steps(Signals):
    """The rules of steps."""

    def record_step(self, tenant: str, new: NewStep) -> bytes | Refusal:
        """Keep a step's result, and receive the signal that it comes with. Return the result that
        is kept, or why none is."""
        key = (new.run, new.node, new.scope)
        token, run = self.token(key), self.run(new.run)
        if token is None or run is None or run.tenant != tenant or token.lease != new.lease:
            return "lost"
        if token.state != "leased" and not self._hold_open(token):
            return "lost"
        if new.after and not self._has_step(key, new.after):
            return "lost"
        known = self.steps.get((key, new.name))
        if known is None:
            known = self._source.load_step(key, new.name, with_signal=new.signal > 0)
        if known is not None:
            return known
        if new.signal and not self._receive_in_step(run, token, new.signal):
            return "gone"
        self.steps[(key, new.name)] = new.value
        value = msgspec.Raw(new.value)
        self._append(run, events.StepRecorded(*key[1:], new.name, value, new.signal))
        return new.value

    def _has_step(self, key: Key, name: str) -> bool:
        return (key, name) in self.steps or self._source.has_step(key, name)
