"""From an accumulator to a built program: OpenCL text, assembling, building, a device's context."""
