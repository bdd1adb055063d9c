"""Objects of object storages: fetched before a Plan is made, stored after its job has completed."""

from modak_deploy.objects.transfer import Moved, fetch_objects, find_copies, store_objects

__all__ = ["Moved", "fetch_objects", "find_copies", "store_objects"]
