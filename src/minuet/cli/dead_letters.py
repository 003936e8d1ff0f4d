"""`minuet dlq`: look at dead letters, edit, retry and discard them."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.dead_letters import DeadLetterView, LetterDetails, LetterGroup, Retried
from minuet.app.watch import instance_name
from minuet.cli.inputs import read_data
from minuet.cli.output import (
    brief,
    clean,
    error_text,
    format_duration,
    format_moment,
    format_short_age,
    note,
    print_json,
    print_table,
    trace_text,
)
from minuet.cli.stores import command_line, find_run, is_server, with_app
from minuet.cli.user import user_name
from minuet.errors import ConfigError, RunConflictError
from minuet.types import Json


async def _filters(app: Facade, arguments: Namespace) -> dict[str, Any]:
    run_id = None
    if arguments.run_id is not None:
        run_id = await find_run(app, arguments.run_id)
    return {
        "run_id": run_id,
        "node_id": arguments.node_id,
        "queue": arguments.queue,
        "fingerprint": arguments.fingerprint,
    }


# ── asking ──────────────────────────────────────────────────────────────────────────────────


def list_letters(arguments: Namespace) -> int:
    """List dead letters, or count them by their causes."""

    async def ask(app: Facade) -> None:
        wanted = await _filters(app, arguments)
        status = None if arguments.status == "all" else arguments.status
        if arguments.group:
            groups = await app.dead_letters.group(**wanted, status=status)
            if arguments.output == "json":
                print_json([shapes.letter_group(one) for one in groups])
            else:
                _print_groups(groups, arguments.store)
            return
        found = await app.dead_letters.list(**wanted, status=status, limit=arguments.limit)
        if arguments.output == "json":
            print_json([shapes.dead_letter(one) for one in found])
        else:
            _print_letters(found)
            if len(found) == arguments.limit:
                note(f"There may be more: these are the first {arguments.limit}.")

    with_app(arguments, ask)
    return outcomes.COMPLETED


def _print_letters(found: list[DeadLetterView]) -> None:
    if not found:
        print("There are no such dead letters.")
        return
    rows = [
        (
            letter.id,
            clean(instance_name(letter.node_id, letter.scope)),
            letter.status,
            letter.reason,
            letter.fingerprint,
            format_short_age(letter.at_ms),
            brief(error_text(letter.error), 60),
        )
        for letter in found
    ]
    titles = ("id", "node", "status", "reason", "fingerprint", "age", "error")
    print_table(titles, rows, names=("node",))


def _print_groups(found: list[LetterGroup], store: str) -> None:
    if not found:
        print("There are no such dead letters.")
        return
    rows = [
        (
            group.fingerprint,
            str(group.count),
            clean(", ".join(f"{queue} {number}" for queue, number in group.queues.items())),
            format_short_age(group.first_ms),
            format_short_age(group.last_ms),
            group.example.id,
            brief(error_text(group.example.error), 60),
        )
        for group in found
    ]
    titles = ("fingerprint", "count", "queues", "first", "last", "example", "error")
    print_table(titles, rows, names=("queues",))
    queues: Counter[str] = Counter()
    for group in found:
        queues.update(group.queues)
    counts = ", ".join(f"{queue} {number}" for queue, number in queues.most_common())
    print(clean(f"{queues.total()} in all: {counts}"))
    command = command_line(store, "dlq", "retry", "--fingerprint", found[0].fingerprint)
    note(f"Retry the first of these groups with: {command}")


def show(arguments: Namespace) -> int:
    """Show a dead letter: input, error and history."""

    async def ask(app: Facade) -> LetterDetails:
        return await app.dead_letters.show(arguments.id)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.letter_details(found))
        return outcomes.COMPLETED
    letter = found.letter
    at = f"{format_moment(letter.at_ms)} ({format_short_age(letter.at_ms)} ago)"
    lines = [
        f"dead letter {letter.id}: {letter.status}",
        f"node: {instance_name(letter.node_id, letter.scope)} of {letter.workflow}",
        f"reason: {letter.reason}, at attempt {letter.attempts}, {at}",
        f"queue: {letter.queue}",
        f"fingerprint: {letter.fingerprint}",
        f"error: {error_text(letter.error)}",
    ]
    if letter.settled_ms is not None:
        why = f": {letter.why}" if letter.why else ""
        lines.insert(1, f"{letter.status}: {format_moment(letter.settled_ms)}{why}")
    print(clean("\n".join(lines)))
    trace = trace_text(letter.error)
    if trace:
        print(trace)
    _print_input(found.input)
    print("history:")
    began = found.history[0].at_ms if found.history else 0
    rows = [
        (str(one.seq), f"+{format_duration(one.at_ms - began)}", one.type, _error(one.details))
        for one in found.history
    ]
    print_table(("seq", "after", "event", ""), rows)
    if letter.status == "pending":
        note(f"Retry it with: {command_line(arguments.store, 'dlq', 'retry', letter.id)}")
    return outcomes.COMPLETED


def _print_input(found: dict[str, Json] | None) -> None:
    if found is None:
        print("input: what it was given cannot be read any more")
    else:
        print("input:")
        print_json(found)


def _error(details: dict[str, Any]) -> str:
    error = details.get("error")
    return brief(error_text(error)) if isinstance(error, dict) else ""


# ── changing ────────────────────────────────────────────────────────────────────────────────


def retry(arguments: Namespace) -> int:
    """Retry the runs of dead letters; 1 if one of them was left alone."""

    async def ask(app: Facade) -> list[Retried]:
        ids = arguments.ids
        if not ids:
            ids = await _selected(app, arguments)
        done = []
        by = user_name()
        async for one in app.dead_letters.retry(ids, per_second=arguments.per_second, by=by):
            done.append(one)
            if arguments.output != "json":
                print(clean(f"{one.id}: {'retried' if one.is_retried else one.why}"), flush=True)
        return done

    done = with_app(arguments, ask)
    count = sum(one.is_retried for one in done)
    if arguments.output == "json":
        print_json([shapes.retried_letter(one) for one in done])
    elif not done:
        print("There are no such dead letters.")
    else:
        runs = [one.run_id for one in done if one.is_retried]
        more = runs if len(runs) == 1 else []
        text = f"{count} of {len(done)} retried. Workers go on with them"
        if not is_server(arguments.store):
            text += f", or: {command_line(arguments.store, 'resume', *more)}"
        print(text)
    return outcomes.COMPLETED if count == len(done) else outcomes.FAILED


async def _selected(app: Facade, arguments: Namespace) -> list[str]:
    """The ids of all pending dead letters that the options select. They are found before the first
    is retried: one that fails again would be found again."""
    wanted = await _filters(app, arguments)
    if not any(wanted.values()):
        raise ConfigError(
            "which ones? Name them, or select them: --run-id, --node-id, --queue, --fingerprint"
        )
    return await app.dead_letters.ids(**wanted)


def edit(arguments: Namespace) -> int:
    """Give the node of a dead letter another config."""
    config = read_data(arguments.input)
    by = arguments.by or user_name()

    async def ask(app: Facade) -> DeadLetterView:
        return await app.dead_letters.edit(arguments.id, config, by=by, why=arguments.why)

    letter = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.dead_letter(letter))
    else:
        print(f"{clean(letter.id)}: edited")
        note(f"Retry it with: {command_line(arguments.store, 'dlq', 'retry', letter.id)}")
    return outcomes.COMPLETED


def discard(arguments: Namespace) -> int:
    """Mark dead letters as of no further interest; 1 if one of them is not pending."""

    by = arguments.by or user_name()

    async def ask(app: Facade) -> list[DeadLetterView | RunConflictError]:
        # All are found before the first is changed.
        ids = [(await app.dead_letters.get(id)).id for id in arguments.ids]
        answers: list[DeadLetterView | RunConflictError] = []
        for id in ids:
            try:
                discarding = app.dead_letters.discard(id, by=by, why=arguments.why)
                answers.append(await discarding)
            except RunConflictError as error:
                answers.append(error)
        return answers

    answers = with_app(arguments, ask)
    refused = [one for one in answers if isinstance(one, RunConflictError)]
    discarded = [one for one in answers if isinstance(one, DeadLetterView)]
    if arguments.output == "json":
        print_json([shapes.dead_letter(one) for one in discarded])
    else:
        for letter in discarded:
            print(f"{letter.id}: discarded")
    for error in refused:
        note(str(error))
    return outcomes.FAILED if refused else outcomes.COMPLETED
