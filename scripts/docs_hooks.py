"""Hook of mkdocs: files of the repository that pages link to go into the site, so that every link works there, too."""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?P<path>\.\.?/[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
COPIES = "files"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead links that leave docs/ to the copies in the site."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def replaced(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match["path"]))
        if target.startswith(("docs/", "../")) or not (TOP / target).exists():
            return match[0]  # mkdocs itself checks these, and warns
        up = "../" * page.file.src_uri.count("/")
        return f"]({up or './'}{COPIES}/{name_of(target)})"

    return LINK.sub(replaced, markdown)


def on_files(files: Any, *, config: Any) -> Any:
    """Tell mkdocs of the copies, before it checks links."""
    from mkdocs.structure.files import File

    for page in TOP.joinpath("docs").rglob("*.md"):
        folder = page.parent.relative_to(TOP).as_posix()
        for match in LINK.finditer(page.read_text()):
            target = posixpath.normpath(posixpath.join(folder, match["path"]))
            path = TOP / target
            uri = f"{COPIES}/{name_of(target)}"
            if target.startswith(("docs/", "../")) or not path.exists() or files.get_file_from_path(uri):
                continue
            content = listing(path) if path.is_dir() else path.read_bytes()
            files.append(File.generated(config, uri, content=content))
    return files


def name_of(target: str) -> str:
    """Return the name of a copy: Markdown and folders become something that mkdocs does not render."""
    path = TOP / target
    return (
        f"{target}/index.html"
        if path.is_dir()
        else f"{target}.txt"
        if path.suffix in (".md", ".yml", ".yaml", ".py")
        else target
    )


def listing(folder: Path) -> str:
    """Return a page with the names of a folder's files."""
    names = sorted(
        path.name + "/" * path.is_dir() for path in folder.iterdir() if not path.name.startswith((".", "__"))
    )
    rows = "".join(f"<li>{html.escape(name)}</li>" for name in names)
    title = html.escape(folder.relative_to(TOP).as_posix())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><h1>{title}</h1><ul>{rows}</ul></html>"
    )
