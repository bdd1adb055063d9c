"""Documents that users write: reading with line numbers, checking with a diagnostic for every problem, their files."""

from modak_deploy.documents.deployment import (
    Description,
    PlaybookOptions,
    RunOptions,
    load_deployment,
    parse_deployment,
    parse_destination,
    parse_options,
    read_description,
)
from modak_deploy.documents.plain import plain
from modak_deploy.documents.reading import Document, Outline, read_document, read_outline, read_text
from modak_deploy.documents.sites import expand
from modak_deploy.documents.sources import LocalSource, files_read, find_sources, folders
from modak_deploy.documents.validation import check

__all__ = [
    "Description",
    "Document",
    "LocalSource",
    "Outline",
    "PlaybookOptions",
    "RunOptions",
    "check",
    "expand",
    "files_read",
    "find_sources",
    "folders",
    "load_deployment",
    "parse_deployment",
    "parse_destination",
    "parse_options",
    "plain",
    "read_description",
    "read_document",
    "read_outline",
    "read_text",
]
