# shellcheck shell=sh
# Functions of the job script; they see the environment that the program will see.

# modak_mpi_of FILE: print the kind of MPI library that a program or a shared library is linked to; fail where there is
# none. Sonames: MPICH 3 and 4 and what keeps to its ABI (Intel MPI, MVAPICH2, Cray MPICH) have libmpi.so.12, in Debian
# libmpich.so.12; Open MPI has libmpi.so.12 in release 1.10, 20 in 2, 40 from 3 on, and always libopen-pal.
modak_mpi_of() {
  case $1 in -* | '') return 1 ;; esac
  modak_file=$(command -v "$1" 2>/dev/null) || return 1
  case $modak_file in */*) ;; *) return 1 ;; esac
  modak_libraries=$(PATH=$PATH:${modak_path:-}:/usr/bin:/bin ldd "$modak_file" 2>/dev/null) || return 1
  case $modak_libraries in
    *libopen-pal.so* | *libopen-rte.so* | *libmpi.so.40* | *libmpi.so.20*)
      # Releases up to 4 can be built for Slurm's PMI, too: Debian's are not.
      modak_library=$(printf '%s\n' "$modak_libraries" | awk '$1 ~ /^libmpi\.so/ { print $3; exit }')
      for modak_plugin in "${modak_library%/*}"/openmpi*/mca_pmix_s[12].so "${modak_library%/*}"/openmpi*/*/*/mca_pmix_s[12].so; do
        if [ -e "$modak_plugin" ]; then
          echo openmpi-pmi
          return
        fi
      done
      echo openmpi ;;
    *libmpi*.so*)
      case $modak_libraries in
        *impi* | */intel/*libmpi* | *oneapi*libmpi*) echo intelmpi ;;
        *libpmix.so*) echo mpich-pmix ;;
        *libpmi.so*) echo mpich-slurm ;;
        *libmpich*.so* | *libmpi.so.12* | *libmpi.so.0* | *libmpi_*.so*) echo mpich ;;
        *) return 1 ;;
      esac ;;
    *) return 1 ;;
  esac
}

# modak_mpi_library COMMAND...: the same for what a command line starts: the program itself, else the first program with
# an MPI library that its arguments or scripts name.
modak_mpi_library() {
  ! modak_mpi_of "$1" || return 0
  modak_words=$(
    for modak_word in "$@"; do
      if [ -f "$modak_word" ]; then
        dd bs=1024 count=64 <"$modak_word" 2>/dev/null
      else
        printf '%s\n' "$modak_word"
      fi
    done | LC_ALL=C tr -cs 'A-Za-z0-9_./+-' '\n' | LC_ALL=C awk 'length($0) > 1 && !seen[$0]++ && count++ < 100'
  )
  for modak_word in $modak_words; do
    case $modak_word in
      mpi4py*)
        for modak_file in "$("$1" -c 'import mpi4py; print(mpi4py.__path__[0])' 2>/dev/null)"/MPI*.so; do
          ! modak_mpi_of "$modak_file" || return 0
        done ;;
      *) ! modak_mpi_of "$modak_word" || return 0 ;;
    esac
  done
}
