"""Deployments from the command line: the same Plan, job and results as the playbooks and roles, without Ansible."""
