"""Objects of object storages: fetched before a Plan is made, stored after its job has completed."""

from modak_deploy.objects.transfer import Moved, check_outputs, fetch_objects, find_copies, store_objects

__all__ = ["Moved", "check_outputs", "fetch_objects", "find_copies", "store_objects"]
