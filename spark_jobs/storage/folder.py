"""A folder on this machine's disks or in an object store, for delta-rs, pyarrow and Spark alike."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from pyarrow import fs

from backends.settings import StorageSettings
from dispatcher.model.errors import FairlaneError, InvalidInput, Refused, Unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY: Final = re.compile(r"\b403\b|access.?denied|invalid.?access.?key|signature.?does.?not.?match", re.IGNORECASE)
_BUCKET: Final = re.compile(r"no.?such.?bucket|container.?not.?found|bucket does not exist", re.IGNORECASE)
_BUSY: Final = re.compile(
    r"\b50[0234]\b|\b429\b|slow.?down|service.?unavailable|error sending request|time[d ]*.?out|connect", re.IGNORECASE
)
_NO_BUCKET: Final = re.compile(r"(s3a?|gs|abfss):(?!//[^/])", re.IGNORECASE)
_NEWER: Final = re.compile(r"Unsupported|reader version|writer version")
"""Matches delta-rs' refusals of a table that newer programs have changed."""
_GIVE_UP: Final = timedelta(minutes=1)
"""How long Google's client tries; its default is 15 minutes."""
_CHECK: Final = "Check the store and storage.endpoint; then run it again."
_CODE: Final = re.compile(
    r"<Message>([^<]+)</Message>|AWS Error ([^.]+)|: ([^:()]+) \(Service: S3|SdkClientException: ([^:.]+)"
)


FROM_ENVIRONMENT: Final = StorageSettings()
"""No keys: each library looks into the environment."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of tables."""

    url: str
    """An absolute path, or a URL: s3://BUCKET/PATH, gs://…, abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…, hdfs://…"""
    storage: StorageSettings = FROM_ENVIRONMENT

    @classmethod
    def of(cls, place: "Place", storage: StorageSettings = FROM_ENVIRONMENT) -> "Folder":
        """Return the folder at a path or URL."""
        if isinstance(place, Folder):
            return place
        text = str(place)
        if _NO_BUCKET.match(text):
            raise InvalidInput(f"{text} names no bucket.", "Write s3://BUCKET/PATH, or gs:// or abfss:// likewise.")
        if "://" not in text:
            return cls(str(Path(text).resolve()), storage)
        return cls(text.rstrip("/").replace("s3a://", "s3://", 1), storage)

    def __truediv__(self, name: str) -> "Folder":
        return Folder(f"{self.url}/{name}", self.storage)

    def __str__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    @property
    def spark_url(self) -> str:
        """Return the URL for Spark, whatever its default file system is. Hadoop calls its file system of S3 s3a."""
        return f"file://{self.url}" if self.is_local else self.url.replace("s3://", "s3a://", 1)

    def opened(self) -> tuple[fs.FileSystem, str]:
        """Return the folder's file system and its path there. Without keys, those of the environment count.

        Raises InvalidInput for a URL that pyarrow does not know.
        """
        if self.is_local:
            return fs.LocalFileSystem(), self.url
        parts, keys = urlsplit(self.url), self.storage.plain()
        path = self.url.partition("://")[2]  # as it is: for a file system, neither # nor ? ends it
        if parts.scheme == "s3":
            at = {"endpoint_override": keys["endpoint"]} if "endpoint" in keys else {}
            given = {
                name: keys[name] for name in ("access_key", "secret_key", "session_token", "region") if name in keys
            }
            files = fs.S3FileSystem(**given, **at, check_directory_existence_before_creation=False)
            return files, path
        if parts.scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=_GIVE_UP), path
        if parts.scheme == "abfss" and "azure_key" in keys:
            account = (parts.hostname or "").partition(".")[0]
            return fs.AzureFileSystem(account, keys["azure_key"]), f"{parts.username}{parts.path}"
        try:
            found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.url)
        except (ValueError, OSError) as error:
            next_step = "Name a folder or a URL of s3, gs, abfss or hdfs."
            raise InvalidInput(f"{self} cannot be opened: {error}.", next_step) from error
        return found

    def delta_options(self) -> dict[str, str]:
        """Return the options of delta-rs."""
        keys = self.storage.plain()
        named = {_DELTA[name]: value for name, value in keys.items()}
        patience = {} if self.is_local or self.url.startswith("hdfs:") else _DELTA_PATIENCE
        return patience | named | ({"aws_allow_http": "true"} if keys.get("endpoint", "").startswith("http:") else {})


