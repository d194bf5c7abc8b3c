"""A GPU that is not there: what it takes to run the GPU check's whole way on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile

from argus.collectors.hooks import cuda_kernels
from argus.collectors.rank import attach
from argus.collectors.rank.cupti import process
from argus.collectors.rank.cupti.fake import STAND_IN, FakeCupti, FakeGpu, stand_in_module
from argus.collectors.rank.cupti.path import ObjectPath, Path
from argus.collectors.rank.cupti.raw import RawPath
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session
from argus.collectors.records.kernel_names import short_name
from argus.evals.workloads.gpu_machine import START_STEPS, Seen, transformer_step
from argus.evals.workloads.models import Step
from argus.evals.workloads.transformer import Transformer

KERNELS = ("void gemm<float, 128>(float*)", "softmax", "void at::(anonymous namespace)::add<int>(int*)")
LAUNCHES = 24
DUR_NS = 20_000


class Launching(torch.nn.Module):
    """A model whose forward launches kernels on the stand-in."""

    def __init__(self, inner: torch.nn.Module, machine: Dry) -> None:
        super().__init__()
        self.inner, self._machine = inner, machine

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The inner model's loss."""
        self._machine.launch()
        loss: torch.Tensor = self.inner(tokens)
        return loss


class Dry:
    """Steps run on the CPU; kernels are made up, and CUPTI is a stand-in that hands them over."""

    settle_s = 0.3

    def __init__(self) -> None:
        self._gpu = FakeGpu(dtypes=STAND_IN)
        self._cupti = FakeCupti(self._gpu, now_ns=self._now_ns)
        self._profiles: list[Seen] = []
        raw = RawPath(self._cupti, module=stand_in_module(lambda: self._cupti))
        objects = ObjectPath(self._cupti)
        self._stand_in(raw, objects)

    def _stand_in(self, raw: Path, objects: Path) -> None:
        vars(process).update(
            shared_api=lambda: self._cupti,
            shared_raw=lambda: raw,
            shared_objects=lambda: objects,
            best_path=lambda: (raw, ""),
        )

        def install(session: Session, part: Part) -> None:
            cuda_kernels.attach(session, part, is_raw=True, is_ready=lambda: True)

        vars(cuda_kernels)["install"] = install

    def _now_ns(self) -> int:
        session = attach.current_session()
        return 0 if session is None else session.recorder.now_ns()

    def name(self) -> str:
        """What it is called."""
        return "no GPU (dry run)"

    def build(self) -> Step:
        """A small transformer on the CPU."""
        torch.manual_seed(0)
        step = transformer_step(Launching(Transformer(width=64, layers=2), self), batch=4)
        for _ in range(START_STEPS):
            step()
        return step

    def launch(self) -> None:
        """Launch the step's kernels, for whoever collects."""
        for i in range(LAUNCHES):
            name = KERNELS[i % len(KERNELS)]
            if self._cupti.is_enabled:
                self._gpu.launch(name, at_ns=self._now_ns(), dur_ns=DUR_NS)
            for seen in self._profiles:
                seen.work.append((short_name(name), DUR_NS))

    def synchronize(self) -> None:
        """Nothing to wait for."""

    @contextmanager
    def profile(self, *, with_stack: bool = False) -> Iterator[Seen]:
        """torch.profiler on the host, which claims what a profiler claims; the kernels are ours to tell."""
        seen = Seen()
        with profile(activities=[ProfilerActivity.CPU], with_stack=with_stack):
            self._profiles.append(seen)
            try:
                yield seen
            finally:
                self._profiles.remove(seen)
