"""S3, by boto3; AWS_ENDPOINT_URL_S3 and its like name another storage than AWS's (botocore 1.31 and later)."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from modak_deploy.objects.base import CHECKSUM, PIECE, Head, Storage, missing, reported, text_of


class S3(Storage):
    """Amazon S3, and storages that speak as it does."""

    scheme: ClassVar[str] = "s3"
    package: ClassVar[str] = "boto3>=1.28"

    def __init__(self, profile: str | None, region: str | None) -> None:
        super().__init__(profile, region)
        try:
            boto3, exceptions = import_module("boto3"), import_module("botocore.exceptions")
            refused = import_module("boto3.exceptions").Boto3Error
        except ImportError:
            raise missing(self.package, self.scheme) from None
        self._client_error: type[Exception] = exceptions.ClientError
        self._errors: tuple[type[Exception], ...] = (exceptions.ClientError, exceptions.BotoCoreError, refused)
        with reported(self._errors, "s3", "cannot be used"):
            session = boto3.session.Session(profile_name=profile, region_name=region)
            self._client: Any = session.client("s3")

    def head(self, container: str, name: str) -> Head | None:
        """See Storage."""
        with reported(self._errors, f"s3://{container}/{name}", "cannot be queried"):
            try:
                answer = self._client.head_object(Bucket=container, Key=name)
            except self._client_error as error:
                if _code(error) in ("404", "NoSuchKey", "NotFound"):
                    return None
                raise
        sha256 = answer.get("Metadata", {}).get(CHECKSUM)
        return Head(text_of(answer.get("ETag")).strip('"'), int(answer["ContentLength"]), sha256)

    def has(self, container: str) -> bool:
        """See Storage; whoever may store objects need not have the right to ask for their bucket."""
        with reported(self._errors, f"s3://{container}", "cannot be queried"):
            try:
                self._client.head_bucket(Bucket=container)
            except self._client_error as error:
                code = _code(error)
                if code not in ("403", "404", "AccessDenied", "NoSuchBucket", "NotFound"):
                    raise
                return code in ("403", "AccessDenied")
        return True

    def read(self, container: str, name: str, etag: str) -> Iterator[bytes]:
        """See Storage."""
        with reported(self._errors, f"s3://{container}/{name}", "cannot be fetched"):
            answer = self._client.get_object(Bucket=container, Key=name, IfMatch=f'"{etag}"')
            yield from answer["Body"].iter_chunks(PIECE)

    def write(self, container: str, name: str, file: Path, sha256: str) -> None:
        """See Storage."""
        with reported(self._errors, f"s3://{container}/{name}", "cannot be stored"):
            self._client.upload_file(str(file), container, name, ExtraArgs={"Metadata": {CHECKSUM: sha256}})


def _code(error: Exception) -> str:
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code"))
