"""The life of a job on a target: staged, submitted once, watched, brought back, removed."""
