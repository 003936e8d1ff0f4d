"""Events in words."""

from __future__ import annotations

import msgspec

from minuet import events as happened
from minuet.app.results import WaitView
from minuet.app.watch import instance_name
from minuet.approvals import APPROVAL_WAIT, Answer, deadline_of
from minuet.cli.output import brief, error_text, format_duration, format_moment
from minuet.cli.steps import step_text, wait_text
from minuet.events import Event
from minuet.functions.steps import read_backoff, read_step
from minuet.plan.plan import is_list
from minuet.types import UNDO


class _List(msgspec.Struct, frozen=True):
    """What the hidden node that makes the list of a foreach says of it."""

    count: int
    window: int


class EventLine(msgspec.Struct, frozen=True):
    """An event for people: where it happened, the state since then, and details."""

    node: str
    state: str
    text: str


def describe_event(at_ms: int, event: Event) -> EventLine:
    """Describe an event in words."""
    match event:
        case happened.NodeCompleted():
            return EventLine(_instance(event), *_completed(at_ms, event))
        case happened.NodeSent():
            return EventLine(_instance(event), "SENDING" if event.more else "SENT", _sent(event.to))
        case happened.NodeSkipped():
            return EventLine(_instance(event), "SKIPPED", "")
        case happened.NodeRetried():
            after = format_duration(event.due_ms - at_ms)
            text = f"attempt {event.attempt} failed: {error_text(event.error)}; next in {after}"
            return EventLine(_instance(event), "RETRYING", brief(text, 200))
        case happened.NodeFailed():
            text = f"attempt {event.attempt}: {error_text(event.error)}"
            return EventLine(_instance(event), "FAILED", brief(text, 200))
        case happened.NodeHeld():
            text = (
                f"attempt {event.attempt}: {error_text(event.error)}; held until somebody decides"
            )
            return EventLine(_instance(event), "HELD", brief(text, 200))
        case happened.NodeEdited():
            text = f"config {_value(event.config)}" + _by(event.by) + _why(event.why)
            return EventLine(_instance(event), "EDITED", text)
        case happened.NodeRepaired():
            return EventLine(_instance(event), *_repaired(event))
        case happened.NodeWaiting():
            if event.kind == "flow":
                data = msgspec.json.decode(event.data)
                wait = WaitView("flow", "", at_ms, event.due_ms, data)
                return EventLine(_instance(event), "WAITING", wait_text(wait))
            what, due_ms = f"{event.kind} {event.key}".strip(), event.due_ms
            if event.kind == APPROVAL_WAIT:
                what, due_ms = _asked(event), deadline_of(msgspec.json.decode(event.data), due_ms)
            until = "" if due_ms is None else f" for {format_duration(max(0, due_ms - at_ms))}"
            return EventLine(_instance(event), "WAITING", what + until)
        case happened.NodeResumed():
            text = "its time was over" if event.timed_out else "what it waited for has come"
            text = _decided(event) or text
            text = f"received the signal of event {event.signal}" if event.signal else text
            return EventLine(_instance(event), "QUEUED", text)
        case happened.SignalReceived():
            text = f"{brief(event.name)}: {_value(event.data)}"
            return EventLine("", "SIGNAL", text + _by(event.by))
        case happened.StepRecorded():
            step = read_step(event.name, bytes(event.value))
            backoff = read_backoff(event.name, bytes(event.value))
            if step is not None:
                text = brief(step_text(step), 200)
            elif backoff is not None:
                again = f"tried again at {format_moment(backoff.due_ms)[:19]}"
                text = f"{brief(backoff.key)}: attempt {backoff.attempt} failed, {again}"
            else:
                text = f"{brief(event.name)}: {_value(event.value)}"
            text += f" (the signal of event {event.signal})" if event.signal else ""
            return EventLine(_instance(event), "STEP", text)
        case happened.LeaseExpired():
            return EventLine(
                _instance(event), "QUEUED", "its lease expired: another worker can take it"
            )
        case happened.LeaseReturned():
            late = "too late: another has taken it" if event.late else "and goes on"
            return EventLine(_instance(event), "", f"its worker has come back, {late}")
        case _:
            return EventLine("", *_describe_run(event))


