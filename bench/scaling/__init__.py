# SPDX-License-Identifier: MIT
"""A model of many processors, from what the counters of contention say on few (docs/explanation/scaling.md)."""
