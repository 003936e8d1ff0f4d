"""A store with something on every page, most of it written by somebody who means harm."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ..api.conftest import Site
from ..waiting import until

#: What would set `window.ran`, were it run as code or as markup.
EVIL = (
    '<img src=x onerror="window.ran=1">'
    "<script>window.ran=2</script>"
    '"><svg onload=window.ran=3>'
    "</title><iframe srcdoc='<script>parent.ran=4</script>'></iframe>"
    "<a href='javascript:window.ran=5'>here</a>"
    "'-(window.ran=6)-'"
)
#: A name of a workflow can have most of it.
NAME = "<img src=x onerror=window.ran=7>"
LINK = "javascript:window.ran=8"

#: Every text of it that a document's author can choose.
DOCUMENT: dict[str, Any] = {
    "name": NAME,
    "description": EVIL,
    "input": {
        "type": "object",
        "description": EVIL,
        "properties": {"evil": {"type": "string", "title": EVIL, "description": EVIL}},
    },
    "nodes": [
        {
            "id": "say",
            "description": EVIL,
            "handler": "say",
            "config": {"value": {"{{ input.evil }}": "{{ input.evil }}", "link": LINK}},
        },
        {
            "id": "choose",
            "type": "decision",
            "dependencies": ["say"],
            "branch": {
                "rules": [{"when": f"input.evil != {EVIL!r}", "next_nodes": ["ask"]}],
                "default": ["ask"],
            },
        },
        {
            "id": "ask",
            "type": "human",
            "human_config": {
                "title": "{{ input.evil }}",
                "description": "{{ input.evil }}",
                "approvers": [NAME],
                "payload": {NAME: "{{ input.evil }}", "link": LINK, "page": f"https://x.test/{NAME}"},
                "approval_ui_url": "{{ input.link }}",
                "form": {
                    "type": "object",
                    "properties": {
                        "note": {"type": "string", "title": EVIL, "examples": [EVIL]},
                        "kind": {"enum": [EVIL, LINK]},
                    },
                },
            },
        },
        {"id": "after", "type": "noop", "dependencies": ["ask"]},
        {
            "id": "complain",
            "handler": "complain",
            "config": {"text": "{{ input.evil }}"},
            "retry": {"max_attempts": 1},
            "on_error": "continue",
        },
    ],
}


async def crowd(site: Site) -> str:
    """Fill the store; the id of a run that waits for people."""
    await site.post("/workflows", {"document": DOCUMENT, "message": EVIL, "by": NAME}, 201)
    inputs = {"evil": EVIL, "link": LINK}
    body = {"workflow": NAME, "inputs": inputs, "tags": {"who": NAME}}
    run: str = (await site.post("/runs", body, 201))["run_id"]
    node = DOCUMENT["nodes"][-1] | {"on_error": "fail"}
    failing = {"name": NAME, "dlq_policy": "all", "nodes": [node]}
    failed = await site.start(failing, inputs)
    await site.app.runs.wait_ended(failed, timeout=60)
    await site.post("/workers", {"name": NAME, "executors": ["type:evil"]}, 201)

    async def is_asked() -> bool:
        nodes = (await site.get(f"/runs/{run}"))["nodes"]
        return (nodes["ask"]["status"], nodes["complain"]["status"]) == ("WAITING", "FAILED")

    await until(site.app.store, is_asked)
    return run


def paths(run: str) -> list[str]:
    """Every page, with what can be open on it."""
    workflow = f"/workflows/{_quote(NAME)}"
    return [
        "/runs",
        f"/runs?q={_quote(EVIL[:60])}",
        f"/runs/{run}?node=say",
        f"/runs/{run}?node=complain",
        f"/runs/{run}?node=ask&tab=timeline",
        f"/runs/{run}?tab=history",
        f"/runs/{run}?tab=data",
        "/approvals",
        f"/approvals/{_quote(f'{run}:ask')}",
        "/dlq",
        "/workers",
        "/workflows",
        workflow,
        f"{workflow}?tab=document",
        f"{workflow}?tab=start",
        f"{workflow}?tab=versions",
        "/overview",
        f"/editor?workflow={_quote(NAME)}",
        f"/nowhere/{_quote(EVIL)}",
    ]


def _quote(text: str) -> str:
    return quote(text, safe="")
