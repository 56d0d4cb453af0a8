"""Pulsar's distribution: fetched once per user by Maven, verified, unpacked, and shared by all checkouts."""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.stack.errors import DownloadFailed, NoSpace

VERSION = "4.0.8"
ARTIFACT = f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin"
ARCHIVE = f"pulsar-server-distribution-{VERSION}-bin.tar.gz"
SHA512 = (
    "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6"
)
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
NEEDED_BYTES = 1_200_000_000
"""Space needed for Maven's copy, ours and the unpacked tree while it is created."""
DOWNLOAD_TIMEOUT_S = 1_800

Progress = Callable[[str], None]


def ensure(cache: Path, env: Mapping[str, str], progress: Progress) -> Path:
    """Return the directory of the unpacked distribution; fetch it first if this user does not have it.

    Raises DownloadFailed or NoSpace. Two processes may do this at once: the last one's rename fails and its tree is
    discarded.
    """
    ready = cache / f"apache-pulsar-{VERSION}"
    if ready.is_dir():
        return ready
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_space(cache, NEEDED_BYTES)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as scratch:
        archive = _download(Path(scratch), env, progress)
        verify(archive)
        progress(f"unpacking Pulsar {VERSION}")
        _install(_unpack(archive, Path(scratch)), ready)
    return ready


def check_space(directory: Path, needed_bytes: int) -> None:
    """Raise NoSpace if the disk of `directory` has less than `needed_bytes` free."""
    free = shutil.disk_usage(directory).free
    if free < needed_bytes:
        raise NoSpace(
            f"Only {free / 1e6:,.0f} MB are free on the disk of {directory}; {needed_bytes / 1e6:,.0f} MB are needed.",
            "Free some space, or choose another disk with FAIRLANE_HOME and FAIRLANE_CACHE.",
        )


def _download(scratch: Path, env: Mapping[str, str], progress: Progress) -> Path:
    maven = shutil.which("mvn", path=env.get("PATH", ""))
    if maven is None:
        raise DownloadFailed(
            f"Pulsar {VERSION} is not in the cache yet, and Maven, which fetches it, was not found.",
            "Install it (Debian: `apt-get install maven`), or run `make setup`.",
        )
    progress(f"fetching Pulsar {VERSION} (245 MB, once per user)")
    command = [maven, "-B", "-q", COPY_GOAL, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
    try:
        done = subprocess.run(
            command, cwd=scratch, env=dict(env), capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(f"it took longer than {DOWNLOAD_TIMEOUT_S // 60} minutes") from error
    archive = scratch / ARCHIVE
    if done.returncode != 0 or not archive.is_file():
        raise _unreachable(_maven_reason(done.stdout + done.stderr))
    return archive


def _maven_reason(output: str) -> str:
    errors = [line for line in output.splitlines() if "[ERROR]" in line]
    if not errors:
        return "Maven gave no reason"
    return errors[0].partition("[ERROR]")[2].strip()[:300]


def _unreachable(reason: str) -> DownloadFailed:
    return DownloadFailed(
        f"Pulsar {VERSION} could not be fetched with Maven: {reason}.",
        "Check the network and Maven's settings, then try again; or set FAIRLANE_PULSAR_URL, FAIRLANE_PULSAR_ADMIN_URL "
        "and FAIRLANE_REDIS_URL to use servers you have.",
    )


def verify(archive: Path, sha512: str = SHA512) -> None:
    """Raise DownloadFailed unless the archive is, byte for byte, the one this version of Fairlane was built with."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").hexdigest()
    if digest != sha512:
        raise DownloadFailed(
            f"The download {archive.name} is damaged or not genuine (sha512 {digest[:16]}, expected {sha512[:16]}).",
            f"Delete Maven's copy (org/apache/pulsar/pulsar-server-distribution/{VERSION} in its local repository) "
            "and try again.",
        )


def _unpack(archive: Path, scratch: Path) -> Path:
    target = scratch / "unpacked"
    try:
        with tarfile.open(archive) as tar:
            _extract(tar, target)
    except (tarfile.TarError, EOFError) as error:
        raise DownloadFailed(f"The download {archive.name} cannot be unpacked: {error}.", "Try again.") from error
    except OSError as error:
        raise NoSpace(f"Pulsar could not be unpacked: {error}.", "Free some space and try again.") from error
    return target / f"apache-pulsar-{VERSION}"


def _extract(tar: tarfile.TarFile, target: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        tar.extractall(target, filter="data")
    else:  # Python before 3.11.4 has no filters; the archive's hash has been checked
        tar.extractall(target)


def _install(unpacked: Path, ready: Path) -> None:
    try:
        unpacked.rename(ready)
    except OSError:
        if not ready.is_dir():  # otherwise another process was faster, and its tree is as good as ours
            raise
