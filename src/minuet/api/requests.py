"""What clients send: one type for each body. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from minuet.app.actions import PreviewAction
from minuet.app.roles import Role

#: A document as data, or as text in YAML or JSON.
AnyDocument = dict[str, Any] | str

#: How a line was written: logged, or printed.
Level = Literal["debug", "info", "warning", "error", "critical", "stdout", "stderr"]


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all bodies."""


class StartRun(Body, frozen=True):
    """What to run, and with which input. One of `workflow`, `document` and `tag` says what."""

    workflow: Annotated[
        str | dict[str, Any] | None,
        Meta(
            description="A deployed workflow: name, name@tag or name@version. Or a document.",
            examples=["order@main"],
        ),
    ] = None
    tag: Annotated[
        str | None,
        Meta(
            description="With `workflow`, the tag of its version. Alone, the deployed workflow "
            "that has this name, or the only one that has this tag.",
            examples=["main"],
        ),
    ] = None
    document: Annotated[
        AnyDocument | None, Meta(description="A document as data, or as text in YAML or JSON.")
    ] = None
    inputs: Annotated[Any, Meta(description="The run's input.", examples=[{"order_id": 7}])] = None
    idempotency_key: Annotated[
        str | None, Meta(description="The same key and request again: the same run.")
    ] = None
    tags: Annotated[dict[str, Any] | None, Meta(description="Small values to find the run by.")] = (
        None
    )
    start: Annotated[
        bool, Meta(description="false: only create it; `POST /runs/{run_id}/start` starts it.")
    ] = True
    limits: Annotated[
        dict[str, Any] | None,
        Meta(
            description="What the run may use, as `limits` of a document; the smaller ones count.",
            examples=[{"deadline_s": 60}],
        ),
    ] = None


class CancelRun(Body, frozen=True):
    """Why a run is cancelled."""

    reason: str = "cancelled"


class Preview(Body, frozen=True):
    """A change of a run that is not made."""

    action: PreviewAction
    node: Annotated[
        str | None, Meta(description="The node that it is about; `check[2]` is one instance.")
    ] = None
    data: Annotated[Any, Meta(description="The output, or the data of a signal.")] = None
    name: Annotated[str | None, Meta(description="The name of a signal.")] = None
    to: Annotated[str | None, Meta(description="Of `rollback`: what came after this node.")] = None


class ManyRuns(Body, frozen=True):
    """Several runs: those with these ids, or the newest that fit a filter."""

    run_ids: Annotated[list[str], Meta(description="Ids of runs.", max_length=1_000)] = []
    q: Annotated[
        str, Meta(description="A filter, as for `GET /runs`.", examples=["status:failed age<1h"])
    ] = ""
    limit: Annotated[int, Meta(description="Of a filter: at most this many.", ge=1, le=1_000)] = 100
    cursor: Annotated[str | None, Meta(description="Of a filter: `next` of the last answer.")] = (
        None
    )
    preview: Annotated[bool, Meta(description="Change nothing; say what would happen.")] = False


class ChangeRuns(ManyRuns, frozen=True, kw_only=True):
    """What to do with several runs."""

    action: Literal["cancel", "pause", "resume", "retry"]
    reason: Annotated[str, Meta(description="Of `cancel`: stored with the runs.")] = "cancelled"


class Nothing(Body, frozen=True):
    """No fields."""


class RetryRun(Body, frozen=True):
    """How a run is retried."""

    undone: Annotated[
        bool, Meta(description="Start a run over that was undone completely, as another run.")
    ] = False


class RollBack(Body, frozen=True):
    """How much of a run is undone."""

    to: Annotated[
        str | None, Meta(description="Undo only what completed after this node; null: everything.")
    ] = None


class SendSignal(Body, frozen=True):
    """A signal."""

    data: Annotated[Any, Meta(description="The output of the node that receives it.")] = None
    idempotency_key: Annotated[
        str | None, Meta(description="Sending it again with the same key changes nothing.")
    ] = None


#: A change is kept with who made it, and why.
By = Annotated[str, Meta(description="Who does it, if the server does not know who calls.")]
Why = Annotated[str, Meta(description="Kept in the history of the run.")]


class StartCreated(Body, frozen=True):
    """What a run that was only created is started with."""

    inputs: Annotated[Any, Meta(description="The run's input.")] = None


class Repair(Body, frozen=True):
    """Why somebody decides what becomes of a node."""

    by: By = ""
    why: Why = ""


class SetOutput(Body, frozen=True):
    """The output that somebody gives a node."""

    data: Annotated[Any, Meta(description="The output, as if its handler had returned it.")]
    by: By = ""
    why: Why = ""


class EditLetter(Body, frozen=True):
    """Another config for the node of a dead letter."""

    config: Annotated[
        dict[str, Any], Meta(description="For all its further attempts; templates are filled in.")
    ]
    by: By = ""
    why: Why = ""


class Trigger(Body, frozen=True):
    """What a submitted run is started with."""

    input_params: Annotated[Any, Meta(description="The run's input.")] = None


class Deploy(Body, frozen=True):
    """A document to deploy."""

    document: Annotated[
        AnyDocument, Meta(description="A document as data, or as text in YAML or JSON.")
    ]
    tag: Annotated[str, Meta(description="The tag that names the version from now on.")] = "main"
    message: Annotated[str, Meta(description="What has changed.")] = ""
    by: Annotated[
        str, Meta(description="Who deploys it, if the server does not know who calls.")
    ] = ""


