"""`app.approvals`: what waits for a decision of people, and their decisions.

An approval is the token of a `human` node. A decision ends its wait, in one step of the store: the
first one wins, and a time that is over counts as one.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.app.arguments import checked
from minuet.app.awaiting import POLL_MS
from minuet.app.questions import Questions
from minuet.app.tenant import Tenant
from minuet.approvals import (
    APPROVAL_WAIT,
    SYSTEM,
    Answer,
    Decision,
    Verdict,
    approval_id,
    find_verdict,
    read_id,
)
from minuet.bridge.history import HistoryReader
from minuet.bridge.values import encode_value
from minuet.errors import (
    AlreadyDecidedError,
    ApprovalNotFoundError,
    InputError,
    NotAnApproverError,
    OutputError,
    RunNotFoundError,
)
from minuet.kernel.approvals import ApprovalStatus as ApprovalStatus
from minuet.kernel.approvals import Asked, find_approvals
from minuet.kernel.program import Program, targets
from minuet.kernel.scope import decode
from minuet.plan.plan import author_of
from minuet.schemas import compile_schema
from minuet.store.records import Run
from minuet.types import Json, Scope

#: How long a decision waits for the one before to be counted.
COUNTING_MS = 10_000

#: Largest data of a decision, as JSON: it is kept inside an event.
DATA_BYTES_MAX = 512 * 1024

#: Runs looked through at once.
PAGE = 200

#: Approvals that wait and are looked through for a page behind the first.
WAITING_MAX = 10_000


#: What follows when the time is over: a decision, a failure, or others are asked.
AtTimeout: TypeAlias = Literal["approve", "reject", "fail", "reassign"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """What people are asked, and what they have decided."""

    id: str
    run_id: str
    node_id: str
    scope: Scope
    workflow: str
    status: ApprovalStatus
    decision: Verdict | None
    title: str | None
    description: str | None
    #: Names of people and groups; empty: everybody may decide.
    approvers: tuple[str, ...]
    quorum: int
    payload: Json
    #: JSON Schema of the data of a decision.
    form: dict[str, Any] | None
    decisions: tuple[Decision, ...]
    #: The nodes that follow an approval, and a rejection.
    leads_to: dict[str, list[str]]
    #: Who started the run, if its tag `submitted_by` says so.
    requester: str | None
    four_eyes: bool
    metadata: dict[str, Json]
    approval_ui_url: str | None
    created_ms: int
    decided_ms: int | None
    timeout_ms: int | None
    #: None: it waits forever.
    at_timeout: AtTimeout | None


class Approvals:
    """The approvals of a tenant."""

    def __init__(self, tenant: Tenant, runs: Questions) -> None:
        self._behind = tenant
        self._store = tenant.store
        self._tenant = tenant.name
        self._runs = runs
        self._reader = HistoryReader(tenant.store, tenant.name)

    # ── looking ─────────────────────────────────────────────────────────────────────────

    @checked
    async def list(
        self,
        run_id: str | None = None,
        *,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[Approval]:
        """Approvals of a run, or of all runs: those that are pending, or that have another status;
        None: all. The oldest runs come first if they are pending, else the newest. `after` is the
        id of the last one of the previous page."""
        self._behind.check_open()
        if run_id is not None:
            found = _rest_after(after, await self._of_run(await self._runs.get(run_id)))
        elif status == "pending":
            return await self._waiting(limit, after)
        else:
            found = await self._of_all(status, limit, after)
        return [one for one in found if status in (None, one.status)][:limit]

    async def _waiting(self, limit: int, after: str | None) -> builtins.list[Approval]:
        """Those that wait, each from the one event with which it does."""
        found: list[Approval] = []
        runs: dict[str, Run] = {}
        most = limit if after is None else WAITING_MAX
        tokens = await self._store.list_waiting(self._tenant, APPROVAL_WAIT, limit=most)
        ids = [approval_id(one.run, author_of(one.node), decode(one.scope)) for one in tokens]
        first = _place_after(after, ids)
        for token in tokens[first : first + limit]:
            at = token.wait_event
            history = await self._reader.history(token.run, at - 1, at)
            if token.run not in runs:
                try:
                    runs[token.run] = await self._runs.get(token.run)
                except RunNotFoundError:
                    continue
            for asked in find_approvals(history).values():
                found.append(await self._show(runs[token.run], asked))
        return found

    async def _of_all(
        self, status: ApprovalStatus | None, limit: int, after: str | None
    ) -> builtins.list[Approval]:
        found: list[Approval] = []
        before = None
        if after is not None:
            before = after.partition(":")[0]
            rest = _rest_after(after, await self._of_run(await self._runs.get(before)))
            found += [one for one in rest if status in (None, one.status)]
        while len(found) < limit:
            page = await self._runs.list(before=before, limit=PAGE)
            for run in page:
                program = await self._runs.program(run.run, run.plan)
                if any(node.type == "human" for node in program.plan.nodes):
                    shown = await self._of_run(run)
                    found += [one for one in shown if status in (None, one.status)]
            if len(page) < PAGE:
                break
            before = page[-1].run
        return found

    async def _of_run(self, run: Run) -> builtins.list[Approval]:
        asked = find_approvals(await self._reader.history(run.run))
        return [await self._show(run, one) for one in asked.values()]

    @checked
    async def show(self, id: str) -> Approval:
        """An approval by its id: `RUN:node`, or `RUN:node:2` for an instance in a loop.

        The id of the run may be shortened, and the node left out if only one approval is meant.
        """
        self._behind.check_open()
        run, asked = await self._find(id)
        return await self._show(run, asked)

    async def _find(self, id: str) -> tuple[Run, Asked]:
        text, _, where = id.partition(":")
        run = await self._runs.get(await self._runs.find(text))
        found = find_approvals(await self._reader.history(run.run))
        named = {_id(run, asked): asked for asked in found.values()}
        if where:
            read = read_id(f"{run.run}:{where}")
            wanted = approval_id(*read) if read is not None else ""
            if wanted in named:
                return run, named[wanted]
        else:
            waiting = [one for one in named.values() if one.status == "pending"]
            for some in (waiting, builtins.list(named.values())):
                if len(some) == 1:
                    return run, some[0]
        known = ", ".join(builtins.list(named)[:10])
        raise ApprovalNotFoundError(
            id, f"the run has {known}" if named else f"run {run.run} has asked nobody so far"
        )

    async def _show(self, run: Run, asked: Asked) -> Approval:
        program = await self._runs.program(run.run, run.plan)
        question, verdict = asked.question, asked.verdict
        node = author_of(asked.place[0])
        requester = run.tags.get("submitted_by")
        return Approval(
            id=_id(run, asked),
            run_id=run.run,
            node_id=node,
            scope=decode(asked.place[1]),
            workflow=run.workflow,
            status=asked.status,
            decision=None if verdict is None else verdict.decision,
            title=question.get("title"),
            description=question.get("description"),
            approvers=tuple(question.get("approvers") or ()),
            quorum=asked.quorum,
            payload=question.get("payload"),
            form=question.get("form"),
            decisions=tuple(asked.decisions),
            leads_to=_leads_to(program, node),
            requester=requester if isinstance(requester, str) else None,
            four_eyes=bool(question.get("four_eyes")),
            metadata=question.get("metadata") or {},
            approval_ui_url=question.get("approval_ui_url"),
            created_ms=asked.asked_ms,
            decided_ms=None if verdict is None else verdict.at_ms,
            timeout_ms=asked.due_ms,
            at_timeout=_at_timeout(program, node, asked),
        )

    # ── deciding ────────────────────────────────────────────────────────────────────────

    @checked
    async def approve(
        self,
        id: str,
        *,
        by: str,
        comments: str = "",
        data: Any = None,
        groups: Sequence[str] = (),
    ) -> Approval:
        """Decide `approve`; as `decide`."""
        return await self.decide(id, "approve", by=by, comments=comments, data=data, groups=groups)

    @checked
    async def reject(
        self,
        id: str,
        *,
        by: str,
        comments: str = "",
        data: Any = None,
        groups: Sequence[str] = (),
    ) -> Approval:
        """Decide `reject`; as `decide`."""
        return await self.decide(id, "reject", by=by, comments=comments, data=data, groups=groups)

    @checked
    async def decide(
        self,
        id: str,
        decision: Verdict,
        *,
        by: str,
        comments: str = "",
        data: Any = None,
        groups: Sequence[str] = (),
    ) -> Approval:
        """Decide an approval, and return it once the decision is durable.

        `by` is the person who decides, and `groups` are those that the person belongs to: the
        caller must know both, nothing here proves them. `data` must fit the form.

        AlreadyDecidedError when another decision was first, the time was over, the run has ended,
        or this person has decided; it has the approval as it stands. Deciding the same again, by
        the same person, changes nothing. NotAnApproverError when this person may not decide.
        """
        self._behind.check_open()
        _check_decision(decision, by)
        encoded = _encode_data(data)
        waited_ms = 0
        while True:
            run, asked = await self._find(id)
            now_ms = self._behind.engine.clock.now_ms()
            made = Decision(decision=decision, by=by, at_ms=now_ms, comments=comments, data=encoded)
            if _has_decided(asked, made):
                return await self._show(run, asked)
            shown = await self._show(run, asked)
            _check_open(run, asked, shown, by)
            _check_person(shown, by, groups)
            _check_form(shown, encoded)
            if asked.is_waiting and await self._resolve(run, asked, made):
                run, asked = await self._find(shown.id)
                return await self._show(run, asked)
            if not asked.is_waiting:
                # Another decision of the quorum is being counted, by a worker.
                if waited_ms >= COUNTING_MS:
                    last = asked.decisions[-1].by if asked.decisions else ""
                    first = f"count the decision of {last}" if last else "send a reminder"
                    raise AlreadyDecidedError(
                        run.run,
                        f"a worker has to {first} first: start one, and decide again",
                        shown,
                        status=run.status,
                    )
                await self._store.wait_for_change(run.run, run.seq, POLL_MS)
                waited_ms += POLL_MS

    async def _resolve(self, run: Run, asked: Asked, made: Decision) -> bool:
        answer = Answer(decision=made, asked_ms=asked.asked_ms, due_ms=asked.due_ms)
        return await self._store.resolve(
            self._tenant,
            (run.run, *asked.place),
            msgspec.json.encode(answer),
            by=made.by,
            wait_key=asked.key,
        )


def _id(run: Run, asked: Asked) -> str:
    return approval_id(run.run, author_of(asked.place[0]), decode(asked.place[1]))


def _rest_after(after: str | None, found: builtins.list[Approval]) -> builtins.list[Approval]:
    """Those that come after the one with this id; all, if it is not among them."""
    ids = [one.id for one in found]
    return found[ids.index(after) + 1 :] if after in ids else found


def _place_after(after: str | None, ids: builtins.list[str]) -> int:
    """Where those begin that come after the one with this id. If it was decided since, and is not
    among them: those of its run."""
    if after is None:
        return 0
    if after in ids:
        return ids.index(after) + 1
    run = after.partition(":")[0]
    return sum(id.partition(":")[0] < run for id in ids)


def _at_timeout(program: Program, name: str, asked: Asked) -> AtTimeout | None:
    if asked.due_ms is None:
        return None
    node = program.nodes.get(name)
    config = {} if node is None else node.extra.get("human_config") or {}
    is_first = not asked.question.get("round")
    if is_first and isinstance(config.get("escalation_policy"), dict):
        return "reassign"
    policy: AtTimeout = asked.question.get("escalation_policy") or "reject"
    return policy


def _leads_to(program: Program, name: str) -> dict[str, builtins.list[str]]:
    node = program.nodes.get(name)
    if node is None:  # A patch has removed it.
        return {"approve": [], "reject": []}
    hidden = {program.plan.output_node}
    after = [one for one in targets(node, "static", "branch", "break") if one not in hidden]
    return {
        "approve": [author_of(one) for one in after],
        "reject": [author_of(one) for one in targets(node, "reject") if one not in hidden],
    }


# ── what a decision must be ─────────────────────────────────────────────────────────────────


def _check_decision(decision: str, by: str) -> None:
    if decision not in ("approve", "reject"):
        problem = f"decision: expected 'approve' or 'reject', got {decision!r:.100}"
        raise InputError([problem], argument="decision")
    if by == SYSTEM:
        raise InputError([f"by: {SYSTEM!r} is not a person"], argument="by")


def _encode_data(data: Any) -> Json:
    try:
        encoded = encode_value(data)
    except OutputError as error:
        raise InputError([f"data: {error}"], argument="data") from error
    if len(encoded) > DATA_BYTES_MAX:
        problem = f"data: {len(encoded)} bytes as JSON, at most {DATA_BYTES_MAX} are kept"
        raise InputError([problem], argument="data")
    value: Json = msgspec.json.decode(encoded)
    return value


def _has_decided(asked: Asked, made: Decision) -> bool:
    """Whether this person has decided the same before."""
    return any(
        (one.by, one.decision, one.comments, one.data)
        == (made.by, made.decision, made.comments, made.data)
        for one in asked.decisions
    )


def _check_open(run: Run, asked: Asked, shown: Approval, by: str) -> None:
    """AlreadyDecidedError unless this person's decision can still count."""
    verdict = find_verdict(asked.decisions, asked.quorum)
    why = ""
    if verdict is not None:
        why = f"{verdict.by} has decided: {verdict.decision}"
    elif shown.status == "timeout":
        why = f"the time was over, and the decision is {shown.decision}"
    elif shown.status == "cancelled":
        why = f"the run is {run.status}, and nobody is asked any more"
    elif any(one.by == by for one in asked.decisions):
        why = f"{by} has decided before, and each person counts once"
    if why:
        message = f"approval {shown.id} cannot be decided: {why}"
        raise AlreadyDecidedError(run.run, message, shown, status=run.status)


def _check_person(shown: Approval, by: str, groups: Sequence[str]) -> None:
    if shown.approvers and not {by, *groups} & set(shown.approvers):
        allowed = ", ".join(shown.approvers)
        raise NotAnApproverError(
            f"approval {shown.id} is for {allowed}: {by} is not one of them, nor in their group"
        )
    if not shown.four_eyes:
        return
    if shown.requester is None:
        raise NotAnApproverError(
            f"approval {shown.id} must not be decided by the person who started the run, and the "
            "run does not say who that is: start it with the tag 'submitted_by'"
        )
    if shown.requester == by:
        raise NotAnApproverError(
            f"approval {shown.id} must be decided by somebody else: {by} started the run"
        )


def _check_form(shown: Approval, data: Json) -> None:
    if shown.form is None:
        return
    problems = compile_schema(msgspec.json.encode(shown.form)).find_problems(data, "data")
    if problems:
        raise InputError(problems, argument="data")
