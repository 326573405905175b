"""OpenCL C as a person reads it: behind the preprocessor, without what nothing calls, formatted."""
