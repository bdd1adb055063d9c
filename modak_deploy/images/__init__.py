"""Container images: definitions, builds, registries, verification, and the command line that runs inside one."""
