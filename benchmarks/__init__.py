"""Benchmarks and reproductions; never imported by the library or its tests."""
