"""The API of a read-only server: every answer says how old its data is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from minuet.api.application import Api

#: How old the data of an answer is at most: in milliseconds; and in seconds, as caches say it.
AGE_MS, AGE = b"minuet-data-age-ms", b"age"


class ReplicaApi(Api):
    """Serves a copy. `age_ms` says how old it is at most; None: nobody knows."""

    def __init__(self, *arguments: Any, age_ms: Callable[[], int | None], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.shared.age_ms = age_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        age_ms = self.shared.data_age_ms

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = b"unknown" if age_ms is None else b"%d" % age_ms
                headers = [*message.get("headers", ()), (AGE_MS, known)]
                if age_ms is not None:
                    headers.append((AGE, b"%d" % (age_ms // 1000)))
                message = {**message, "headers": headers}
            await send(message)

        await super().__call__(scope, receive, sending)
