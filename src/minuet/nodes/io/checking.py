"""Rendered configs against the schema of their node type.

What a document says is checked when it is compiled. What its templates become is known only when
the node runs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.errors import ServiceRefusedError
from minuet.schemas import compile_schema


def check_config(node_type: str, schema: dict[str, Any], config: dict[str, Any]) -> None:
    """ServiceRefusedError with all problems unless a rendered config fits."""
    problems = compile_schema(msgspec.json.encode(schema)).find_problems(config, "config")
    if problems:
        raise ServiceRefusedError(f"{node_type}: {'; '.join(problems)}", code="invalid-config")
