"""Where an image lies on a target: one file per image and content, so that nothing is ever overwritten."""

import posixpath

from modak_deploy.containers import registry
from modak_deploy.containers.capabilities import check_source
from modak_deploy.errors import InputError, TargetError
from modak_deploy.model.base import RuntimeName
from modak_deploy.model.execution import Image
from modak_deploy.model.reference import Reference, parse
from modak_deploy.model.target import Target
from modak_deploy.reported import absolute_path
from modak_deploy.transport.base import Transport


def folder(target: Target, workspace: str) -> str:
    """Return the image folder, given the workspace as an absolute path on the target."""
    if target.images is None:
        return posixpath.join(workspace, "images")
    if target.images.startswith("/"):
        return posixpath.normpath(target.images)
    if target.images.startswith("~/"):
        raise InputError(f"target.images '{target.images}' is not an absolute path", hint="write the home folder out")
    return posixpath.normpath(posixpath.join(workspace, target.images))


def locate(transport: Transport, target: Target) -> str:
    """Return the image folder of ``target`` as an absolute path; the target is asked for the home it may lie in."""
    workspace = target.workspace
    if workspace == "~" or workspace.startswith("~/"):
        done = transport.run('printf %s "${HOME:?}"')
        if done.returncode or not done.stdout.startswith("/"):
            raise TargetError(f"the target {target.name} does not report the user's home folder")
        home = absolute_path(done.stdout, "a home folder")
        workspace = posixpath.normpath(posixpath.join(home, workspace[2:]))
    return folder(target, workspace)


def pin(image: Image) -> Reference:
    """Return the image's reference with its digest; InputError when neither says what the content is."""
    reference = parse(image.reference)
    if image.digest is not None:
        if reference.digest is not None and reference.digest != image.digest:
            raise InputError(
                f"image '{image.reference}' has the digest {image.digest} beside it", hint="give one of them"
            )
        return reference.pinned(image.digest)
    if reference.digest is None:
        raise InputError(f"image '{image.reference}' is not pinned: resolve its digest first (modak image inspect)")
    return reference


def argument(image: Image, runtime: RuntimeName, images: str) -> str:
    """Return what names the image on ``runtime``'s command line; ``images`` is the absolute image folder."""
    if runtime == "native":
        raise InputError(f"runtime '{runtime}' runs no image")
    reference = pin(image)
    assert reference.digest is not None  # noqa: S101 - pin() has seen to it
    check_source(runtime, reference)
    short = reference.digest.removeprefix("sha256:")[:16]
    suffix = registry.get(runtime).suffix
    if suffix is None:
        return _in_store(reference, short)
    if reference.scheme == "file":
        return reference.repository
    packing = f"-{image.packing}" if image.packing is not None else ""
    return posixpath.join(images, f"{reference.slug}-{short}{packing}{suffix}")


def _in_store(reference: Reference, short: str) -> str:
    if reference.scheme == "build":
        return f"localhost/modak/{reference.repository.lower()}:{short}"
    return str(reference).removeprefix("docker://")
