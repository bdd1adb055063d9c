"""What is on disk after a power loss: the file operations of real shell steps, recorded by strace, replayed in part.

The model is stricter than most file systems:

- What a file holds outlasts the loss as it was when the file was last fsynced. Writes after that may be there, may not,
  or may have left as many NULs; a file that was never fsynced may be empty.
- A name that was made, moved, linked or removed outlasts the loss once the folder that it is in was fsynced after it.
  Before that each such operation may be there or not, one by one and in any combination. A rename is there or not as a
  whole, as on every file system with a journal.
- sync and syncfs make all of it last. An fsync of a file says nothing of its name.

A file is taken to have one writer at a time: that is so in the steps and in the job script.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from modak_deploy.transport.base import Completed
from modak_deploy.transport.local import LocalTransport, decode

_CALLS = (
    "openat,open,creat,write,pwrite64,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,"
    "mkdirat,rmdir,ftruncate,truncate,fsync,fdatasync,sync,syncfs,chdir,fchdir,sendfile,copy_file_range"
)
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_AT = r"(?:AT_FDCWD|\d+)<([^>]*)>"


class Recording(LocalTransport):
    """This machine, with what its steps and their jobs do to files written down; a step lasts as long as its job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.logs: list[Path] = []

    def run(self, command: str, *, stdin: bytes | None = None, timeout: float | None = None) -> Completed:
        log = self._folder / f"strace.{len(self.logs)}"
        self.logs.append(log)
        words = ["strace", "-f", "-y", "-s", "1000000", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(log)]
        done = subprocess.run([*words, "/bin/sh", "-c", command], input=stdin or b"", capture_output=True)
        return Completed(done.returncode, decode(done.stdout), decode(done.stderr))


@dataclass(frozen=True)
class Op:
    """One operation below the watched folder; inodes are numbers, folders have names in them."""

    kind: str
    """make, remove, move, write, sync, everything, event."""
    folder: int = 0
    name: str = ""
    inode: int = 0
    to_folder: int = 0
    to_name: str = ""
    content: bytes = b""
    text: str = ""


@dataclass
class _Node:
    kind: str
    """file, folder or link."""
    names: dict[str, int] = field(default_factory=dict)
    content: bytes = b""
    cursor: int = 0
    appends: bool = False


Tree = Mapping[str, bytes | str | None]
"""By path: what a file holds, None for a folder, text for where a link leads."""


