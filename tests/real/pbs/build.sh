#!/usr/bin/env bash
# Builds Torque 6.1.3.h5, OpenPBS 23.06.06 from a folder with its published sources, of which nothing is changed: the
# work happens in a copy. The installation goes to PREFIX, where it stays: the paths are compiled in.
# usage: build.sh torque|openpbs|gridengine SOURCE PREFIX
set -euo pipefail
KIND=$1 SOURCE=$2 PREFIX=$3
[ ! -e "$PREFIX/complete" ] || exit 0 # another checkout was faster
JOBS=${MODAK_PBS_MAKE_JOBS:-$(nproc)}
# No other Python than the system's: OpenPBS's configure takes the first in PATH, and its server links against it.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin

work=$(mktemp -d "${TMPDIR:-/var/tmp}/modak-pbs-build.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ "$KIND" = gridengine ]; then
  :
elif [ -e "$SOURCE/.git" ]; then # without what an earlier build by hand has left there
  git -C "$SOURCE" -c safe.directory='*' archive HEAD | tar -x -C "$work"
else
  cp -a "$SOURCE/." "$work"
fi
cd "$work"

install_apart() { # COMMAND...: runs it where what it writes to /etc and /usr, such as profiles and services, is lost
  local lost=$work/.lost
  mkdir "$lost"
  # shellcheck disable=SC2016 # for the inner shell
  unshare --mount bash -euc '
    lost=$1
    shift
    mount -t tmpfs tmpfs "$lost"
    for folder in etc usr; do
      mkdir -p "$lost/$folder/upper" "$lost/$folder/work"
      mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$lost/$folder/upper,workdir=$lost/$folder/work" "/$folder"
    done
    "$@"' bash "$lost" "$@"
}

build_torque() {
  # The checks of configure are compiled with the C compiler, but with C++'s standard flags below, which then fails.
  sed -i '/^CCLD="\$CXX"/a AC_LANG([C++])' configure.ac
  # boost::shared_ptr has no implicit conversion to bool since Boost 1.53 with C++11, and the last argument is one.
  sed -i 's/aj->insert(pjob,pjob->ji_qs\.ji_jobid, job_mutex)/aj->insert(pjob,pjob->ji_qs.ji_jobid, job_mutex.get() != NULL)/' \
    src/server/job_container.c
  ./autogen.sh
  # Written for compilers of 2017: today's take much of it for an error.
  export CFLAGS="-g0 -O0 -pipe -w -fpermissive -std=gnu++11" CXXFLAGS="-g0 -O0 -pipe -w -fpermissive -std=gnu++11"
  ./configure --prefix="$PREFIX" --with-server-home="$PREFIX/spool" --disable-gui --without-tcl --disable-gcc-warnings \
    --disable-posixmemlock
  make -j"$JOBS"
  install_apart env FROM_TORQUE_BUILD=1 make install # without it the Makefile asks whether an older version was removed
}

build_openpbs() {
  # OpenPBS's own later commit 1d17427c0, "compile with Python 3.11", where the folder does not have it.
  sed -i 's/^#include <eval\.h>.*/#include <Python.h>/' src/lib/Libpython/pbs_python_external.c
  ./autogen.sh
  CFLAGS="-g0 -O0 -pipe -w" ./configure --prefix="$PREFIX" --with-python=/usr --with-pbs-server-home="$PREFIX/home"
  make -j"$JOBS"
  install_apart make install
  mkdir -p "$PREFIX/home"
  # qstat and the like prove who they are with pbs_iff, from a port below 1024.
  chmod 4755 "$PREFIX/sbin/pbs_iff" "$PREFIX/sbin/pbs_rcp"
}

build_gridengine() { # unpacked, not installed: its qsub would stand before that of others on this machine
  local package
  # What its programs are linked with and the machine may lack.
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends libjemalloc2 libhwloc15 libmunge2 libtirpc3 libdb5.3
  for package in common client exec master; do apt-get -q download "gridengine-$package"; done
  mkdir -p "$PREFIX/state"
  for package in *.deb; do dpkg-deb -x "$package" "$PREFIX"; done
}

rm -rf "$PREFIX"
mkdir -p "$PREFIX"
"build_$KIND"
touch "$PREFIX/complete"
