"""How commands and files reach a target: one small protocol, and its implementations without Ansible."""
