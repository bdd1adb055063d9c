#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
wget -q -O programs/bazel-dist.zip https://github.com/bazelbuild/bazel/releases/download/0.29.1/bazel-0.29.1-dist.zip
echo "872a52cff208676e1169b3e1cae71b1fe572c4109cbd66eab107d8607c378de5  programs/bazel-dist.zip" | sha256sum -c -
wget -q -O source.tar.gz https://github.com/tensorflow/tensorflow/archive/v2.1.0.tar.gz
echo "638e541a4981f52c69da4a311815f1e7989bf1d67a41d204511966e1daed14f7  source.tar.gz" | sha256sum -c -
tar -xzf source.tar.gz -C source --strip-components=1
