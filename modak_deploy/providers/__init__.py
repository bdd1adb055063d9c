"""Providers of instances: what is created for a Plan, how it is recognised by tag, and what is deleted.

Nothing here contacts anybody. The tasks of the role ``cloud`` carry the decisions out with the maintained Ansible
collections.
"""
