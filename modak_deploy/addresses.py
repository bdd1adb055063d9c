"""Addresses (URLs) as they may be shown."""

import re

# The second form is a password with a slash, which should have been written as %2F; host:8080/path@v1 is none.
_USERINFO = re.compile(r"(?<=://)(?:[^/@\s]*@|[^/@\s:]*:(?!\d+/)\S*@)")


def without_password(text: str) -> str:
    """Return ``text`` with ``***`` in place of user name and password in each address."""
    return _USERINFO.sub("***@", text)
