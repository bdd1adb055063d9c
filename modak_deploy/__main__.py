"""``python -m modak_deploy``: the command modak."""

from modak_deploy.cli import main

if __name__ == "__main__":
    main()
