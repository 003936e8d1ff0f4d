"""A condition that holds if the node's output fits a JSON Schema.

    {"type": "schema_validation", "schema": {"type": "object", "required": ["status"]}}

With `invert: true` it holds if the output does not fit. `schema_ref` names a blob that holds the
schema. References inside a schema that lead to other documents are never followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from minuet.conditions import NO_BLOBS, Blobs
from minuet.conditions.blob import missing_blob, read_reference
from minuet.conditions.form import read_form
from minuet.conditions.limits import LIMITS, Limits
from minuet.errors import ConditionError
from minuet.schemas import Schema, SchemaTooComplexError, compile_schema
from minuet.types import Json

#: Bytes of a schema.
SCHEMA_BYTES_MAX = 1 << 20


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> SchemaValidation:
    """Compile `{"type": "schema_validation", "schema" | "schema_ref": …, "invert": …}`."""
    form = read_form(source, optional=("schema", "schema_ref", "invert"))
    invert = form.get("invert", False)
    if not isinstance(invert, bool):
        raise ConditionError("'invert' is true or false")
    if ("schema" in form) == ("schema_ref" in form):
        raise ConditionError("a schema_validation condition needs a 'schema' or a 'schema_ref'")
    if "schema" in form:
        return SchemaValidation(_compile(msgspec.json.encode(form["schema"])), "", invert)
    ref = read_reference("schema_ref", form["schema_ref"])
    return SchemaValidation(_compile(blobs[ref]) if ref in blobs else None, ref, invert)


def _compile(data: bytes) -> Schema:
    import jsonschema_rs

    if len(data) > SCHEMA_BYTES_MAX:
        raise ConditionError(f"the schema has {len(data):,} bytes, at most {SCHEMA_BYTES_MAX:,}")
    try:
        schema = msgspec.json.decode(data)
        if not isinstance(schema, dict | bool):
            raise ConditionError("a schema is an object, or true or false")
        return compile_schema(data)
    except msgspec.DecodeError as error:
        raise ConditionError(f"the schema is not valid JSON: {error}") from None
    except SchemaTooComplexError as error:
        raise ConditionError(f"the schema cannot be used: {error}") from None
    except jsonschema_rs.ValidationError as error:
        message = error.message[:400]
        raise ConditionError(f"the schema is not a valid JSON Schema: {message}") from None


class SchemaValidation:
    """A compiled schema_validation condition."""

    __slots__ = ("_invert", "_ref", "_schema", "blobs", "source")

    #: It reads the node's own output only.
    references: frozenset[str] = frozenset()
    reads_all = False
    is_slow = False
    reads_metadata = False

    def __init__(self, schema: Schema | None, ref: str, invert: bool) -> None:
        self._schema = schema
        self._ref = ref
        self._invert = invert
        self.blobs = frozenset({ref} if ref else ())
        what = f"the schema {ref}" if ref else "its schema"
        self.source = f"output {'does not fit' if invert else 'fits'} {what}"

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        try:
            fits = self._compiled().is_valid(variables.get("output"), "output")
        except SchemaTooComplexError as error:
            raise ConditionError(str(error), source=self.source) from None
        return fits is not self._invert

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        told: dict[str, Any] = {"type": "schema_validation", "source": self.source}
        operands: dict[str, Json] = {}
        try:
            told["result"] = self.evaluate(variables)
            problems = self._compiled().find_problems(variables.get("output"), "output")
            if problems:
                operands["problems"] = problems
        except ConditionError as error:
            told["error"] = str(error)
        return {**told, "operands": operands, "missing": [], "parts": []}

    def _compiled(self) -> Schema:
        if self._schema is None:
            raise missing_blob(self._ref, self.source)
        return self._schema
