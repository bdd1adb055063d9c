"""What is known about levers, images and hardware: data files, their models and the loading of both."""

from modak_deploy.catalogue.catalogue import Catalogue, load_catalogue
from modak_deploy.catalogue.lever import Group, Lever, When

__all__ = ["Catalogue", "Group", "Lever", "When", "load_catalogue"]
