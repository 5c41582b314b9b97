# SPDX-License-Identifier: MIT
"""The contenders: tarn, the allocators of the Debian packages, and newer ones built from source crates."""
