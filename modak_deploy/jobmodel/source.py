"""The source that an application is built from, and the command that builds it."""

import re

from modak_deploy.errors import InputError
from modak_deploy.jobmodel.model import Build
from modak_deploy.jobs.script import optional_argument, quoted_argument

_KEY = "application.build.src"
_PARALLELISM = "{{BUILD_PARALLELISM}}"
_ARCHIVES = {
    ".tar.gz": "tar -xzf",
    ".tgz": "tar -xzf",
    ".tar.bz2": "tar -xjf",
    ".tar.xz": "tar -xJf",
    ".tar": "tar -xf",
    ".zip": "unzip -q",
}
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"


def command_of(build: Build) -> str:
    """Return the build command with the number of processes filled in."""
    return build.build_command.replace(_PARALLELISM, str(build.build_parallelism))


def source_of(build: Build) -> tuple[dict[str, object], list[str]]:
    """Return what the template must know of the source, and the command line that builds it; InputError for a source
    that cannot be trusted.
    """
    url, fragment = _source(build.src)
    git = url.endswith(".git") or url.startswith("git://")
    kind = next((end for end in _ARCHIVES if url.endswith(end)), None)
    single = not git and kind is None
    sha256, revision = _pin(url, fragment, git=git)
    folder = url.rstrip("/").rpartition("/")[2].removesuffix(".git").removesuffix(kind or "")
    if not re.fullmatch(_NAME, folder):
        what = "file" if single else "folder"
        raise InputError(f"'{folder}' at the end of '{url}' is not a name for a {what}", key=_KEY)
    values: dict[str, object] = {
        "git": git,
        "single": single,
        "folder": quoted_argument(folder),
        "url": quoted_argument(url),
        "revision": optional_argument(revision),
        "commit": optional_argument(_whole_commit(revision)),
        "sha256": optional_argument(sha256),
        "protocols": quoted_argument("=https" if url.startswith("https://") else "=http,https"),
        "unpack": "" if kind is None else _unpack(kind),
    }
    return values, ["sh", "-e", "-c", f'cd "$1"\n{command_of(build)}', "build", "." if single else folder]


def _source(text: str) -> tuple[str, str]:
    url, _, fragment = text.partition("#")
    if not re.fullmatch(r"(https|http|git)://[A-Za-z0-9][^\s'\"\\<>`]*", url, re.ASCII):
        raise InputError(f"'{text}' is not an https:// address of a repository, an archive or a source file", key=_KEY)
    if re.search(r"://[^/]*@", url):
        raise InputError("it holds a user or a password", key=_KEY, hint="leave them to git's own settings")
    return url, fragment


def _pin(url: str, fragment: str, *, git: bool) -> tuple[str | None, str | None]:
    """Return the checksum of an archive and the revision of a repository that the fragment pins."""
    if git:
        if fragment and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", fragment):
            raise InputError(f"'#{fragment}' is not a commit, tag or branch", key=_KEY)
        if not url.startswith("https://") and not re.fullmatch(r"[0-9a-f]{40}", fragment):
            raise InputError(f"'{url}' is not protected", key=_KEY, hint="use https://, or add '#' and a commit")
        return None, fragment or None
    match = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment)
    if fragment and match is None:
        raise InputError(f"'#{fragment}' is not '#sha256=' with 64 hexadecimal digits", key=_KEY)
    if not url.startswith("https://") and match is None:
        raise InputError(f"'{url}' is not protected", key=_KEY, hint="use https://, or add '#sha256=<64 digits>'")
    return (match[1] if match else None), None


def _whole_commit(revision: str | None) -> str | None:
    """Return a revision that is the whole hash of a commit, of SHA-1 or SHA-256, as git writes it; else None."""
    is_whole = revision is not None and re.fullmatch(r"[0-9A-Fa-f]{40}(?:[0-9A-Fa-f]{24})?", revision)
    return revision.lower() if revision is not None and is_whole else None


def _unpack(kind: str) -> str:
    target = "-d" if kind == ".zip" else "-C"
    return f'{_ARCHIVES[kind]} "$modak_fresh/archive" {target} "$modak_fresh/source"'
