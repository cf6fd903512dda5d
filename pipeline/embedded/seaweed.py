"""The embedded object store: SeaweedFS in one process (`weed mini`, read for version 4.48)."""

import asyncio
import contextlib
import secrets
import shutil
import signal
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Self

from pipeline.embedded.binaries import seaweed
from pipeline.embedded.files import private_folder
from pipeline.embedded.ports import ADMIN_GRPC_OFFSET, LOOPBACK, PortPicker
from pipeline.embedded.process import ProcessSpec

# Each gRPC server also listens here, whatever is asked for.
_SOCKETS = Path("/tmp")  # noqa: S108 - the place is SeaweedFS's


@dataclass(frozen=True, slots=True, kw_only=True)
class SeaweedPorts:
    """One for every listener: a port that is not given is taken from the defaults, where others may live."""

    s3: int
    s3_grpc: int
    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    admin: int
    """Its gRPC side is at + 10000; the built-in worker dials that even where `-admin.port.grpc` names another."""

    @classmethod
    def pick(cls, picker: PortPicker) -> Self:
        """Return nine free ports. Raises: OSError."""
        plain = {field.name: picker.pick() for field in fields(cls) if field.name != "admin"}
        return cls(**plain, admin=picker.pick(with_offset=ADMIN_GRPC_OFFSET))


def seaweed_spec(folder: Path, *, ports: SeaweedPorts, access_key: str, secret_key: str) -> ProcessSpec:
    """Return how to run the server with its data in this folder; buckets are made later. Raises: ServerMissing."""
    private_folder(folder)
    # Written by the server at each start and read back over the command line's head at the next.
    (folder / "mini.options").unlink(missing_ok=True)
    _remove_masters_of_other_ports(folder, ports)
    remove_sockets(ports)

    async def listens(_pid: int) -> bool:
        return await _answers_http(ports.s3)

    return ProcessSpec(
        name="seaweed",
        argv=(str(seaweed()), "-logtostderr=true", "mini", *_options(folder, ports)),
        env={
            "HOME": str(folder),
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            # 256 MiB made puts five times slower; without any limit it grows to half a gigabyte.
            "GOMEMLIMIT": "512MiB",
            # Without these the filer and the volume server hand out every object to whoever finds their port.
            **{f"WEED_JWT_{use}_KEY": secrets.token_hex(32) for use in _SIGNED},
        },
        folder=folder,
        ready=listens,
        # Safe to kill: 200 of 200 objects were intact after SIGKILL. The admin's part of a stop may take 6 s.
        stop_grace=timedelta(seconds=5),
        death_signal=signal.SIGTERM,
    )


def endpoint(ports: SeaweedPorts) -> str:
    """Return the address of the S3 interface."""
    return f"{LOOPBACK}:{ports.s3}"


def remove_sockets(ports: SeaweedPorts) -> None:
    """Remove the socket files that the server leaves behind."""
    used = {getattr(ports, field.name) for field in fields(ports)} | {ports.admin + ADMIN_GRPC_OFFSET}
    for path in _SOCKETS.glob("seaweedfs-*.sock"):
        if path.stem.rpartition("-")[2] in map(str, used):
            with contextlib.suppress(OSError):
                path.unlink()


_SIGNED = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")


def _options(folder: Path, ports: SeaweedPorts) -> list[str]:
    return [
        f"-dir={folder}",
        f"-ip={LOOPBACK}",
        f"-ip.bind={LOOPBACK}",
        f"-s3.port={ports.s3}",
        f"-s3.port.grpc={ports.s3_grpc}",
        f"-master.port={ports.master}",
        f"-master.port.grpc={ports.master_grpc}",
        f"-volume.port={ports.volume}",
        f"-volume.port.grpc={ports.volume_grpc}",
        f"-filer.port={ports.filer}",
        f"-filer.port.grpc={ports.filer_grpc}",
        f"-admin.port={ports.admin}",
        # Abstract sockets leave no files.
        f"-filer.localSocket=@muniment-filer-{ports.filer}",
        f"-s3.localSocket=@muniment-s3-{ports.s3}",
        # The address changes with the ports, the server doesn't.
        "-volume.id=muniment",
        "-volume.preStopSeconds=0",
        "-s3.iam=false",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-webdav=false",
        "-admin.ui=false",
        # On by default; it would report to its makers.
        "-master.telemetry=false",
    ]


def _remove_masters_of_other_ports(folder: Path, ports: SeaweedPorts) -> None:
    """Remove what masters on earlier ports kept; it is rebuilt from the volumes, and would pile up."""
    for path in folder.glob("m[0-9]*"):
        if path.name != f"m{ports.master}":
            shutil.rmtree(path)


async def _answers_http(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    try:
        writer.write(f"GET / HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(1):
            return (await reader.readline()).startswith(b"HTTP/1.1 ")
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
