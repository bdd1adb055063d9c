#!/bin/sh
set -eu
# Everything that is downloaded is checked against what the recipe names before it is used.
mkdir -p /opt/modak-build/source /opt/modak-build/programs
cd /opt/modak-build
cd source
git init -q .
git remote add origin https://github.com/pytorch/pytorch.git
git fetch -q --depth 1 origin 7f73f1d591afba823daa4a99a939217fb54d7688
git checkout -q FETCH_HEAD
[ "$(git rev-parse HEAD)" = 7f73f1d591afba823daa4a99a939217fb54d7688 ]
git submodule -q update --init --recursive --depth 1
