"""The life of a job on a target: staged, submitted once, watched, its results fetched, removed."""
