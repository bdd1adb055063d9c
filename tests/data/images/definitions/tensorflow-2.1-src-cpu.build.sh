#!/bin/sh
set -eu
# Bazel is compiled first: its own bootstrap needs nothing but a JDK. It keeps some 20 GB in the home, which must not
# get into the image.
export HOME=/opt/modak-build/home
mkdir -p /opt/modak-build/bazel "$HOME"
cd /opt/modak-build/bazel
unzip -q /opt/modak-build/programs/bazel-dist.zip
EXTRA_BAZEL_ARGS="--host_javabase=@local_jdk//:jdk" bash ./compile.sh
install -m 755 output/bazel /usr/local/bin/bazel

cd /opt/modak-build/source
export PATH="/opt/modak/bin:$PATH"
export PYTHON_BIN_PATH=/opt/modak/bin/python3 USE_DEFAULT_PYTHON_LIB_PATH=1
export TF_ENABLE_XLA=1 TF_NEED_OPENCL_SYCL=0 TF_NEED_ROCM=0 TF_NEED_MPI=0 TF_SET_ANDROID_WORKSPACE=0 TF_DOWNLOAD_CLANG=0
export CC_OPT_FLAGS='-march=broadwell -mtune=broadwell'
export TF_NEED_CUDA=0
./configure </dev/null
set --
if [ -e /mnt/modak-cache ]; then # a build that was broken off goes on with what was compiled
  set -- --disk_cache=/mnt/bazel
fi
bazel build "$@" --config=opt --copt=-march=broadwell --copt=-mtune=broadwell \
  //tensorflow/tools/pip_package:build_pip_package
./bazel-bin/tensorflow/tools/pip_package/build_pip_package /opt/modak-build/wheel
bazel shutdown
python3 -m pip install --no-cache-dir --no-deps /opt/modak-build/wheel/tensorflow-*.whl
