"""Shapes of kernels: a table for CPUs, one for GPUs, variants, trials, autotuning."""
