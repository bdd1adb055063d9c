#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
cd source
git init -q .
git remote add origin https://github.com/pytorch/pytorch.git
git fetch -q --depth 1 origin e2d141dbde55c2a4370fac5165b0561b6af4798b
git checkout -q FETCH_HEAD
[ "$(git rev-parse HEAD)" = e2d141dbde55c2a4370fac5165b0561b6af4798b ]
git submodule -q update --init --recursive --depth 1