Place: TypeAlias = Folder | Path | str


_DELTA: Final = {
    "endpoint": "aws_endpoint_url",
    "region": "aws_region",
    "access_key": "aws_access_key_id",
    "secret_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "azure_key": "azure_storage_account_key",
}
_HADOOP: Final = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key": "fs.s3a.access.key",
    "secret_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
    "azure_key": "fs.azure.account.key",
}


_DELTA_PATIENCE: Final = {"timeout": "20s", "retry_timeout": "30s"}
"""delta-rs by itself tries for three minutes: with these, a request that gets no answer ends after two tries."""
_PATIENCE: Final = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "15s",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.throttle.limit": "5",
}
"""Hadoop by itself tries a store that hangs for hours. 15 s is the shortest timeout that it takes, and Spark makes four
calls before it gives up."""


def hadoop_options(storage: StorageSettings) -> Mapping[str, str]:
    """Return the settings of Hadoop's file systems, which Spark uses."""
    keys = storage.plain()
    at = {"fs.s3a.path.style.access": "true"} if "endpoint" in keys else {}
    named = {_HADOOP[name]: value for name, value in keys.items()}
    return {**_PATIENCE, **named, **at, "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}


def use_storage(spark: "SparkSession", storage: StorageSettings) -> None:
    """Let a session's readers and writers use the storage's keys."""
    hadoop = spark._jsc.hadoopConfiguration()  # pyspark has no public API for it
    for name, value in hadoop_options(storage).items():
        hadoop.set(name, value)


@contextmanager
def reaching(folder: Folder, verb: str = "read") -> Iterator[None]:
    """Translate errors of file systems and of delta-rs within the block into one line.

    Raises Unreachable if trying again may help, else Refused.
    """
    from deltalake.exceptions import DeltaError

    try:
        yield
    except FairlaneError:
        raise
    except (OSError, DeltaError) as error:
        raise _failure(folder, verb, error) from None


def _failure(folder: Folder, verb: str, error: Exception) -> FairlaneError:
    text = _COLOR.sub("", str(error))
    if _NEWER.search(text):
        next_step = "Upgrade it (`pip install -U deltalake`), or name another folder."
        return Refused(f"{folder} was changed by a newer program than this deltalake: {_reason(text)}.", next_step)
    if folder.is_local:
        cause = getattr(error, "strerror", None) or " ".join(text.split())
        next_step = "Check free space and permissions, or name another folder that all machines share with --tables."
        return Refused(f"{folder} cannot be {verb}: {cause}.", next_step)
    return known_failure(folder.url, verb, text) or Refused(f"{folder} cannot be {verb}: {_reason(text)}.", _CHECK)


def known_failure(url: str, verb: str, text: str) -> FairlaneError | None:
    """Return the error for a message of pyarrow, delta-rs or Hadoop; None if it names none of the usual causes."""
    if _BUCKET.search(text):
        return Refused(f"The bucket of {url} does not exist.", "Create it, or name another one.")
    if _KEY.search(text):
        next_step = "Check storage.access_key and storage.secret_key, and what they may do there."
        return Refused(f"{url} cannot be {verb}: the store refuses the key ({_reason(text)}).", next_step)
    return Unreachable(f"{url} cannot be {verb}: {_reason(text)}.", _CHECK) if _BUSY.search(text) else None


def _reason(text: str) -> str:
    found = _CODE.search(text)
    reason = next(filter(None, found.groups())) if found else " ".join(text.split())
    return (reason if len(reason) <= _LONGEST else reason[:_LONGEST] + "...").strip().rstrip(".")


_LONGEST: Final = 200
_COLOR: Final = re.compile(r"\x1b\[\d+m(↳ ?)?")
