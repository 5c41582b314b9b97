# SPDX-License-Identifier: MIT
"""From raw runs to medians, ratios, tables and charts. Nothing here starts a process."""
