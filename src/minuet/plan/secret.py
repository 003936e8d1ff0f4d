"""Which secrets a document reads in its templates, and whether it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minuet.errors import TemplateError
from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.catalog import Catalog
from minuet.plan.problems import Problems
from minuet.plan.reference import UNDOING, rendered_parts
from minuet.plan.text import is_template, strings
from minuet.types import Path


def check_secrets(workflow: Workflow, catalog: Catalog, problems: Problems) -> None:
    """Refuse templates that read a secret which their node does not declare, or that stand where
    what they become is kept."""
    for place, node in enumerate(workflow.nodes):
        kind = catalog.get(node.type)
        takes = kind is None or kind.takes_secrets
        _check_config(place, node, problems, takes=takes)
        if node.secrets and not takes:
            problems.warn(
                "no-effect",
                f"nodes of type {quote(node.type)} read no secrets",
                ("nodes", place, "secrets"),
                hint="leave it out, or read the secret in a node that calls a service",
            )
        if node.compensator is not None and node.compensator.config is not None:
            where = ("nodes", place, UNDOING, "config")
            _check_declared(node, node.compensator.config, where, problems)
        for path, value in rendered_parts(place, node):
            _refuse(value, path, problems)
        if node.concurrency is not None:
            _refuse(node.concurrency.key, ("nodes", place, "concurrency", "key"), problems)
        if node.foreach is not None:
            _refuse(node.foreach.items, ("nodes", place, "foreach", "items"), problems)
    _refuse(workflow.output, ("output",), problems)


def _check_config(place: int, node: Node, problems: Problems, *, takes: bool) -> None:
    path: Path = ("nodes", place, "config")
    if takes:
        _check_declared(node, node.config, path, problems)
        return
    for name, where in _reads(node.config, path):
        problems.error(
            "secret-not-available",
            f"{node.type} node {quote(node.id)} cannot read the secret {quote(name)}: what "
            "its config becomes is kept in the run",
            where,
            hint="read it in the node that needs it",
        )


def _check_declared(node: Node, value: Any, path: Path, problems: Problems) -> None:
    """Report the secrets that are read in a value and that the node does not declare."""
    for name, where in _reads(value, path):
        if name not in node.secrets:
            problems.error(
                "undeclared-secret",
                f"node {quote(node.id)} does not declare the secret {quote(name)}",
                where,
                hint=problems.suggest(name, node.secrets) or f"add 'secrets: [{name}]' to the node",
            )


def _refuse(value: Any, path: Path, problems: Problems) -> None:
    for name, where in _reads(value, path):
        problems.error(
            "secret-not-available",
            f"the secret {quote(name)} cannot be read here: what the text becomes is kept in the "
            "run",
            where,
            hint="secrets are read in the config of nodes",
        )


def _reads(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    """The secrets that templates in a value read, each with its place."""
    for where, text in strings(value, path):
        # Most texts are ruled out without being compiled.
        if "secrets" in text and is_template(text):
            from minuet.templates import compile_template

            try:
                names = compile_template(text).secrets
            except TemplateError:
                # Reported where the references of all templates are collected.
                continue
            yield from ((name, where) for name in sorted(names))
