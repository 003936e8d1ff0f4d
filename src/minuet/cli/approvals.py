"""`minuet approvals`: list what waits for people, and decide it."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.actions import PreviewAction
from minuet.app.app import Facade
from minuet.app.approvals import Approval
from minuet.app.consequences import Consequences
from minuet.app.results import RunResult
from minuet.app.watch import instance_name
from minuet.approvals import APPROVAL_WAIT, Verdict, id_of
from minuet.cli.handlers import goes_on
from minuet.cli.inputs import read_data
from minuet.cli.output import (
    brief,
    clean,
    format_moment,
    format_short_age,
    note,
    print_json,
    print_table,
)
from minuet.cli.preview import print_preview
from minuet.cli.stores import command_line, find_run, with_app
from minuet.cli.user import user_name
from minuet.errors import ConfigError, NotAnApproverError


def list_approvals(arguments: Namespace) -> int:
    """List approvals."""

    async def ask(app: Facade) -> list[Approval]:
        run = None if arguments.run is None else await find_run(app, arguments.run)
        status = None if arguments.status == "all" else arguments.status
        return await app.approvals.list(run, status=status, limit=arguments.limit)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json([shapes.approval(one) for one in found])
    elif not found:
        print(
            "Nothing waits for a decision." if arguments.status == "pending" else "There is none."
        )
    else:
        rows = [
            (
                one.id,
                one.decision or one.status,
                clean(one.workflow),
                format_short_age(one.created_ms),
                "" if one.timeout_ms is None else format_moment(one.timeout_ms)[:16],
                clean(", ".join(one.approvers)),
                brief(one.title or ""),
            )
            for one in found
        ]
        titles = ("approval", "status", "workflow", "age", "until", "for", "title")
        print_table(titles, rows, names=("workflow", "for"))
    return outcomes.COMPLETED


def show(arguments: Namespace) -> int:
    """Show what is asked, and what was decided."""

    async def ask(app: Facade) -> Approval:
        return await app.approvals.show(arguments.id)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.approval(found))
        return outcomes.COMPLETED
    print(clean("\n".join(_lines(found))))
    if found.payload is not None:
        print("payload:")
        print_json(found.payload)
    if found.form is not None and found.status == "pending":
        print("form:")
        print_json(found.form)
    if found.status == "pending":
        print(f"Decide with: {decide_command(arguments.store, found.id)}")
    return outcomes.COMPLETED


def _lines(found: Approval) -> list[str]:
    until = "" if found.timeout_ms is None else f", until {format_moment(found.timeout_ms)}"
    then = "" if found.at_timeout is None else f", then: {found.at_timeout}"
    after = {name: ", ".join(nodes) or "nothing" for name, nodes in found.leads_to.items()}
    return [
        f"{found.title or found.id}: {found.decision or found.status}",
        *([found.description] if found.description else []),
        f"approval: {found.id} of workflow {found.workflow}",
        f"asked: {format_moment(found.created_ms)}{until}{then}",
        f"who may decide: {people(found)}",
        *(
            f"{one.by}: {one.decision} at {format_moment(one.at_ms)}"
            f"{f' ({one.comments})' if one.comments else ''}"
            for one in found.decisions
        ),
        f"approve leads to: {after['approve']}; reject to: {after['reject']}",
        *([f"page: {found.approval_ui_url}"] if found.approval_ui_url else []),
    ]


def people(found: Approval) -> str:
    """Who may decide."""
    names = clean(", ".join(found.approvers)) or "everybody"
    return names if found.quorum == 1 else f"{names}; {found.quorum} must approve"


def approve(arguments: Namespace) -> int:
    """Decide `approve`."""
    return _decide(arguments, "approve")


def reject(arguments: Namespace) -> int:
    """Decide `reject`."""
    return _decide(arguments, "reject")


def _preview(arguments: Namespace, decision: Verdict) -> int:
    """Say what a decision would lead to."""

    async def ask(app: Facade) -> Consequences:
        asked = await app.approvals.show(arguments.id)
        node = instance_name(asked.node_id, asked.scope)
        action: PreviewAction = "approve" if decision == "approve" else "reject"
        return await app.runs.preview(asked.run_id, action, node)

    return print_preview(arguments, with_app(arguments, ask))


def _decide(arguments: Namespace, decision: Verdict) -> int:
    if arguments.dry_run:
        return _preview(arguments, decision)
    data = None if arguments.data is None else read_data(arguments.data)
    by = arguments.by or user_name()
    if not by:
        raise ConfigError("this machine does not say who you are: name the person with --as NAME")

    async def ask(app: Facade) -> None:
        try:
            found = await app.approvals.decide(
                arguments.id,
                decision,
                by=by,
                comments=arguments.comment,
                data=data,
                groups=arguments.group,
            )
        except NotAnApproverError as error:
            how = "say who decides with --as NAME, and that person's groups with --group NAME"
            raise NotAnApproverError(f"{error}; {how}") from error
        if arguments.output == "json":
            print_json(shapes.approval(found))
            return
        missing = found.quorum - len(found.decisions)
        print(clean(f"{found.id}: {decision} by {by}"))
        if found.status == "pending":
            note(f"{missing} more must approve.")
        run = await app.runs.get(found.run_id)
        if run.status == "RUNNING":
            note(goes_on(arguments.store, run, what="the run"))

    with_app(arguments, ask)
    return outcomes.COMPLETED


def asked_of(result: RunResult) -> list[str]:
    """The approvals that nodes of a run wait for."""
    waits = (node.waiting_for for node in result.nodes.values() if node.waiting_for is not None)
    return [id_of(wait.key) for wait in waits if wait.kind == APPROVAL_WAIT]


def show_command(store: str, id: str) -> str:
    """The command that shows an approval."""
    return command_line(store, "approvals", "show", id)


def decide_command(store: str, id: str) -> str:
    """The command that approves."""
    return f"{command_line(store, 'approvals', 'approve', id)} (or reject)"
