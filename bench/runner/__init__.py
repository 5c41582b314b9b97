# SPDX-License-Identifier: MIT
"""The protocol: which rows exist, how one run is measured, in which order, and what happens when a run fails."""
