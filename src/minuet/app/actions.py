"""What can be done to runs, by name: the words that programs, requests and answers use."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from minuet.bridge.consequences import PreviewAction as PreviewAction

#: What can be done to several runs at once.
BulkAction: TypeAlias = Literal["cancel", "pause", "resume", "retry", "delete"]

BULK_ACTIONS: tuple[str, ...] = get_args(BulkAction)
PREVIEW_ACTIONS: tuple[str, ...] = get_args(PreviewAction)
