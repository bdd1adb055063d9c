"""A running service for the tests of this folder."""

from rest_serving import service

__all__ = ["service"]
