"""Runs that are compared with what they gave before: goldens, tolerances, drift, notification."""

from __future__ import annotations
