# SPDX-License-Identifier: MIT
"""Whether advice comes true: the programs, what is measured of them, how it is judged, and what intervals are made from it."""
