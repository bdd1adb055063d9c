"""The JSON job model over HTTP: the routes and answers that its clients know. It decides nothing itself."""
