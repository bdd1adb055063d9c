#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
wget -q -O programs/bazel https://github.com/bazelbuild/bazel/releases/download/7.7.0/bazel-7.7.0-linux-x86_64
echo "fe7e799cbc9140f986b063e06800a3d4c790525075c877d00a7112669824acbf  programs/bazel" | sha256sum -c -
cd source
git init -q .
git remote add origin https://github.com/tensorflow/tensorflow.git
git fetch -q --depth 1 origin a481b10260dfdf833a1b16007eead49c1d7febf3
git checkout -q FETCH_HEAD
[ "$(git rev-parse HEAD)" = a481b10260dfdf833a1b16007eead49c1d7febf3 ]
