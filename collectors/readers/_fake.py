"""Make small kineto traces, for tests: a data-parallel step with one all-reduce and one all-to-all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEP_US = 10_000
_THREAD, _AUTOGRAD, _COMPUTE, _COMM = 100, 101, 7, 20


def fake_trace(
    *,
    rank: int,
    world_size: int,
    num_steps: int = 1,
    late_us: float = 0.0,
    latest_us: float | None = None,
    clock_us: float = 0.0,
    is_modern: bool = True,
    info: Mapping[str, Any] | None = None,
    host: str = "",
) -> dict[str, Any]:
    """A trace of `rank` whose forward takes `late_us` longer; the latest rank's is `latest_us`.

    `clock_us` is how far this rank's clock is ahead. `is_modern` puts the process group into the
    kernels' arguments; older traces only have the launching annotation.
    """
    ends_at = late_us if latest_us is None else latest_us
    events: list[dict[str, Any]] = []
    for step in range(num_steps):
        begin = clock_us + step * 2 * STEP_US
        events += _step(step + 3, begin, late=late_us, latest=ends_at, world=world_size, is_modern=is_modern)
    trace: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Fake GPU"}]}
    trace["distributedInfo"] = (
        {"backend": "nccl", "rank": rank, "world_size": world_size} if info is None else info
    )
    if host:
        trace["host_name"] = host
    trace["traceEvents"] = events
    trace["baseTimeNanoseconds"] = 1_700_000_000 * 10**9
    return trace


def _step(
    number: int, begin: float, *, late: float, latest: float, world: int, is_modern: bool
) -> list[dict[str, Any]]:
    forward, backward = 1_000.0, 4_000 + late
    done = 4_000 + latest
    events = [
        _span("user_annotation", f"ProfilerStep#{number}", begin, STEP_US + latest),
        _span("user_annotation", "enumerate(DataLoader)#_Iter.__next__", begin + 10, 900),
        _span("user_annotation", "## forward ##", begin + forward, 2_900 + late),
        _span("cpu_op", "autograd::engine::evaluate_function: X", begin + backward, 2_000, tid=_AUTOGRAD),
        _span("user_annotation", "Optimizer.step#SGD.step", begin + done + 4_000, 1_000),
    ]
    correlation = number * 100
    for at, dur in ((forward + 50, 2_500 + late), (backward + 50, 1_900.0), (done + 4_050, 800.0)):
        correlation += 1
        thread = _AUTOGRAD if at == backward + 50 else _THREAD
        events += _kernel("gemm<float>(int)", begin + at, dur, correlation, tid=thread, stream=_COMPUTE)
    for name, op, at, end in (
        ("ncclDevKernel_SendRecv(x)", "all_to_all", 3_950 + late, 3_990 + latest),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "allreduce", 6_000 + late, done + 3_000),
    ):
        correlation += 1
        args: dict[str, Any] = {"Collective name": op, "In msg nelems": 1000, "dtype": "Float"}
        if is_modern:
            args |= {"Process Group Name": "0", "Process Group Description": "default_pg"}
            args |= {"Process Group Ranks": str(list(range(world)))}
        events += [
            _span("cpu_op", "record_param_comms", begin + at - 30, 20, args=args if is_modern else {}),
            _span("user_annotation", f"nccl:{op}", begin + at - 25, 12, args={"Input Dims": [[1000]]}),
        ]
        events += _kernel(
            name, begin + at, end - at, correlation, stream=_COMM, args=args if is_modern else {}
        )
    return events


def _span(
    cat: str, name: str, ts: float, dur: float, *, tid: int = _THREAD, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args or {},
    }


def _kernel(
    name: str,
    ts: float,
    dur: float,
    correlation: int,
    *,
    stream: int,
    tid: int = _THREAD,
    args: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """A kernel and the call that launched it 20 µs before."""
    ids = {"correlation": correlation, "stream": stream, "device": 0}
    launch = _span("cuda_runtime", "cudaLaunchKernel", ts - 20, 5, tid=tid, args=ids)
    kernel = _span("kernel", name, ts, dur, tid=stream, args={**ids, **(args or {})})
    return [launch, kernel]
