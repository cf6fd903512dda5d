"""Which accelerators a host has, and how each worker is pinned to its own before it starts."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from pipeline.domain.document import Lane
from pipeline.settings import DeclaredDevice, DeviceSettings
from workers import child
from workers.accelerators import accelerators, load_nvml, names_of
from workers.device_view import NvmlView, view_of
from workers.launcher import devices_to_serve, worker_of

GIB = 2**30
WHOLE = "GPU-5f1c2a3b-7d4e-11ee-9a1b-0242ac120002"
CUT_UP = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
EMPTY = "GPU-0aa11bb2-cc33-dd44-ee55-ff6677889900"
SLICES = ("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-0c757cd7-e942-5726-a0b8-0e8fb7067135")


@dataclass(frozen=True)
class Gpu:
    uuid: str
    total: int
    mig: int | None = None
    """None: a GPU that can't be cut up."""
    slices: tuple["Gpu | None", ...] = ()


HOST = (
    Gpu(WHOLE, 24 * GIB),
    # Slots of slices stay empty where their sizes leave room for fewer.
    Gpu(CUT_UP, 80 * GIB, mig=1, slices=(Gpu(SLICES[0], 20 * GIB), None, Gpu(SLICES[1], 10 * GIB), None)),
    Gpu(EMPTY, 80 * GIB, mig=1, slices=(None,) * 7),
)


class RecordedNvml:
    """A host's layout, answered in the way of the module `pynvml`: with its names, and errors for what is not there."""

    class NVMLError(Exception):
        pass

    def __init__(self, *gpus, computing=()):
        self.gpus = gpus
        self.computing = computing

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        everything = [part for gpu in self.gpus for part in (gpu, *filter(None, gpu.slices))]
        return next(part for part in everything if part.uuid == uuid)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        if handle.mig is not None:
            raise self.NVMLError("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.computing]

    def nvmlDeviceGetUUID(self, handle):
        return handle.uuid

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=handle.total, free=handle.total, used=0)

    def nvmlDeviceGetMigMode(self, handle):
        if handle.mig is None:
            raise self.NVMLError("Not Supported")
        return [handle.mig, handle.mig]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle):
        return len(handle.slices)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        if handle.slices[index] is None:
            raise self.NVMLError("Not Found")
        return handle.slices[index]


def uuids(visible, *gpus):
    return [accelerator.uuid for accelerator in accelerators(RecordedNvml(*gpus or HOST), visible)]


def test_whole_gpus_and_slices_are_found_and_gpus_that_are_cut_up_are_not():
    assert uuids(None) == [WHOLE, *SLICES]
    assert [accelerator.total_bytes for accelerator in accelerators(RecordedNvml(*HOST), None)] == [
        24 * GIB,
        20 * GIB,
        10 * GIB,
    ]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0", [WHOLE]),
        ("1,0", [*SLICES, WHOLE]),
        (WHOLE, [WHOLE]),
        ("GPU-5f1c", [WHOLE]),
        (f" {SLICES[1]} , {WHOLE}", [SLICES[1], WHOLE]),
        (CUT_UP, list(SLICES)),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        # What comes after a name that means nothing is not seen, as with CUDA.
        ("0,9,1", [WHOLE]),
        ("0,GPU-dead,1", [WHOLE]),
        ("0,0", [WHOLE]),
        # The beginning of two GPUs' names means neither.
        ("GPU-", []),
        ("2", []),
    ],
)
def test_cuda_visible_devices_is_honoured(visible, expected):
    assert uuids(visible) == expected


def test_names_come_from_uuids_so_that_they_stay_when_another_card_is_gone():
    assert list(names_of(accelerators(RecordedNvml(*HOST), None))) == [
        "cuda:5f1c2a3b",
        "cuda:c6d4f1ef",
        "cuda:0c757cd7",
    ]
    assert list(names_of(accelerators(RecordedNvml(*HOST[1:]), None))) == ["cuda:c6d4f1ef", "cuda:0c757cd7"]


def test_names_that_begin_alike_are_told_apart():
    alike = (Gpu("GPU-5f1c2a3b-1111", GIB), Gpu("GPU-5f1c2a3b-2222", GIB))
    assert list(names_of(accelerators(RecordedNvml(*alike), None))) == ["cuda:5f1c2a3b1", "cuda:5f1c2a3b2"]


def test_each_worker_is_pinned_to_its_own_device_before_it_starts():
    settings = DeviceSettings(cpu_slots=1, accelerator_engine="simulated")
    served = devices_to_serve(settings, {"CUDA_VISIBLE_DEVICES": f"0,{SLICES[0]}"}, RecordedNvml(*HOST))
    workers = {device.name: worker_of(device) for device in served}
    assert list(workers) == ["cpu:0", "cuda:5f1c2a3b", "cuda:c6d4f1ef"]
    assert [worker.name for worker in workers.values()] == ["worker-cpu0", "worker-cuda5f1c2a3b", "worker-cudac6d4f1ef"]
    seen = {name: worker.env["CUDA_VISIBLE_DEVICES"] for name, worker in workers.items()}
    assert seen == {"cpu:0": "", "cuda:5f1c2a3b": WHOLE, "cuda:c6d4f1ef": SLICES[0]}
    assert workers["cuda:5f1c2a3b"].env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert workers["cuda:5f1c2a3b"].argv[-2:] == ("--device", "cuda:5f1c2a3b")


def test_without_an_engine_for_them_accelerators_are_left_alone():
    assert [d.name for d in devices_to_serve(DeviceSettings(cpu_slots=2), {}, RecordedNvml(*HOST))] == [
        "cpu:0",
        "cpu:1",
    ]


def test_declared_devices_are_served_where_there_are_none(monkeypatch):
    declared = (DeclaredDevice(name="cuda:sim0", total_bytes=24 * GIB),)
    settings = DeviceSettings(cpu_slots=0, accelerator_engine="simulated", declared=declared)
    [served] = devices_to_serve(settings, {}, None)
    monkeypatch.setenv(child.TOTAL_BYTES_VARIABLE, served.environment[child.TOTAL_BYTES_VARIABLE])
    info = child.device_info(served.name, settings)
    assert (info.kind, info.lanes, info.total_bytes) == ("cuda", (Lane.GPU,), 24 * GIB)


def test_a_worker_sees_who_computes_on_its_device_and_what_is_used():
    nvml = RecordedNvml(*HOST, computing=(812, 77))
    assert (NvmlView(nvml, WHOLE).holders(), NvmlView(nvml, WHOLE).used_bytes()) == ((77, 812), 0)
    assert NvmlView(nvml, CUT_UP).holders() == ()  # it can't be asked
    assert NvmlView(nvml, SLICES[0]).holders() == (77, 812)


def test_a_cpu_slot_has_no_driver_to_ask(monkeypatch):
    assert view_of("cpu:0", {"CUDA_VISIBLE_DEVICES": WHOLE}) is None
    assert view_of("cuda:5f1c2a3b", {}) is None


def test_without_a_driver_there_are_no_accelerators_and_no_error():
    assert accelerators(None, None) == []
    nvml = load_nvml()
    assert nvml is None or all(found.uuid for found in accelerators(nvml, None))


def test_declared_devices_come_from_the_environment_too():
    environment = os.environ | {
        "MUNIMENT_DEVICES__DECLARED": json.dumps([{"name": "cuda:sim0", "total_bytes": 1024}]),
        "MUNIMENT_DEVICES__ACCELERATOR_ENGINE": "simulated",
    }
    code = "from pipeline.settings import read_settings as r; print(r().devices.declared[0].name)"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "cuda:sim0"
