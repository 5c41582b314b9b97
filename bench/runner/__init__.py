# SPDX-License-Identifier: MIT
"""The protocol: which rows exist, how a run is measured, in which order, what happens when it fails."""
