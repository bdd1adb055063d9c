"""Plans as Jobs of a Kubernetes cluster: created once, waited for, their results fetched, removed."""
