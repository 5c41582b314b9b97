#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the artefact of a folder of packaging/, installs it into an empty place, tries it and removes it. Exit status
# 77 and a line that names it if a tool is missing.
# Usage: artefact_test.sh NAME SCRATCH
set -eu
folder=$(cd "$(dirname "$0")/../../packaging/$1" && pwd)
artefacts=$2/artefacts-$1
rm -rf "$artefacts"
"$folder/make_artefact" "$artefacts"
"$folder/check_artefact" "$artefacts"
rm -rf "$artefacts"
