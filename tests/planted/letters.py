"""Mistakes in how dead letters are kept, retried and discarded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from minuet.app.dead_letters import DeadLetters
from minuet.nodes.context import Context
from minuet.simulation.model import ModelStore
from minuet.store.changes import RetryRun
from minuet.store.records import DeadLetter, Run
from minuet.store.rules.transition import Transition


@contextmanager
def _replaced(owner: Any, name: str, wrong: Any) -> Iterator[None]:
    right = getattr(owner, name)
    setattr(owner, name, wrong)
    try:
        yield
    finally:
        setattr(owner, name, right)


def key_per_generation() -> Any:
    """What is retried has another idempotency key."""

    def key(ctx: Context) -> str:
        return f"{ctx.run_id}/{ctx.node_id}/{ctx.scope_text}/{ctx.generation}"

    return _replaced(Context, "idempotency_key", property(key))


class LosesLetters(ModelStore):
    """A dead letter that is retried is deleted."""

    def _commit(self, step: Transition) -> None:
        for run in step.reprocessed:
            for letter in self.letters(run):
                del self._dead_letters[(letter.run, letter.node, letter.scope), letter.generation]
        super()._commit(step)


class LettersStay(ModelStore):
    """A dead letter that is retried stays pending."""

    def _commit(self, step: Transition) -> None:
        step.reprocessed.clear()
        super()._commit(step)


class AttemptsStay(Transition):
    """What is retried goes on with the attempt that failed."""

    def _retry_run(self, run: Run, change: RetryRun) -> None:
        attempts = {t.key: t.attempt for t in self._tokens_in(run.run, ("dead",))}
        super()._retry_run(run, change)
        for token in self._tokens_in(run.run, ("ready",)):
            token.attempt = attempts.get(token.key, token.attempt)


class RetriedThoughDiscarded(ModelStore):
    """A retry takes up what was discarded as well."""

    def _commit(self, step: Transition) -> None:
        for run in step.reprocessed:
            for letter in self.letters(run):
                letter.status, letter.why = "reprocessed", ""
        super()._commit(step)


def retried_again() -> Any:
    """A dead letter that was dealt with is retried if its run has failed again."""

    async def retry(dead: DeadLetters, letter: DeadLetter, by: str) -> Any:
        current = await _current(dead, letter)
        return await right(dead, msgspec.structs.replace(letter, **current), by)

    right = DeadLetters._retry
    return _replaced(DeadLetters, "_retry", retry)


async def _current(dead: DeadLetters, letter: DeadLetter) -> dict[str, Any]:
    run = await dead._runs.get(letter.run)
    return {"status": "pending", "generation": run.generation}
