"""A running service for the tests of this folder."""

from serving import service

__all__ = ["service"]