class Validate(Body, frozen=True):
    """A document to check."""

    document: Annotated[
        AnyDocument, Meta(description="A document as data, or as text in YAML or JSON.")
    ]


class MoveTag(Body, frozen=True):
    """Where a tag leads."""

    version: Annotated[int, Meta(description="The number of a version.", ge=1)]


class Decide(Body, frozen=True):
    """A decision."""

    decision: Annotated[
        Literal["approve", "reject", "approved", "rejected"],
        Meta(description="`approved` and `rejected` mean the same as `approve` and `reject`."),
    ]
    comments: str = ""
    data: Annotated[Any, Meta(description="It must fit the approval's form.")] = None
    decided_by: Annotated[
        str | None,
        Meta(
            description="The person who decides. It counts if the sender is trusted, or no key is "
            "needed; else it is the owner of the key. `anonymous` if nobody says."
        ),
    ] = None
    groups: Annotated[
        list[str],
        Meta(description="The groups that this person is in; it counts as `decided_by` does."),
    ] = []


class RetryLetters(Body, frozen=True):
    """Which dead letters to retry: those named, or those of a run, a node or a cause."""

    ids: list[str] | None = None
    run_id: str | None = None
    node_id: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    by: By = ""


class StartRedrive(RetryLetters, frozen=True):
    """Which dead letters to retry, and at which pace."""

    per_second: (
        Annotated[float, Meta(ge=0.01, le=1_000, description="At most so many in a second.")] | None
    ) = None


class RetryLetter(Body, frozen=True):
    """Who retries a dead letter."""

    by: By = ""


class DiscardLetter(Body, frozen=True):
    """Why a dead letter is of no further interest."""

    by: By = ""
    why: str = ""


class CreateKey(Body, frozen=True):
    """An API key to create."""

    name: Annotated[
        str,
        Meta(description="Who has it, a person or a service. Keys with one name are one person's."),
    ]
    roles: Annotated[list[Role], Meta(description="What it lets do.", min_length=1)]
    groups: Annotated[
        list[str], Meta(description="Groups that its owner is in: approvals may be for them.")
    ] = []
    trusted: Annotated[
        bool,
        Meta(description="Its owner may act in the name of others: `decided_by` counts."),
    ] = False
    expires_seconds: Annotated[
        Annotated[float, Meta(ge=1, le=1e9)] | None,
        Meta(description="It ends after this time; null: never."),
    ] = None


class RegisterWorker(Body, frozen=True):
    """A worker over HTTP, and what it can do."""

    name: str = ""
    executors: Annotated[
        list[str],
        Meta(
            description="Handler names and node types that it executes.",
            examples=[["resize", "type:render"]],
        ),
    ] = []
    queues: Annotated[
        list[str], Meta(description="Take from these queues only; none: those of its executors.")
    ] = []
    capabilities: Annotated[
        dict[str, Any], Meta(description="What it offers to nodes with placement constraints.")
    ] = {}
    concurrency: Annotated[int, Meta(ge=1, le=10_000, description="Tasks at once.")] = 1
    retries: Annotated[
        dict[str, Annotated[int, Meta(ge=0, le=1_000_000)]],
        Meta(description="How often a handler is tried again, if the document does not say."),
    ] = {}


class KeepStep(Body, frozen=True):
    """The result of a step."""

    value: Any = None


class TaskError(Body, frozen=True):
    """Why a task failed."""

    type: str = "Error"
    message: str = ""
    retryable: bool = True
    code: Annotated[str, Meta(max_length=100)] = "handler_raised"
    verdict: Annotated[
        Literal["final", "refused", "passing", "permanent", "open"] | None,
        Meta(
            description="Instead of `retryable`, if the retry policy of the node should decide: "
            "`open`: the error says nothing about it; `permanent`: it would fail in the same way "
            "again; `passing`: it asks for another attempt; `refused`: by a service; `final`: it "
            "is never retried.",
        ),
    ] = None
    names: Annotated[
        list[str], Meta(description="More names by which a retry policy may mean it.")
    ] = []
    codes: Annotated[
        list[str], Meta(description="HTTP statuses and the like, in the same way.")
    ] = []
    traceback: Annotated[
        list[dict[str, Any]], Meta(description="`file`, `line`, `function` of each call.")
    ] = []
    after_ms: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="How long to wait before the next attempt, if it says so."),
    ] = None


class TaskDone(Body, frozen=True):
    """What became of a task: a result, an error, or it is given back."""

    task: str
    result: Any = None
    error: TaskError | None = None
    released: bool = False


class TaskLine(Body, frozen=True):
    """A line that the handler of a task has printed or logged."""

    task: str
    text: str
    level: Level = "info"


class Exchange(Body, frozen=True):
    """Hand in, renew and take, in one call."""

    seq: Annotated[int, Meta(ge=1, description="1, 2, 3, …; a repeated call has the same number.")]
    done: list[TaskDone] = []
    renew: Annotated[list[str], Meta(description="Tasks that it still works on.")] = []
    lines: Annotated[
        list[TaskLine], Meta(description="What handlers have printed and logged since.")
    ] = []
    take: Annotated[int, Meta(ge=0, le=10_000, description="How many tasks it wants.")] = 0
    wait_ms: Annotated[
        int, Meta(ge=0, le=60_000, description="How long to wait if there is nothing to take.")
    ] = 0
