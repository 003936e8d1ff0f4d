"""How a node runs: retries, timeouts, limits, errors, and settings of future node types."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from minuet.model import workflow as model
from minuet.plan import plan

#: The limit of a loop if neither the loop nor the workflow sets one.
ITERATIONS_DEFAULT = 100

#: Parts of a node that only its type understands.
EXTRAS = ("human_config", "agent_config", "rejection_path")

#: Fields of `human_config` whose templates are rendered, as those of `config` are.
RENDERED = ("title", "description", "payload", "approvers", "approval_ui_url")


def find_retry_author(
    own: model.Retry | None, default: model.Retry | None, settings: plan.Retry
) -> plan.RetryAuthor | None:
    """Who wrote a node's retry policy. A written policy counts even if it equals the default."""
    if own is not None or default is not None:
        return "document"
    return "settings" if settings != plan.RETRY_DEFAULT else None


def complete_retry(
    own: model.Retry | None, default: model.Retry | None, settings: plan.Retry
) -> plan.Retry:
    """Fill in what a node leaves out, from the workflow's defaults, then from the settings."""
    fields: dict[str, Any] = msgspec.structs.asdict(settings)
    for policy in (default, own):
        if policy is not None:
            fields |= {
                field: value
                for field in policy.__struct_fields__
                if (value := getattr(policy, field)) is not None
            }
    # Equal policies must be encoded alike; only fields that equal the default are left out.
    return plan.Retry(
        **{n: value for n, value in fields.items() if value != getattr(plan.RETRY_DEFAULT, n)}
    )


def find_timeout_ms(node: model.Node, defaults: model.Defaults) -> int | None:
    """How long an attempt may take: the smaller of its timeout and its deadline."""
    timeout_s = node.timeout_seconds
    if timeout_s is None:
        timeout_s = defaults.timeout_seconds
    deadline_s = node.limits.deadline_s if node.limits is not None else None
    return to_ms(smallest(timeout_s, deadline_s))


def find_iterations(loop: model.Loop, limits: model.Limits) -> int:
    """How many rounds a loop may have: the smallest limit that applies."""
    least = smallest(loop.max_iterations, limits.max_iterations)
    return ITERATIONS_DEFAULT if least is None else int(least)


def find_on_error(node: model.Node) -> Literal["fail", "continue", "path"]:
    """What an unhandled error does."""
    return "path" if isinstance(node.on_error, tuple) else node.on_error


def collect_extra(node: model.Node, workflow: model.Workflow) -> dict[str, Any]:
    """Keep, as plain data, the parts that the plan itself does not interpret."""
    extra = {
        field: _plain(value) for field in EXTRAS if (value := getattr(node, field)) is not None
    }
    if node.type == plan.AGENT:
        extra.pop("agent_config", None)  # It is part of the config.
        extra |= _agent_extra(node, workflow)
    if node.config_ref is not None and node.config_ref.type_url is not None:
        extra["type_url"] = node.config_ref.type_url
    return extra


def _agent_extra(node: model.Node, workflow: model.Workflow) -> dict[str, Any]:
    """What an agent must know of its workflow: the nodes that it may choose from, and what all
    agents of a run may spend."""
    extra: dict[str, Any] = {}
    branch = node.branch
    # The items of a foreach do not choose.
    if branch is not None and branch.type == "agent_driven" and node.foreach is None:
        nodes = {one.id: one for one in workflow.nodes}
        extra["next_nodes"] = {
            name: _described(nodes[name]) for name in branch.available_next_nodes if name in nodes
        }
    budgets = (node.limits and node.limits.budget, workflow.limits.budget)
    for name, budget in zip(("budget", "run_budget"), budgets, strict=True):
        if budget is not None:
            extra[name] = _plain(budget)
    return extra


def _described(node: model.Node) -> str:
    """What a node does, in words."""
    if node.description:
        return node.description
    return f"{node.type} {node.handler}" if node.handler else node.type


def _plain(value: Any) -> Any:
    """Through JSON, so that a plan equals what is read back from its bytes."""
    return msgspec.json.decode(msgspec.json.encode(value))


def agent_fields(node: model.Node) -> dict[str, Any]:
    """The fields of an agent's `agent_config`, which are part of its config."""
    if node.type != plan.AGENT or node.agent_config is None:
        return {}
    fields: dict[str, Any] = _plain(node.agent_config)
    return fields


def reassigned_to(asked: model.HumanConfig) -> Any:
    """Who decides when the time of the approvers is over; None: nobody else."""
    policy = asked.escalation_policy
    return policy.reassign if isinstance(policy, model.Reassign) else None


def collect_config(node: model.Node) -> dict[str, Any] | None:
    """What is rendered for each instance: the config, what a human node shows to people, and
    what an agent works with."""
    if node.type == "human" and node.human_config is not None:
        asked = msgspec.json.decode(msgspec.json.encode(node.human_config))
        shown = {field: asked[field] for field in RENDERED if field in asked}
        if reassigned_to(node.human_config) is not None:
            shown["reassign"] = asked["escalation_policy"]["reassign"]
        return {**node.config, "human_config": shown}
    config = {**node.config, **agent_fields(node)}
    return config if config or node.config_ref is None else None


def smallest(*limits: float | None) -> float | None:
    """The smallest of the limits that are set."""
    return min((limit for limit in limits if limit is not None), default=None)


def to_ms(seconds: float | None) -> int | None:
    """Convert seconds to milliseconds. A time above 0 does not become 0."""
    if seconds is None:
        return None
    return max(round(seconds * 1000), 1 if seconds > 0 else 0)
