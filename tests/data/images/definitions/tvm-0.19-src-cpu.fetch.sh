#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
wget -q -O source.tar.gz https://github.com/apache/tvm/releases/download/v0.19.0/apache-tvm-src-v0.19.0.tar.gz
echo "13fd707eae37b9b2b77bccd39668764f61ae6824d50cd1ab8164df1c75565be1  source.tar.gz" | sha256sum -c -
tar -xzf source.tar.gz -C source --strip-components=1
