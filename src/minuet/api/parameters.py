"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query

from minuet.app.filters import make_query
from minuet.types import RunStatus

RunId = Annotated[
    str, Path(description="Id of a run.", examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436"])
]
NodeName = Annotated[
    str,
    Path(description="Id of a node; `check[2]` is its third iteration.", examples=["check"]),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="At most this many items.")]
Cursor = Annotated[str | None, Query(description="`next` of the previous page.")]
IfMatch = Annotated[
    str | None,
    Header(
        description="Do it only if this is still the number of the run's last event.",
        examples=['"12"'],
    ),
]


async def _run_query(
    q: Annotated[
        str,
        Query(
            description="A filter: words that must all fit. `status:failed`, `workflow:order`, "
            "`tag:name:value`, `age<1h`, `took>5s`, `is:stalled`, `error:text`, `input:text`, "
            "`output:text`, or a text that may be anywhere; `-` before a word: it must not fit.",
            examples=["status:failed workflow:order age<1h acme"],
        ),
    ] = "",
    status: Annotated[list[RunStatus], Query(description="Only these; repeatable.")] = [],  # noqa: B006
    workflow: Annotated[str | None, Query(description="Only runs of this workflow.")] = None,
    tag: Annotated[
        str | None,
        Query(
            description="Only runs that were started by this tag of their workflow, or `name:value`"
            ": only runs that have this tag."
        ),
    ] = None,
    parent: Annotated[str | None, Query(description="Only child runs of this run.")] = None,
    since: Annotated[
        str | None,
        Query(description="Only runs created since then: a time, or a duration such as 45m."),
    ] = None,
    until: Annotated[
        str | None,
        Query(description="Only runs created until then: a time, or a duration such as 45m."),
    ] = None,
    stalled: Annotated[
        bool,
        Query(description="Only runs that wait for nobody, and to which nothing happens."),
    ] = False,
) -> str:
    return make_query(
        q,
        statuses=status,
        workflow=workflow,
        tag=tag,
        parent=parent,
        since=since,
        until=until,
        stalled=stalled,
    )


#: A filter for runs, as a text and as parameters that say a part of it each.
RunQuery = Annotated[str, Depends(_run_query)]
