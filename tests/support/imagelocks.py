"""Who has the locks of an image folder; see modak_deploy/jobs/sh/lock.sh."""

from pathlib import Path


def held(images: Path) -> list[str]:
    """Return the owners of the locks that have not been given back, each as the lock's link names it."""
    owners = []
    for lock in sorted((images / ".locks").glob("*/")):
        numbers = [int(path.name) for path in lock.iterdir() if path.name.isdigit()]
        if numbers and not (lock / f"{max(numbers)}.free").exists():
            owners.append(str((lock / str(max(numbers))).readlink()))
    return owners


def process_of(owner: str) -> int:
    """Return the id of the owner's process."""
    return int(owner.split(":")[3].partition(".")[0])
