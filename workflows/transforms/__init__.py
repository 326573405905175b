"""Writes arrays that follow from statistics: anomalies, normalized ones, projections."""
