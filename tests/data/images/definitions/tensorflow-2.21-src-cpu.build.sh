#!/bin/sh
set -eu
# Bazel keeps some 20 GB in the home, which must not get into the image.
export HOME=/opt/modak-build/home
mkdir -p "$HOME"
install -m 755 /opt/modak-build/programs/bazel /usr/local/bin/bazel
cd /opt/modak-build/source
export PATH="/opt/modak/bin:$PATH"
export PYTHON_BIN_PATH=/opt/modak/bin/python3 USE_DEFAULT_PYTHON_LIB_PATH=1 HERMETIC_PYTHON_VERSION=3.11
export TF_NEED_ROCM=0 TF_NEED_CUDA=0 TF_SET_ANDROID_WORKSPACE=0 TF_NEED_CLANG=1 CLANG_COMPILER_PATH=/usr/bin/clang-16
export CC_OPT_FLAGS='-march=x86-64-v4 -mtune=generic'
./configure </dev/null
set --
if [ -e /mnt/modak-cache ]; then # a build that was broken off goes on with what was compiled
  set -- --disk_cache=/mnt/bazel
fi
bazel build "$@" --config=opt --copt=-march=x86-64-v4 --copt=-mtune=generic --repo_env=WHEEL_NAME=tensorflow_cpu \
  //tensorflow/tools/pip_package:wheel
python3 -m pip install --no-cache-dir --no-deps bazel-bin/tensorflow/tools/pip_package/wheel_house/tensorflow_cpu-*.whl
bazel shutdown
