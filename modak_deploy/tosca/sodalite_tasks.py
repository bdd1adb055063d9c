"""SODALITE's image pullers and data movers: each is a short script that runs as a job on its host.

They have no properties for what a job needs, and what they do is done once: what is there already stays.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from modak_deploy.errors import InputError
from modak_deploy.shell import quote

_REGISTRIES = ("docker", "library", "shub")
_HEAD = "#!/bin/sh\nset -e\numask 077\n"


def script_of(task: Mapping[str, Any]) -> str:
    """Return the script that does what a node asks for; InputError names a property that cannot be honoured."""
    return _HEAD + _SCRIPTS[task["kind"]](task)


def _pull(task: Mapping[str, Any]) -> str:
    image, registry = _text(task, "image"), _text(task, "registry")
    if registry == "private" or image.startswith("private://"):
        raise InputError(
            "a private registry is not supported here", key="registry", hint="use modak.nodes.ContainerImage"
        )
    if not image.startswith(tuple(f"{name}://" for name in _REGISTRIES)):
        if registry not in _REGISTRIES:
            raise InputError(f"'{registry}' is not supported", key="registry", hint=f"write {', '.join(_REGISTRIES)}")
        image = f"{registry}://{image}"
    output = task.get("output") or _file_name(image)
    if "/" in output or output in (".", "..") or output.startswith("-"):
        raise InputError(f"'{output}' is not the name of a file", key="output")
    folder = _path(task.get("images_location") or "images", "images_location")
    file = quote(output)
    return f"""mkdir -p -- {folder}
cd -- {folder}
if [ -e {file} ]; then
  exit 0
fi
for command in apptainer singularity; do
  if command -v "$command" >/dev/null; then
    "$command" pull --force .part-$$-{file} {quote(image)}
    exec mv -- .part-$$-{file} {file}
  fi
done
echo "neither apptainer nor singularity was found" >&2
exit 1
"""


def _file_name(image: str) -> str:
    """Return the name that singularity gives a pulled image: ``name_tag.sif``."""
    last = image.rpartition("/")[2]
    name, _, digest = last.partition("@")
    name, _, tag = name.partition(":")
    return f"{name}_{digest.replace(':', '.') or tag or 'latest'}.sif"


def _write(task: Mapping[str, Any]) -> str:
    path = _path(_text(task, "location"), "location")
    return f"""mkdir -p -- "$(dirname -- {path})"
printf %s {quote(str(task.get("content") or ""))} >{path}.part-$$
exec mv -- {path}.part-$$ {path}
"""


def _download(task: Mapping[str, Any]) -> str:
    source = _text(task, "src")
    parts = urlsplit(source)
    if parts.scheme not in ("http", "https", "ftp") or not parts.hostname:
        raise InputError(f"'{source}' is not an address", key="src", hint="write https://host/path")
    path = _path(task.get("dst") or "~/", "dst")
    name = quote(parts.path.rpartition("/")[2] or "index.html")
    return f"""path={path}
case $path in
*/) mkdir -p -- "$path" ;;
*) mkdir -p -- "$(dirname -- "$path")" ;;
esac
if [ -d "$path" ]; then
  path=${{path%/}}/{name}
fi
if command -v curl >/dev/null; then
  curl -fsSL --proto '=http,https,ftp' -o "$path.part-$$" -- {quote(source)}
else
  wget -q -O "$path.part-$$" -- {quote(source)}
fi
exec mv -- "$path.part-$$" "$path"
"""


def _transfer(task: Mapping[str, Any]) -> str:
    streams = task.get("parallel_streams") or 1
    if not str(streams).isdecimal() or int(streams) < 1:
        raise InputError(f"must be a whole number above 0, not {streams!r}", key="parallel_streams")
    ends = [quote(_end(task, side)) for side in ("src", "dst")]
    return f"""if command -v grid-proxy-info >/dev/null && ! grid-proxy-info -exists 2>/dev/null; then
  grid-proxy-init </dev/null
fi
exec globus-url-copy -r -cd -p {int(streams)} {" ".join(ends)}
"""


def _end(task: Mapping[str, Any], side: str) -> str:
    """Return one end of a transfer as the address that globus-url-copy takes."""
    protocol, path = task.get(f"{side}_protocol") or "file", _text(task, f"{side}_path")
    if protocol not in ("ftp", "sshftp", "gsiftp", "file"):
        raise InputError(
            f"'{protocol}' is not supported", key=f"{side}_protocol", hint="write ftp, sshftp, gsiftp, file"
        )
    if protocol == "file":
        return f"file:///{path.lstrip('/')}"
    address, port = _text(task, f"{side}_address"), task.get(f"{side}_port")
    if not re.fullmatch(r"[A-Za-z0-9.\-\[\]:@_]+", address):
        raise InputError(f"'{address}' is not an address", key=f"{side}_address")
    return f"{protocol}://{address}{f':{int(port)}' if port else ''}/{path.lstrip('/')}"


_SCRIPTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "image_puller": _pull,
    "textFile": _write,
    "url": _download,
    "gridftp": _transfer,
}


def _text(task: Mapping[str, Any], key: str) -> str:
    value = task.get(key)
    if not isinstance(value, str) or not value:
        raise InputError("is required", key=key)
    return value


def _path(text: str, key: str) -> str:
    """Return a path of the host, below the home where it is relative, as a shell word."""
    if "\n" in text:
        raise InputError("a path has one line", key=key)
    if text.startswith("/"):
        return quote(text)
    below = text.removeprefix("~").lstrip("/") if text.startswith("~") else text
    return f'"$HOME"/{quote(below)}' if below else '"$HOME"/'