def _describe_run(event: Event) -> tuple[str, str]:
    match event:
        case happened.RunCreated():
            return "PENDING", f"{event.workflow}, input {_value(event.input)}"
        case happened.RunStarted():
            return "RUNNING", _sent(event.to)
        case happened.RunPaused():
            return "PAUSED", _by(event.by)
        case happened.RunResumed():
            return "RUNNING", "goes on" + _by(event.by)
        case happened.RunStalled():
            return "STALLED", brief(event.why, 200)
        case happened.RunPatched():
            return "PATCHED", f"plan {event.plan[:19]}" + _by(event.by)
        case happened.RunRetried():
            again = ", ".join(instance_name(node, scope) for node, scope in event.tokens[:5])
            return "RUNNING", f"generation {event.generation}, again: {again}" + _by(event.by)
        case happened.RunCompleted():
            return "COMPLETED", ""
        case happened.RunFailed():
            return "FAILED", brief(
                error_text({**event.error, "node": instance_name(event.node, event.scope)}), 200
            )
        case happened.RunCancelled():
            return "CANCELLED", brief(event.reason, 200) + _by(event.by)
        case happened.RunCompensating():
            what = f"what completed after {event.back_to}" if event.back_to else "what completed"
            return "COMPENSATING", f"{what} is undone, the last first" + _by(event.by)
        case happened.RunCompensated():
            return event.status, "it has been undone, as far as that was possible"
        case _:
            return "", ""


def _repaired(event: happened.NodeRepaired) -> tuple[str, str]:
    decided = _by(event.by) + _why(event.why)
    match event.action:
        case "skip":
            return "SKIPPED", "skipped" + decided
        case "output":
            return "QUEUED", f"output {_value(event.value)} set" + decided
        case "take_back":
            return "QUEUED", "taken back from its worker" + decided
        case "retry":
            return "QUEUED", "held no longer: tried again" + decided
        case _:
            return "", "held no longer: it fails" + decided


def _completed(at_ms: int, event: happened.NodeCompleted) -> tuple[str, str]:
    took = format_duration(at_ms - event.taken_ms) if event.taken_ms else ""
    attempt = f"attempt {event.attempt}" if event.attempt > 1 else ""
    if event.error is not None:
        text = f"{error_text(event.error)}; the run goes on"
        return "FAILED", brief(", ".join(filter(None, (took, attempt, text))), 200)
    value = f"output {_value(event.output)}"
    if is_list(event.node):
        value = _listed(event.output)
    elif event.node == UNDO:
        _, instances, more = msgspec.json.decode(event.output)
        value = f"{len(instances)} to undo{', and more' if more else ''}"
    return "COMPLETED", ", ".join(filter(None, (took, attempt, value)))


def _asked(event: happened.NodeWaiting) -> str:
    """Whom a node asks, and what."""
    found = msgspec.json.decode(event.data)
    people, title = ", ".join(found.get("approvers") or ()), found.get("title")
    return brief(f"asks {people or 'everybody'}{f': {title}' if title else ''}", 200)


def _decided(event: happened.NodeResumed) -> str:
    """What a person has decided; "": it is not a decision."""
    try:
        made = msgspec.json.decode(event.resolution, type=Answer).decision
    except msgspec.MsgspecError:
        return ""
    comments = f" ({made.comments})" if made.comments else ""
    return brief(f"{made.decision} by {made.by}{comments}", 200)


def _listed(data: msgspec.Raw) -> str:
    try:
        found = msgspec.json.decode(data, type=_List)
    except msgspec.MsgspecError:
        return _value(data)
    items = f"{found.count} item{'' if found.count == 1 else 's'}"
    return items if found.window >= found.count else f"{items}, {found.window} at once"


def _instance(event: happened.NodeCompleted | happened.NodeSkipped | object) -> str:
    node, scope = getattr(event, "node", ""), getattr(event, "scope", "")
    return instance_name(str(node), scope)


def _sent(sent: list[happened.Sent]) -> str:
    to = [instance_name(node, scope) for node, scope, live, *_ in sent if live % 2]
    more = f" and {len(to) - 5} more" if len(to) > 5 else ""
    return f"to {', '.join(to[:5])}{more}" if to else ""


def _value(data: msgspec.Raw) -> str:
    return brief(bytes(data).decode("utf-8", "replace"), 60)


def _why(why: str) -> str:
    return brief(f": {why}", 100) if why else ""


def _by(who: str) -> str:
    return f" by {who}" if who else ""
