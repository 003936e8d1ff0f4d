"""Workflow documents as the author wrote them: reading, writing and problems."""

from minuet.model.diagnostics import Diagnostic, Position, format_path
from minuet.model.document import (
    Document,
    DocumentSource,
    Places,
    dump_document,
    read_document,
    read_file,
    read_mapping,
)
from minuet.model.schema import document_schema
from minuet.model.yamlwriter import write_yaml
from minuet.types import Path

__all__ = [
    "Diagnostic",
    "Document",
    "DocumentSource",
    "Path",
    "Places",
    "Position",
    "document_schema",
    "dump_document",
    "format_path",
    "read_document",
    "read_file",
    "read_mapping",
    "write_yaml",
]
