"""The images on a target: pulled once, checked before they run, removed when nobody needs them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial

from modak_deploy.containers import registry
from modak_deploy.containers.base import COMPRESSIONS
from modak_deploy.containers.capabilities import check_source, fault_of_signature, pushing
from modak_deploy.containers.location import argument, folder, pin
from modak_deploy.errors import InputError, TargetError
from modak_deploy.images import answers
from modak_deploy.images.answers import Collected, Listing
from modak_deploy.images.credentials import Login, login_for
from modak_deploy.images.registry import Resolved, is_loopback, resolve
from modak_deploy.jobs.remote import STEP_LIMIT, Answer, StepError, call
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.execution import Image
from modak_deploy.model.jobrequest import JobRequest
from modak_deploy.model.reference import Reference
from modak_deploy.model.target import Target
from modak_deploy.numbers import digits
from modak_deploy.paths import expanded
from modak_deploy.transport.base import Transport

STALL = 300
"""Seconds without any progress after which a pull is ended."""
PROGRESS = 5.0
"""Seconds between two looks at how far a pull is."""
_UNPACKED = 5
"""Bytes on disk per byte of a registry's layers: layers, what is in them, and the image made of it, for a while."""
_LIBRARY = ("lock", "work", "watch", "store")
_QUICK = frozenset({"has", "hold", "progress"})
"""Steps that only look: they move no image, read none, and wait for nobody."""
_KEYS = ("PUBLIC KEY", "PGP PUBLIC KEY BLOCK")
"""What the first line of a public key says, in PEM form and of PGP in ASCII."""


