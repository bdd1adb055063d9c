#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
cd source
git init -q .
git remote add origin https://github.com/pytorch/glow.git
git fetch -q --depth 1 origin 405e632ef138f1d49db9c3181182f7efd837bccc
git checkout -q FETCH_HEAD
[ "$(git rev-parse HEAD)" = 405e632ef138f1d49db9c3181182f7efd837bccc ]
git submodule -q update --init --recursive --depth 1
