"""GPU activity through CUPTI: kernels, copies and sets, with when the host launched them."""
