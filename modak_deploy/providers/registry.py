"""The providers by name."""

from modak_deploy.extensions import PROVIDERS
from modak_deploy.model.cloud import ProviderName
from modak_deploy.providers.base import Provider


def get(name: ProviderName) -> Provider:
    """Return the provider; InputError where there is none of that name, or its distribution is faulty."""
    provider: Provider = PROVIDERS.make(name, Provider)
    return provider
