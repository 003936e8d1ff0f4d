"""`minuet.run` and `minuet.arun`: a workflow from start to end in one call."""

from __future__ import annotations

import asyncio
from typing import Any, Unpack, overload

from minuet.app.app import App
from minuet.app.compiling import AnyDocument
from minuet.app.options import OptionArguments, Seconds
from minuet.app.portal import refuse_loop
from minuet.app.results import RunResult
from minuet.model import DocumentSource
from minuet.store.base import Store
from minuet.types import InputT, OutputT


@overload
async def arun(
    workflow: DocumentSource[InputT, OutputT],
    input: InputT,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult[OutputT]: ...


@overload
async def arun(
    workflow: DocumentSource[None, OutputT],
    input: None = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult[OutputT]: ...


@overload
async def arun(
    workflow: AnyDocument,
    input: Any = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult: ...


async def arun(
    workflow: Any,
    input: Any = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult:
    """Run a workflow to its end; RunFailed unless it completes.

    `workflow` is a file's path or a document's data. The run is stored where the commands find
    it, unless another store is named: MINUET_STORE, else `sqlite:///minuet.db`. `memory://`
    forgets everything at the end. Other runs of the store are left alone. The options are those
    of an App.
    """
    # Who calls this has written the workflow, or vouches for it.
    chosen: OptionArguments = {"own_runs_only": True, "egress_private": True, **options}
    async with App(store, **chosen) as app:
        return await app.run(workflow, input, timeout=timeout)


@overload
def run(
    workflow: DocumentSource[InputT, OutputT],
    input: InputT,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult[OutputT]: ...


@overload
def run(
    workflow: DocumentSource[None, OutputT],
    input: None = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult[OutputT]: ...


@overload
def run(
    workflow: AnyDocument,
    input: Any = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult: ...


def run(
    workflow: Any,
    input: Any = None,
    *,
    store: str | Store | None = None,
    timeout: Seconds | None = None,
    **options: Unpack[OptionArguments],
) -> RunResult:
    """As `arun`, for programs that do not use asyncio."""
    refuse_loop("minuet.run(…)", "await minuet.arun(…)")
    return asyncio.run(arun(workflow, input, store=store, timeout=timeout, **options))
