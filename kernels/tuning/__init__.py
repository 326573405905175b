"""What shapes a kernel: a table for CPUs, one for GPUs, variants, trials, autotuning."""