class ImageStore:
    """The image folder of one target. All methods raise TargetError where the target does not do what it should."""

    def __init__(
        self,
        transport: Transport,
        images: str,
        *,
        limit: float | None = None,
        stall: int = STALL,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        """``images`` is the image folder's absolute path.

        ``limit`` are the seconds that a pull, a check or another long step may take, ``stall`` those after which a
        pull without progress is ended, and ``notice`` is told how far a pull is, one line each time.
        """
        self.transport = transport
        self.images = images
        self.limit = limit
        self.stall = stall
        self.notice = notice

    @classmethod
    def of(cls, transport: Transport, target: Target, workspace: str, *, limit: float | None = None) -> "ImageStore":
        """Return the store of ``target``, whose workspace is given as an absolute path on it."""
        return cls(transport, folder(target, workspace), limit=limit)

    def has(self, path: str, runtime: RuntimeName, *, own: bool = True) -> bool:
        """Tell whether the image that ``location.argument`` names ``path`` is there.

        A file that modak has made has its record beside it; one of the user's, which is not ``own``, may have none.
        """
        kind = runtime if registry.get(runtime).suffix is None else "image" if own else "file"
        return self._call("has", [kind, path]).text("has").strip() == "1"

    def remove(self, path: str, runtime: RuntimeName) -> bool:
        """Remove the image ``path``, unless a queued or running job needs it; return whether it was there."""
        return self._call("remove", [self.images, runtime, path]).get("removed") is not None

    def pull(
        self,
        image: Image,
        runtime: RuntimeName,
        *,
        holder: str = "",
        compression: str | None = None,
        login: Login | None = None,
    ) -> Listing:
        """Bring a pinned image of a registry to the target, unless it is there.

        ``holder`` is the folder of the job that needs it, ``compression`` arguments for mksquashfs. The controller's
        own login for the registry goes with it, by standard input. Any number of pulls of one image, on any number of
        machines that share the folder, make one download.
        """
        reference = pin(image)
        if reference.scheme in ("file", "build"):
            raise InputError(f"'{image.reference}' is in no registry, so it cannot be pulled")
        if registry.get(runtime).suffix is None:
            return self._pull_to_store(image, reference, runtime, login or login_for(reference.registry))
        path = argument(image, runtime, self.images)
        listed = self.hold(path, holder)
        if listed is not None:
            return listed
        login = login or login_for(reference.registry)
        resolved = resolve(reference, image.architecture, login)
        file = path.rpartition("/")[2]
        with self._progress(image.entry or str(reference), file, resolved.size):
            answer = self._pull(image, runtime, resolved, file, holder, compression, login)
        return answers.in_folder(path, answer, seconds=answers.pull_seconds(answer))

    def _pull(
        self,
        image: Image,
        runtime: RuntimeName,
        resolved: Resolved,
        file: str,
        holder: str,
        compression: str | None,
        login: Login | None,
    ) -> Answer:
        reference = pin(image)
        return self._call(
            "pull",
            [
                self.images,
                file,
                registry.get(runtime).pull_tool,
                str(reference),
                reference.digest or "",  # not that of a variant, where the Plan names an index by its digest
                resolved.sif_sha256 or "",
                str(resolved.size * (1 if resolved.sif_sha256 else _UNPACKED)),
                holder,
                "1" if is_loopback(reference.registry) else "0",
                compression or "",
                str(self.stall),
            ],
            stdin=f"{login.user}\n{login.password}\n".encode() if login else b"",
        )

    @contextmanager
    def _progress(self, name: str, file: str, size: int) -> Iterator[None]:
        """Tell ``notice`` every few seconds how far the pull of ``file`` is, where the transport does two things."""
        if self.notice is None or not getattr(self.transport, "concurrent", False):
            yield
            return
        done = threading.Event()
        # Ansible's connections are used within the context of their task.
        work = partial(self._follow, done, name, file, size)
        thread = threading.Thread(target=copy_context().run, args=[work], daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=60)

    def _follow(self, done: threading.Event, name: str, file: str, size: int) -> None:
        before = -1
        while not done.wait(PROGRESS):
            try:
                said = self._call("progress", [self.images, file]).text("kilobytes").split()
            except TargetError:
                continue  # the pull itself says what is wrong
            kilobytes = digits(said[0]) if said else None
            written = before if kilobytes is None else kilobytes * 1024
            if self.notice is not None and written > before >= -1 and not done.is_set():
                self.notice(_progress_text(name, written, size))
                before = written

    def hold(self, path: str, holder: str) -> Listing | None:
        """Write down that the job in the folder ``holder`` needs the image ``path``; return it where it is there."""
        answer = self._call("hold", [self.images, path.rpartition("/")[2], holder])
        return answers.in_folder(path, answer) if answer.get("info") else None

    def _pull_to_store(self, image: Image, reference: Reference, runtime: RuntimeName, login: Login | None) -> Listing:
        """Let podman or docker pull into its own store, which keeps locks and checks digests itself."""
        check_source(runtime, reference)
        name = str(reference).removeprefix("docker://")
        loopback = "1" if is_loopback(reference.registry) else "0"
        secret = f"{reference.registry}\n{login.user}\n{login.password}\n".encode() if login else b""
        with self._progress(name, name, resolve(reference, image.architecture, login).size if self.notice else 0):
            answer = self._call("pull_store", [runtime, name, loopback, str(self.stall)], stdin=secret)
        return answers.pulled_to_store(name, answer)

    def check(self, image: Image, runtime: RuntimeName, keys: Sequence[str] = ()) -> Listing:
        """Return the image on the target once it is found to be what the Plan says.

        Its hash, its architecture, its labels and, where PEM ``keys`` are given, its signature are looked at.
        TargetError names the image and what is wrong with it.
        """
        if keys and (fault := fault_of_signature(runtime)):
            raise InputError(fault)
        if registry.get(runtime).suffix is None:
            return self._check_in_store(image, runtime)
        path = argument(image, runtime, self.images)
        answer = self._call("check", [path, registry.get(runtime).check_tool, *keys])
        return answers.checked(image, path, answer, len(keys))

    def _check_in_store(self, image: Image, runtime: RuntimeName) -> Listing:
        name = argument(image, runtime, self.images)
        answer = self._call("check_store", [runtime, name])
        return answers.checked_in_store(image, name, answer)

    def push(
        self, source: str, reference: Reference, runtime: RuntimeName = "apptainer", login: Login | None = None
    ) -> Resolved:
        """Send an image of the target to a registry and return what the registry then has, pinned.

        ``source`` is a SIF's path for an ``oras://`` reference, or a name in podman's or docker's store.
        """
        scheme = registry.get(runtime).push_scheme
        if scheme is None:
            raise InputError(f"{runtime} cannot push its image files", hint=f"use {pushing()}")
        if reference.scheme != scheme or reference.digest is not None:
            raise InputError(f"{runtime} cannot push to '{reference}'", hint=f"write {scheme}://HOST/NAME:TAG")
        login = login or login_for(reference.registry)
        secret = f"{reference.registry}\n{login.user}\n{login.password}\n".encode() if login else b""
        loopback = "1" if is_loopback(reference.registry) else "0"
        self._call("push", [runtime, source, str(reference), loopback], stdin=secret)
        return resolve(reference, None, login)

    def digest_of(self, path: str) -> str:
        """Return the digest of a file on the target."""
        answer = self._call("check", [path, "none"])
        return answers.digest(answer)

    def collect(self, days: int, *, dry: bool = False) -> list[Collected]:
        """Remove the images that nobody used for ``days`` days and that no job needs, and what killed builds left.

        With ``dry`` only say which.
        """
        answer = self._call("collect", [self.images, str(days), "1" if dry else "0"])
        return answers.collected(answer)

    def _call(self, step: str, arguments: Sequence[str], *, stdin: bytes = b"") -> Answer:
        try:
            return call(
                self.transport,
                step,
                arguments,
                stdin=stdin,
                package="modak_deploy.images",
                library=_LIBRARY,
                limit=STEP_LIMIT if step in _QUICK else self.limit,
            )
        except StepError as error:
            raise TargetError(str(error)) from None


def read_keys(paths: Sequence[str]) -> list[str]:
    """Return the texts of the public keys, PEM or PGP, in files on the controller; InputError for what is none."""
    keys = []
    for path in paths:
        try:
            text = expanded(path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"the public key {path} cannot be read") from None
        if "PRIVATE" in text or not any(f"-----BEGIN {kind}-----" in text for kind in _KEYS):
            raise InputError(f"{path} is not a public key: it should begin with '-----BEGIN {' or '.join(_KEYS)}-----'")
        keys.append(text.strip())
    return keys


def realise(transport: Transport, request: JobRequest, directory: str, *, limit: float | None = None) -> Listing | None:
    """See to it that the job's image is on the target and as it should be, for the job in ``directory``.

    Return None where the runtime is native. InputError or TargetError is raised before anything is submitted.
    """
    if request.runtime == "native" or request.image is None:
        return None
    keys = read_keys(request.target.image_keys)
    workspace = directory.rpartition("/")[0].rpartition("/")[0]
    store = ImageStore.of(transport, request.target, workspace, limit=limit)
    result: Listing | None = None
    scheme = pin(request.image).scheme
    if scheme not in ("file", "build"):
        squash = COMPRESSIONS[request.image.packing] if request.image.packing is not None else None
        result = store.pull(request.image, request.runtime, holder=directory, compression=squash)
    elif scheme == "build" and registry.get(request.runtime).suffix is not None:
        store.hold(argument(request.image, request.runtime, store.images), directory)
    checked = store.check(request.image, request.runtime, keys)
    if result is None:
        return checked
    return Listing(**{**vars(checked), "pulled": result.pulled, "seconds": result.seconds})


def _progress_text(name: str, written: int, size: int) -> str:
    megabytes = f"{written / 2**20:.0f} MB"
    if written < size:
        return f"image {name}: {megabytes} of {size / 2**20:.0f} MB ({100 * written // size} %)"
    return f"image {name}: downloaded, and {megabytes} unpacked so far"


__all__ = ["Collected", "ImageStore", "Listing", "Resolved", "read_keys", "realise"]
