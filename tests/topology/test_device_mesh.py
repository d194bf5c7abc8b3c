"""Layouts against the process groups that torch really makes for a mesh of 1,024 ranks."""

from __future__ import annotations

import pytest

from argus.topology.parallel import device_mesh, torchtitan

RANKS = (0, 1, 517, 1023)


@pytest.mark.slow
@pytest.mark.parametrize("rank", RANKS)
def test_groups_equal_those_of_init_device_mesh(rank: int) -> None:
    dist = pytest.importorskip("torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=1024)
    try:
        names, sizes = ("pp", "dp_replicate", "dp_shard", "tp"), (4, 2, 16, 8)
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        ours = torchtitan(1024, pp=4, dp_replicate=2, dp_shard=16, tp=8)
        plain = device_mesh(tuple(zip(names, sizes, strict=True)))
        coords_names, coords = plain.coords()
        assert coords_names == names
        assert list(coords[rank]) == list(mesh.get_coordinate() or ())
        for name in names:
            theirs = dist.get_process_group_ranks(mesh.get_group(name))
            for layout in (ours, plain):
                mine = next(row for row in layout.members(name).tolist() if rank in row)
                assert mine == theirs
        flat = mesh["dp_replicate", "dp_shard"]._flatten("dp")
        mine = next(row for row in ours.members("dp").tolist() if rank in row)
        assert mine == dist.get_process_group_ranks(flat.get_group())
    finally:
        dist.destroy_process_group()
