#!/bin/sh
set -eu
# Compiles one package of the list from its source archive, whose hash the list holds. Debian's Python compiles with
# -O2 by itself, released wheels with -O3: without that, flags for the processor lose more than they win.
export PIP_CONFIG_FILE=/opt/modak-build/pip/pip.conf
export CFLAGS='-O3 -march=x86-64-v3 -mtune=generic' CXXFLAGS='-O3 -march=x86-64-v3 -mtune=generic'
if [ -e /mnt/modak-cache ]; then # a build that was broken off goes on with what was compiled
  export CC="ccache gcc" CXX="ccache g++" CCACHE_DIR=/mnt/ccache
fi
/opt/modak/bin/python3 -m pip install --no-cache-dir --force-reinstall --no-deps --no-build-isolation \
  --no-binary numexpr --requirement /opt/modak-build/requirements.txt
