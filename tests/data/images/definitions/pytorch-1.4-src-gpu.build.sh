#!/bin/sh
set -eu
# PyTorch's own build: setup.py drives CMake, which takes the flags from the environment. It is installed as a wheel:
# setup.py's own installation would fetch what it misses, unchecked.
cd /opt/modak-build/source
export CFLAGS='-march=broadwell -mtune=broadwell' CXXFLAGS='-march=broadwell -mtune=broadwell'
export CMAKE_PREFIX_PATH=/opt/modak
export PATH="/opt/modak/bin:$PATH"
export PYTORCH_BUILD_VERSION=1.4.0 PYTORCH_BUILD_NUMBER=1
export USE_CUDA=1 BUILD_TEST=0 USE_NUMPY=1 BLAS=MKL USE_DISTRIBUTED=0
export TORCH_CUDA_ARCH_LIST="6.0;6.1;7.0;7.5+PTX" # whatever GPU the machine of the build has
MAX_JOBS=$(nproc)
export MAX_JOBS
if [ -e /mnt/modak-cache ]; then # a build that was broken off goes on with what was compiled
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/mnt/ccache
fi
python3 setup.py -q bdist_wheel
python3 -m pip install --no-cache-dir --no-deps dist/torch-*.whl
