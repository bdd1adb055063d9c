"""The providers by name."""

from modak.extensions import PROVIDERS
from modak.model.cloud import ProviderName
from modak.providers.base import Provider


def get(name: ProviderName) -> Provider:
    """Return the provider; InputError where there is none of that name, or its distribution is faulty."""
    provider: Provider = PROVIDERS.make(name, Provider)
    return provider