class Disk:
    """The operations in their order, and what may be left of them."""

    def __init__(self, top: Path, logs: Iterable[Path], events: Mapping[str, str]) -> None:
        """``events`` are patterns of lines in the logs: what happens outside, and is not undone by the loss."""
        self.top = str(top)
        self.ops: list[Op] = []
        self._nodes = {1: _Node("folder")}
        self._events = {name: re.compile(pattern) for name, pattern in events.items()}
        for log in logs:
            self._read(log)

    def crashes(self, chance: Random) -> Iterator[tuple[int, Tree]]:
        """Yield each point, and each tree that may be found after a loss there; no tree twice for the same events."""
        seen = set()
        for point in range(len(self.ops) + 1):
            for names, data in self._choices(point, chance):
                tree = self._tree(point, names, data)
                key = (tuple(sorted(tree.items(), key=lambda item: item[0])), tuple(self.events(point)))
                if key not in seen:
                    seen.add(key)
                    yield point, tree

    def events(self, point: int) -> list[str]:
        return [op.text for op in self.ops[:point] if op.kind == "event"]

    def least(self, point: int) -> Tree:
        """Return what is left where nothing outlasts the loss that need not."""
        return self._tree(point, set(), "old")

    def _choices(self, point: int, chance: Random) -> Iterator[tuple[set[int], str]]:
        pending = [number for number in self._name_ops(point) if not self._lasts(number, point)]
        for data in ("old", "new", "nul"):
            yield set(), data
            yield set(pending), data
        for number in pending:
            yield set(pending) - {number}, "old"
            yield {number}, chance.choice(["old", "new"])
        for _ in range(2):
            yield {number for number in pending if chance.random() < 0.5}, chance.choice(["old", "new", "nul"])

    def _name_ops(self, point: int) -> list[int]:
        return [number for number, op in enumerate(self.ops[:point]) if op.kind in ("make", "remove", "move")]

    def _lasts(self, number: int, point: int) -> bool:
        op = self.ops[number]
        folders = {op.folder, op.to_folder} - {0}
        for later in self.ops[number + 1 : point]:
            if later.kind == "everything":
                return True
            if later.kind == "sync":
                folders.discard(later.inode)
            if not folders:
                return True
        return False

    def _tree(self, point: int, kept: set[int], data: str) -> Tree:
        names: dict[int, dict[str, int]] = {1: {}}
        for number in self._name_ops(point):
            op = self.ops[number]
            if number not in kept and not self._lasts(number, point):
                continue
            folder = names.setdefault(op.folder, {})
            if op.kind == "make":
                folder[op.name] = op.inode
            elif op.kind == "remove":
                folder.pop(op.name, None)
            elif op.name in folder:
                names.setdefault(op.to_folder, {})[op.to_name] = folder.pop(op.name)
        contents = self._contents(point, data)
        tree: dict[str, bytes | str | None] = {}

        def walk(inode: int, path: str) -> None:
            for name, child in names.get(inode, {}).items():
                node = self._nodes[child]
                where = f"{path}/{name}" if path else name
                if node.kind == "folder":
                    tree[where] = None
                    walk(child, where)
                else:
                    tree[where] = decode(node.content) if node.kind == "link" else contents.get(child, b"")

        walk(1, "")
        return tree

    def _contents(self, point: int, data: str) -> dict[int, bytes]:
        last: dict[int, bytes] = {}
        safe: dict[int, bytes] = {}
        for op in self.ops[:point]:
            if op.kind == "write":
                last[op.inode] = op.content
            elif op.kind == "sync":
                safe[op.inode] = last.get(op.inode, b"")
            elif op.kind == "everything":
                safe = dict(last)
        if data == "old":
            return safe
        if data == "new":
            return last
        return {inode: text if safe.get(inode) == text else b"\0" * len(text) for inode, text in last.items()}

    # --- reading the log ---

    def _read(self, log: Path) -> None:
        begun: dict[str, str] = {}
        folders: dict[str, str] = {}
        for line in log.read_text(errors="surrogateescape").splitlines():
            pid, _, rest = line.partition(" ")
            rest = rest.strip()
            if rest.endswith("<unfinished ...>"):
                begun[pid] = rest.removesuffix("<unfinished ...>")
                continue
            if resumed := re.match(r"<\.\.\. \w+ resumed>", rest):
                rest = begun.pop(pid, "") + rest[resumed.end() :]
            self._note(pid, rest, folders)

    def _note(self, pid: str, line: str, folders: dict[str, str]) -> None:
        for name, pattern in self._events.items():
            if pattern.search(line):
                self.ops.append(Op("event", text=name))
        match = re.match(r"(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?", line, re.DOTALL)
        if match is None or match[3].startswith("-"):
            return
        call, arguments, result, opened = match.groups()
        if (at := re.match(r"AT_FDCWD<([^>]*)>", arguments)) is not None:
            folders[pid] = at[1]
        if call == "chdir":
            folders[pid] = self._absolute(folders.get(pid, "/"), _plain(re.match(_TEXT, arguments)))
        elif call in ("sync", "syncfs"):
            self.ops.append(Op("everything"))
        elif call in ("openat", "open", "creat") and opened:
            self._open(opened, arguments)
        elif call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate", "sendfile", "copy_file_range"):
            self._to_open_file(call, arguments, int(result))
        else:
            self._to_names(call, arguments, folders.get(pid, "/"))

    def _open(self, path: str, arguments: str) -> None:
        if self._inside(path) and re.search(r"O_(WRONLY|RDWR)", arguments):
            inode = self._find(path) or self._make(path, _Node("file"))
            node = self._nodes[inode]
            node.appends = "O_APPEND" in arguments
            node.cursor = 0
            if "O_TRUNC" in arguments and node.content:
                self._write(inode, b"")

    def _to_open_file(self, call: str, arguments: str, result: int) -> None:
        path = re.findall(r"\d+<([^>]*)>", arguments)
        source, target = (path[0], path[1]) if call == "copy_file_range" else (path[-1], path[0])
        if not self._inside(target) or (inode := self._find(target)) is None:
            return
        node = self._nodes[inode]
        if call in ("fsync", "fdatasync"):
            self.ops.append(Op("sync", inode=inode))
            return
        if call in ("sendfile", "copy_file_range"):
            held = self._find(source)
            assert held is not None or result == 0, f"{call} from {source}"
            text = self._nodes[held].content[:result] if held else b""
        elif call == "ftruncate":
            raise AssertionError("ftruncate is not in the model")
        else:
            text = _plain(re.search(rf"{_TEXT}(?:\.\.\.)?, \d+", arguments)).encode("latin-1")
            assert len(text) >= result, arguments[:100]
            text = text[:result]
        position = len(node.content) if node.appends else node.cursor
        node.cursor = position + len(text)
        if text:
            self._write(inode, node.content[:position].ljust(position, b"\0") + text + node.content[node.cursor :])

    def _to_names(self, call: str, arguments: str, folder: str) -> None:
        paths = []
        for at, text in re.findall(rf"(?:{_AT}, )?{_TEXT}", arguments):
            paths.append(self._absolute(at or folder, _unquoted(text)))
        if call.startswith("symlink"):
            target, place = _unquoted(re.findall(_TEXT, arguments)[0]), paths[-1]
            if self._inside(place):
                self._make(place, _Node("link", content=target.encode()))
        elif call.startswith("mkdir") and self._inside(paths[0]):
            self._make(paths[0], _Node("folder"))
        elif call.startswith("link") and self._inside(paths[1]):
            self._name(paths[1], self._find(paths[0]) or 0)
        elif call in ("unlink", "unlinkat", "rmdir") and self._inside(paths[0]):
            parent, name = self._parent(paths[0])
            self._nodes[parent].names.pop(name)
            self.ops.append(Op("remove", parent, name))
        elif call.startswith("rename") and self._inside(paths[0]):
            (parent, name), (other, new) = self._parent(paths[0]), self._parent(paths[1])
            self._nodes[other].names[new] = self._nodes[parent].names.pop(name)
            self.ops.append(Op("move", parent, name, to_folder=other, to_name=new))

    def _make(self, path: str, node: _Node) -> int:
        inode = len(self._nodes) + 1
        self._nodes[inode] = node
        self._name(path, inode)
        return inode

    def _name(self, path: str, inode: int) -> None:
        parent, name = self._parent(path)
        self._nodes[parent].names[name] = inode
        self.ops.append(Op("make", parent, name, inode))

    def _write(self, inode: int, content: bytes) -> None:
        self._nodes[inode].content = content
        self.ops.append(Op("write", inode=inode, content=content))

    def _inside(self, path: str) -> bool:
        return path.startswith(f"{self.top}/") or path == self.top

    def _absolute(self, folder: str, path: str) -> str:
        return os.path.normpath(path if path.startswith("/") else f"{folder}/{path}")

    def _parent(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        parent = self._find(folder)
        assert parent is not None, path
        return parent, name

    def _find(self, path: str) -> int | None:
        inode = 1
        for name in [part for part in path[len(self.top) :].split("/") if part]:
            if not self._inside(path) or name not in self._nodes[inode].names:
                return None
            inode = self._nodes[inode].names[name]
        return inode if self._inside(path) else None


def put(tree: Tree, top: Path) -> None:
    """Make the folder hold the tree, and nothing else."""
    subprocess.run(["rm", "-rf", top], check=True)
    top.mkdir(mode=0o700)
    for path, content in sorted(tree.items()):
        place = top / path
        if content is None:
            place.mkdir(mode=0o700)
        elif isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)


def _plain(match: "re.Match[str] | None") -> str:
    assert match is not None
    return _unquoted(match[1])


_ESCAPES: Sequence[tuple[str, str]] = (("n", "\n"), ("t", "\t"), ("r", "\r"), ("v", "\v"), ("f", "\f"))


def _unquoted(text: str) -> str:
    """Return what strace wrote down between quotes, one character for each byte."""

    def one(match: "re.Match[str]") -> str:
        word = match[1]
        if word[0] in "01234567":
            return chr(int(word, 8))
        return dict(_ESCAPES).get(word, word)

    return re.sub(r"\\([0-7]{1,3}|.)", one, text, flags=re.DOTALL)
