"""The activity kinds that are collected, by their numbers in cupti_activity.h, which never change."""

from __future__ import annotations

import numpy as np

MEMCPY = 1
MEMSET = 2
KERNEL = 3
DRIVER = 4
RUNTIME = 5
CONCURRENT_KERNEL = 10
MEMCPY2 = 22  # between two devices

ENABLED = (CONCURRENT_KERNEL, MEMCPY, MEMCPY2, MEMSET)
"""Kinds switched on as a whole; DRIVER and RUNTIME records come of the calls of `LAUNCHES` alone."""

WORK_KINDS = frozenset({KERNEL, *ENABLED})
API_KINDS = frozenset({DRIVER, RUNTIME})

RUNTIME_LAUNCHES = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernel_ptsz_v7000",
    "cudaLaunchKernelExC_v11060",
    "cudaLaunchKernelExC_ptsz_v11060",
    "cudaLaunchCooperativeKernel_v9000",
    "cudaGraphLaunch_v10000",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
)
DRIVER_LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch")
"""Calls whose start is the launch of what follows; Triton and graphs of torch.compile use the driver's."""

WORK = np.dtype(
    [
        ("kind", "<i4"),
        ("start", "<i8"),  # on CUPTI's clock, ns
        ("end", "<i8"),
        ("stream", "<u4"),
        ("correlation", "<u4"),
        ("graph", "<u4"),  # 0 = launched on its own
        ("name", "<u4"),  # index into Decoded.names
        ("detail", "<u4"),  # copy kind of a memcpy
    ]
)
"""What ran on the GPU, whatever the record's version."""

LAUNCH = np.dtype([("correlation", "<u4"), ("start", "<i8"), ("end", "<i8")])
"""The host's call that launched it."""

COPY_NAMES = {
    1: "Memcpy HtoD",
    2: "Memcpy DtoH",
    3: "Memcpy HtoA",
    4: "Memcpy AtoH",
    8: "Memcpy DtoD",
    9: "Memcpy HtoH",
    10: "Memcpy PtoP",
}
"""Names that torch.profiler gives the same work, so that a trace and a live run agree."""

MEMSET_NAME = "Memset (Device)"
