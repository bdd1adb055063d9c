"""Applications that do not end: replicas on a host that are started, watched and replaced, and a proxy."""
