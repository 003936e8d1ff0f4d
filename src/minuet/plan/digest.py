"""A plan as bytes, and its name: the hash of these bytes.

The bytes are canonical: the same plan gives the same bytes in every process and on every
machine, so a version is stored once no matter how often it is compiled.
"""

from __future__ import annotations

import hashlib

import msgspec

from minuet.errors import StoreUnusableError
from minuet.plan.plan import FORMAT, Plan


class _Envelope(msgspec.Struct, frozen=True):
    """The format is outside the plan, because a plan omits fields that equal the default."""

    format: int
    plan: msgspec.Raw


def encode_plan(plan: Plan) -> bytes:
    """Write a plan as canonical JSON."""
    body = msgspec.Raw(msgspec.json.encode(plan, order="deterministic"))
    return msgspec.json.encode(_Envelope(format=plan.format, plan=body))


def digest_plan(data: bytes) -> str:
    """Name an encoded plan by its content."""
    return f"cas://sha256:{hashlib.sha256(data).hexdigest()}"


def decode_plan(data: bytes) -> Plan:
    """Read an encoded plan. StoreUnusableError if it is damaged or its format is newer."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if envelope.format > FORMAT:
            raise StoreUnusableError(
                f"the plan has format {envelope.format}, and this version of Minuet reads up to "
                f"format {FORMAT}: use a newer version"
            )
        plan = msgspec.json.decode(envelope.plan, type=Plan)
    except msgspec.MsgspecError as error:
        raise StoreUnusableError(f"the plan is damaged: {error}") from error
    return msgspec.structs.replace(plan, format=envelope.format)
