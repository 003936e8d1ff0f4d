"""Work for pictures of the page: handlers, workflows and the runs that are started of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import minuet

ROOT = Path(__file__).parent.parent
ITEMS = [
    {"name": "desk", "price": 400, "quantity": 1},
    {"name": "lamp", "price": 80, "quantity": 2},
    {"name": "chair", "price": 145, "quantity": 4},
]
CUSTOMERS = ("Ann", "Bela", "Chidi", "Dana", "Emre", "Fay", "Goran", "Hina")


@minuet.task
async def fetch_invoices(customer: str, count: int, ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("asking the archive for %d invoices of %s", count, customer)
    await asyncio.sleep(0.12)
    numbers = [f"{customer[:2].upper()}-{1000 + number}" for number in range(count)]
    return {"customer": customer, "invoices": numbers}


@minuet.task
async def read_invoice(number: str, ctx: minuet.Context) -> dict[str, Any]:
    await asyncio.sleep(0.05 + int(number[-1]) / 40)
    if number.endswith("3") and ctx.attempt == 1:
        raise ConnectionError("the archive closed the connection")
    ctx.log.info("read %s", number)
    return {"number": number, "total": int(number[-2:]) * 12.5, "pages": 1 + int(number[-1]) % 3}


@minuet.task
async def check_budget(customer: str, ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("budget of %s", customer)
    await asyncio.sleep(0.3)
    return {"left": 1800}


@minuet.task
async def book(total: float, ctx: minuet.Context) -> dict[str, Any]:
    if ctx.attempt == 1:
        await asyncio.sleep(0.08)
        raise TimeoutError("the ledger did not answer within 80 ms")
    await asyncio.sleep(0.16)
    ctx.log.info("booked %s", total)
    return {"booked": total, "entry": "L-" + ctx.idempotency_key[:8]}


@minuet.task
async def charge(card: str, amount: int) -> dict[str, Any]:
    await asyncio.sleep(0.04)
    if card.startswith("4000"):
        raise ValueError(f"card declined by the bank (card ending {card[-4:]})")
    if card.startswith("5100"):
        raise ConnectionError("payments.example refused the connection")
    return {"charged": amount}


@minuet.task
async def draw_preview(number: str) -> dict[str, Any]:
    return {"preview": number}


@minuet.task
async def wait_for_bank(seconds: float, ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("waiting for the bank's file")
    await asyncio.sleep(seconds)
    return {"received": True}


INVOICES: dict[str, Any] = {
    "name": "invoices",
    "description": "Reads all invoices of a customer, and books what is within the budget.",
    "input": {
        "type": "object",
        "required": ["customer", "count"],
        "properties": {
            "customer": {"type": "string", "description": "as in the address book"},
            "count": {"type": "integer", "minimum": 1, "maximum": 50, "default": 8},
            "urgent": {"type": "boolean"},
        },
    },
    "nodes": [
        {
            "id": "fetch",
            "handler": "fetch_invoices",
            "config": {"customer": "{{ input.customer }}", "count": "{{ input.count }}"},
        },
        {
            "id": "read",
            "handler": "read_invoice",
            "dependencies": ["fetch"],
            "foreach": {"items": "{{ fetch.invoices }}", "as": "number", "max_parallel": 4},
            "config": {"number": "{{ number }}"},
            "retry": {"max_attempts": 3, "backoff_ms": 150},
        },
        {
            "id": "budget",
            "handler": "check_budget",
            "config": {"customer": "{{ input.customer }}"},
        },
        {
            "id": "sum",
            "type": "transform",
            "dependencies": ["read", "budget"],
            "config": {
                "value": {
                    "invoices": "{{ fetch.invoices }}",
                    "read": "{{ read.output }}",
                    "left": "{{ budget.left }}",
                }
            },
            "branch": {
                "rules": [{"when": "size(output.invoices) > 9", "next_nodes": ["ask"]}],
                "default": ["book"],
            },
        },
        {
            "id": "ask",
            "type": "human",
            "human_config": {
                "title": "Book {{ input.count }} invoices of {{ input.customer }}?",
                "payload": {
                    "customer": "{{ input.customer }}",
                    "invoices": "{{ fetch.invoices }}",
                    "budget left (EUR)": "{{ budget.left }}",
                },
                "approvers": ["ada", "finance"],
                "timeout_hours": 48,
                "escalation_policy": "reject",
                "form": {
                    "type": "object",
                    "required": ["cost_centre"],
                    "properties": {
                        "cost_centre": {
                            "title": "Cost centre",
                            "enum": ["4010 office", "4200 travel", "4900 other"],
                        },
                        "limit": {"title": "Limit (EUR)", "type": "number", "maximum": 2000},
                        "inform": {"title": "Tell the customer", "type": "boolean"},
                    },
                },
            },
            "rejection_path": ["refuse"],
        },
        {
            "id": "book",
            "handler": "book",
            "dependencies": ["sum", "ask"],
            "join": "any",
            "config": {"total": 412.5},
            "retry": {"max_attempts": 3, "backoff_ms": 250},
        },
        {"id": "refuse", "type": "transform", "config": {"value": "not booked"}},
        {
            "id": "report",
            "type": "transform",
            "dependencies": ["book", "refuse"],
            "join": "any",
            "config": {"value": "{{ input.customer }} is done"},
        },
    ],
}
PAYMENT: dict[str, Any] = {
    "name": "payment",
    "description": "Charges a card. What fails for good is kept as a dead letter.",
    "dlq_policy": "all",
    "input": {"type": "object", "required": ["card", "amount"]},
    "nodes": [
        {
            "id": "charge",
            "handler": "charge",
            "config": {"card": "{{ input.card }}", "amount": "{{ input.amount }}"},
            "retry": {"max_attempts": 2, "backoff_ms": 60},
        },
        {"id": "receipt", "type": "noop", "dependencies": ["charge"]},
    ],
}
PREVIEW: dict[str, Any] = {
    "name": "preview",
    "description": "Draws a preview on a machine with a graphics card.",
    "nodes": [
        {
            "id": "draw",
            "handler": "draw_preview",
            "config": {"number": "AN-1000"},
            "placement_constraints": {"requires_capabilities": {"gpu": 1}},
        },
        {"id": "store", "type": "noop", "dependencies": ["draw"]},
    ],
}
SETTLEMENT: dict[str, Any] = {
    "name": "settlement",
    "description": "Waits for the bank's file of the day.",
    "nodes": [
        {"id": "bank", "handler": "wait_for_bank", "config": {"seconds": 900}},
        {"id": "match", "type": "noop", "dependencies": ["bank"]},
    ],
}


MONTH: dict[str, Any] = {
    "name": "month_end",
    "description": "Has the invoices of all customers booked.",
    "nodes": [
        {"id": "open_books", "type": "noop"},
        {
            "id": "customers",
            "type": "workflow",
            "dependencies": ["open_books"],
            "foreach": {"items": "{{ input }}", "as": "customer", "max_parallel": 5},
            "config": {
                "workflow": "invoices",
                "input": {"customer": "{{ customer.name }}", "count": "{{ customer.count }}"},
            },
        },
        {"id": "close_books", "type": "noop", "dependencies": ["customers"]},
    ],
}


async def start_runs(app: minuet.App) -> dict[str, str]:
    """About 60 runs, in the order of a busy minute; the ids of those that pictures are taken of."""
    order = str(ROOT / "examples" / "order" / "order.yaml")
    refunds = str(ROOT / "examples" / "approval" / "refund.yaml")
    for source in (order, refunds, INVOICES, PAYMENT, PREVIEW, SETTLEMENT, MONTH):
        await app.workflows.deploy(app.workflows.compile(source))
    runs: dict[str, str] = {}

    async def start(workflow: str, data: Any = None, **tags: str) -> str:
        return (await app.start(workflow, data, tags=tags)).id

    for number, customer in enumerate(CUSTOMERS * 3):
        items = ITEMS[: 1 + number % 3]
        await start("order", {"customer": customer, "items": items}, shop="north")
        card = ("4000", "4242", "4000", "4242", "5100")[number % 5] + f"-{1000 + number}"
        await start("payment", {"card": card, "amount": 20 + number})
        if number % 4 == 1:
            data = {"customer": customer, "count": 3 + number % 5}
            await start("invoices", data, shop="south")
        if number % 9 == 0:
            await start("refund", {"customer": customer, "amount": 80 + 90 * number})
        await asyncio.sleep(0.15)
    await start("preview")
    await start("preview")
    runs["held"] = await start("settlement")
    customers = [
        {"name": name, "count": 12 if number == 1 else 3 + number % 4}
        for number, name in enumerate(CUSTOMERS)
    ]
    runs["month"] = await start("month_end", customers)
    runs["done"] = await start("invoices", {"customer": "Ann", "count": 8}, shop="north")
    runs["asks"] = await start("invoices", {"customer": "Bela", "count": 12}, shop="north")
    await app.runs.wait_ended(runs["done"], timeout=120)
    refund = next(one for one in await app.approvals.list() if one.workflow == "refund")
    await app.approvals.approve(refund.id, by="ada", comments="as agreed", data={"account": "1-23"})
    return runs
