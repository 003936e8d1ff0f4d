"""`minuet runs export` and `minuet test`: recorded runs."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from minuet import outcomes
from minuet.app.app import Facade
from minuet.app.compiling import read_source
from minuet.cli.handlers import load_handlers
from minuet.cli.output import clean, note, print_json
from minuet.cli.parser import UsageError
from minuet.cli.process import handlers_print
from minuet.cli.stores import find_run, with_app
from minuet.model import Document
from minuet.testing.replaying import Recording, Replayed, read_recording, replay

COMMAND = "minuet test"


def export(arguments: Namespace) -> int:
    """Print a run, with all that belongs to it."""

    async def ask(app: Facade) -> None:
        recording = await app.runs.export(await find_run(app, arguments.run))
        sys.stdout.write(recording.encode().decode())
        for ref in recording.left_out:
            note(f"left out, because it is too large or missing: {ref}")

    with_app(arguments, ask)
    return outcomes.COMPLETED


def test(arguments: Namespace) -> int:
    """Play recorded runs again, and compare them."""
    documents = [read_source(file) for file in arguments.documents]
    modules = load_handlers(arguments.handlers)
    recordings = {file: read_recording(file) for file in arguments.files}
    _check_documents(documents, list(recordings.values()))
    found = {
        file: _replay(recording, documents, modules, arguments.live)
        for file, recording in recordings.items()
    }
    if arguments.output == "json":
        print_json([_shape(file, replayed) for file, replayed in found.items()])
    else:
        for file, replayed in found.items():
            text = "as recorded" if replayed.same else f"differs: {replayed.difference}"
            print(clean(f"{file}: {text}"))
    all_same = all(replayed.same for replayed in found.values())
    return outcomes.COMPLETED if all_same else outcomes.FAILED


def _check_documents(documents: list[Document], recordings: list[Recording]) -> None:
    known = {run.workflow for recording in recordings for run in recording.runs}
    for document in documents:
        if document.workflow.name not in known:
            names = ", ".join(sorted(known))
            raise UsageError(
                COMMAND,
                f"--document {document.source}: its name is {document.workflow.name!r}, and the "
                f"recorded runs are of: {names}",
            )


def _replay(
    recording: Recording, documents: list[Document], modules: list[Any], live: list[str]
) -> Replayed:
    name = recording.runs[0].workflow
    mine = next((one for one in documents if one.workflow.name == name), None)
    below = {run.workflow for run in recording.runs[1:]}
    children = [one for one in documents if one is not mine and one.workflow.name in below]
    # What handlers print is not this command's output.
    with handlers_print(to_stderr=True):
        return replay(recording, mine, workflows=children, modules=modules, live=live)


def _shape(file: str, replayed: Replayed) -> dict[str, Any]:
    return {
        "file": file,
        "workflow": replayed.played.workflow,
        "run_id": replayed.played.run_id,
        "same": replayed.same,
        "differences": [
            {
                "place": one.place,
                "what": one.what,
                "recorded": one.recorded,
                "replayed": one.replayed,
            }
            for one in replayed.differences
        ],
    }
