#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test that is a Python 3 program; its standard library is enough.
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
exec python3 -B "$@"
