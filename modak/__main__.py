"""``python -m modak``: the command modak."""

from modak.cli import main

if __name__ == "__main__":
    main()
