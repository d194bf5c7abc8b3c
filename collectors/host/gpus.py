"""GPUs through NVML, when there is one: clocks, throttle reasons, heat, power, memory errors, PCIe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

from argus.collectors.host.pressure import difference
from argus.collectors.records.host_sample import PartState

THROTTLE_REASONS = (
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
)
"""Bits of nvmlClocksEventReasons worth a word; idle, application clocks and display are none."""

COUNTED = ("pcie_replays", "ecc_corrected", "ecc_uncorrected", "throttled_power_s", "throttled_thermal_s")
"""Numbers that only grow: differences are reported."""

Read = Callable[[ModuleType, object], float]

READS: Mapping[str, Read] = {
    "sm_clock_mhz": lambda nvml, gpu: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
    "mem_clock_mhz": lambda nvml, gpu: float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
    "temperature_celsius": lambda nvml, gpu: float(
        nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)
    ),
    "power_watts": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) * 1e-3,
    "power_limit_watts": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) * 1e-3,
    "utilization_ratio": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu * 1e-2,
    "memory_used_bytes": lambda nvml, gpu: float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    "pcie_generation": lambda nvml, gpu: float(nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
    "pcie_width": lambda nvml, gpu: float(nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
    "pcie_replays": lambda nvml, gpu: float(nvml.nvmlDeviceGetPcieReplayCounter(gpu)),
    "ecc_corrected": lambda nvml, gpu: float(
        nvml.nvmlDeviceGetTotalEccErrors(gpu, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC)
    ),
    "ecc_uncorrected": lambda nvml, gpu: float(
        nvml.nvmlDeviceGetTotalEccErrors(gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    ),
    "remapped_rows": lambda nvml, gpu: float(sum(nvml.nvmlDeviceGetRemappedRows(gpu)[:2])),
    "remap_pending": lambda nvml, gpu: float(nvml.nvmlDeviceGetRemappedRows(gpu)[2]),
    "remap_failed": lambda nvml, gpu: float(nvml.nvmlDeviceGetRemappedRows(gpu)[3]),
    "throttled_power_s": lambda nvml, gpu: _violation_s(nvml, gpu, nvml.NVML_PERF_POLICY_POWER),
    "throttled_thermal_s": lambda nvml, gpu: _violation_s(nvml, gpu, nvml.NVML_PERF_POLICY_THERMAL),
}
"""One NVML call each; one that a GPU or driver does not know is left out, the others go on."""


class Gpus:
    """All GPUs of the host. `unseen` says why there are none."""

    def __init__(self, nvml: ModuleType | None, *, unseen: str = "") -> None:
        self._nvml, self.unseen = nvml, unseen
        self._before: dict[str, dict[str, float]] = {}

    def read(self) -> tuple[PartState, ...]:
        """Every GPU now, counters since the last read."""
        if self._nvml is None:
            return ()
        nvml = self._nvml
        try:
            gpus = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            self.unseen = f"gpu: {error}"[:200]
            return ()
        return tuple(self._read(nvml, gpu, index) for index, gpu in enumerate(gpus))

    def _read(self, nvml: ModuleType, gpu: object, index: int) -> PartState:
        name = _name(nvml, gpu, index)
        now: dict[str, float] = {}
        for number, read in READS.items():
            try:
                now[number] = read(nvml, gpu)
            except (nvml.NVMLError, AttributeError):
                continue  # not supported by this GPU, driver or version of the bindings
        counted = {key: now.pop(key) for key in COUNTED if key in now}
        grown = difference(counted, self._before.get(name, {}))
        self._before[name] = counted
        return PartState(name=name, numbers={**now, **grown}, flags=_reasons(nvml, gpu))


def open_gpus() -> Gpus:
    """NVML by the package nvidia-ml-py, if it and a driver are there."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return Gpus(None, unseen="gpu: no NVML bindings (pip install nvidia-ml-py)")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Gpus(None, unseen=f"gpu: {error}"[:200])
    return Gpus(nvml)


def reasons_of(mask: int) -> tuple[str, ...]:
    """Words for a mask of throttle reasons.

    >>> reasons_of(0x1 | 0x40)
    ('hw_thermal',)
    """
    return tuple(word for bit, word in THROTTLE_REASONS if mask & bit)


def _reasons(nvml: ModuleType, gpu: object) -> tuple[str, ...]:
    try:
        return reasons_of(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)))
    except (nvml.NVMLError, AttributeError):
        return ()  # not supported here: numbers still tell


def _name(nvml: ModuleType, gpu: object, index: int) -> str:
    try:
        uuid = nvml.nvmlDeviceGetUUID(gpu)
    except (nvml.NVMLError, AttributeError):
        return f"gpu-{index}"
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _violation_s(nvml: ModuleType, gpu: object, policy: int) -> float:
    return float(nvml.nvmlDeviceGetViolationStatus(gpu, policy).violationTime) * 1e-9
