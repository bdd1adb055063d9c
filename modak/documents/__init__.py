"""Documents that users write: reading with line numbers, checking with one sentence for every fault, their files."""

from modak.documents.deployment import load_deployment, located, parse_deployment, parse_place
from modak.documents.faults import check
from modak.documents.plain import plain
from modak.documents.reading import Document, Locate, Outline, read_document, read_outline, read_text
from modak.documents.sources import LocalSource, find_sources

__all__ = [
    "Document",
    "LocalSource",
    "Locate",
    "Outline",
    "check",
    "find_sources",
    "load_deployment",
    "located",
    "parse_deployment",
    "parse_place",
    "plain",
    "read_document",
    "read_outline",
    "read_text",
]
