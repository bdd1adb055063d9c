"""The commands ``modak site``: describing machines and clusters once, for documents, blueprints and commands."""
