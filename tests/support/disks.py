"""A disk that fills up on the target between two steps that travel in one round trip."""

from pathlib import Path

BETWEEN = "\n) || exit\nexec </dev/null\n"
"""What stands between two steps; see modak_deploy.jobs.remote.carry_out."""


def filled_between(command: str, disk: Path, pages: int) -> str:
    """Return the command with a disk that has so many free pages left before its second step."""
    if BETWEEN not in command:
        raise ValueError("the command carries out one step")
    fill = (
        f"left=$(($(stat -f -c %f {disk}) - {pages}))\n"
        f'[ "$left" -le 0 ] || dd if=/dev/zero of={disk}/filler bs=4096 count="$left" '
        "oflag=append conv=notrunc 2>/dev/null\n"
    )
    return command.replace(BETWEEN, BETWEEN + fill, 1)
