# SPDX-License-Identifier: MIT
"""The suites of benchmarks: what each measures, as cells, and how its tables, goals and charts are made of the results."""
