# shellcheck shell=sh
# probe TYPE PYTHON DEFAULT WORKSPACE: print in named parts what a target is. TYPE is its scheduler, machine, or any to find out.
# PYTHON is the application's where it is told, DEFAULT what stands in for it; "-" for PYTHON asks for none.
# WORKSPACE is the folder for jobs, which need not be there yet.
# Everything may be missing here but a shell, cat and printf.

# AMD's packages leave rocm-smi in a folder of their own.
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/rocm/bin
LC_ALL=C
# ch-run wants it even to tell its version, and a session without a login has none.
USER=${USER:-$(id -un 2>/dev/null)}
export PATH LC_ALL USER
# nproc would tell these, and sinfo would obey those.
unset OMP_NUM_THREADS OMP_THREAD_LIMIT LANGUAGE SINFO_ALL SINFO_FORMAT SINFO_PARTITION SINFO_SORT

part() { printf '\n@@modak:%s\n' "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
# A tool whose server or device hangs must not hang us.
if have timeout && timeout 5 true 2>/dev/null; then
  limited() { timeout 15 "$@"; }
else
  limited() { "$@"; }
fi
ask() {
  part "$1"
  shift
  if have "$1"; then limited "$@" </dev/null 2>&1; fi
}
tell() { # as ask, for what reads the kernel's or libc's own files and cannot hang: timeout(1) is a process more for each
  part "$1"
  shift
  if have "$1"; then "$@" </dev/null 2>&1; fi
}
# The slow ones answer at the same time: each prints its part at once, and pipes keep short writes whole.
ask_aside() {
  name=$1
  shift
  if have "$1"; then
    {
      answer=$(limited "$@" </dev/null 2>&1)
      printf '\n@@modak:%s\n%s\n' "$name" "$answer"
    } &
  fi
}
show() {
  part "$1"
  if [ -r "$2" ]; then cat "$2" 2>/dev/null; fi
}

part host
uname -n 2>/dev/null
tell machine uname -m

# --- hardware ----------------------------------------------------------------------------------------------------

part cpuinfo
# One processor of many is enough.
if [ -r /proc/cpuinfo ]; then
  while IFS= read -r line && [ -n "$line" ]; do printf '%s\n' "$line"; done </proc/cpuinfo
fi
ask lscpu lscpu
tell nproc nproc
tell online getconf _NPROCESSORS_ONLN
# Which of them share a physical core, and which this session may use.
part siblings
for file in /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list; do
  if [ -r "$file" ]; then
    cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list 2>/dev/null
    break
  fi
done
part allowed
if [ -r /proc/self/status ]; then
  while IFS= read -r line; do
    case $line in Cpus_allowed_list:*) printf '%s\n' "${line#*:}" ;; esac
  done </proc/self/status
fi
show meminfo /proc/meminfo
# What a container or a session may use of them.
limits() {
  for file in "$@"; do
    if [ -r "$file" ]; then printf '%s %s\n' "${file##*/}" "$(cat "$file" 2>/dev/null)"; fi
  done
}
limits_of() { # FOLDER GROUP FILE...: of a control group and of all those that it is in
  folder=$1 group=${2%/}
  shift 2
  while :; do
    for file in "$@"; do limits "$folder$group/$file"; done
    [ -n "$group" ] || break
    group=${group%/*}
  done
}
limits_in() { # CONTROLLERS GROUP, as in /proc/self/cgroup; version 2 names no controllers
  case ,$1, in
    ,,) limits_of /sys/fs/cgroup "$2" cpu.max memory.max ;;
    *,cpu,*) limits_of /sys/fs/cgroup/cpu "$2" cpu.cfs_quota_us cpu.cfs_period_us ;;
  esac
  case ,$1, in *,memory,*) limits_of /sys/fs/cgroup/memory "$2" memory.limit_in_bytes ;; esac
}
part limits
if [ -r /proc/self/cgroup ]; then
  while IFS= read -r line; do # 4:cpu,cpuacct:/user.slice
    line=${line#*:}
    limits_in "${line%%:*}" "${line#*:}"
  done </proc/self/cgroup
else
  limits_in '' /
  limits_in cpu,memory /
fi
ask rocm-smi rocm-smi --showproductname --showmeminfo vram --showdriverversion --json

# --- file systems ------------------------------------------------------------------------------------------------

show mounts /proc/mounts
file_system() { # NAME FOLDER: the one that the folder is on, or would be
  # shellcheck disable=SC2088 # the tilde is the user's text
  case $2 in
    '~') folder=$HOME ;;
    '~/'*) folder=$HOME/${2#??} ;;
    *) folder=$2 ;;
  esac
  case $folder in /*) ;; *) return ;; esac
  while [ -n "$folder" ] && [ ! -d "$folder" ]; do folder=${folder%/*}; done
  part "$1"
  if have df; then limited df -Pk "${folder:-/}" </dev/null 2>/dev/null; fi
}
file_system df-home "$HOME"
file_system df-workspace "$4"

# --- software ----------------------------------------------------------------------------------------------------

tell glibc getconf GNU_LIBC_VERSION
part ldd
if have ldd; then limited ldd --version </dev/null 2>&1; fi
tell ldconfig ldconfig -p
ask_aside nvidia-smi nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits
ask_aside nvidia-list nvidia-smi -L
probe_runtimes # see modak_deploy/containers/registry.py
ask_aside mpirun mpirun --version
ask_aside mpichversion mpichversion
wait

# --- scheduler ---------------------------------------------------------------------------------------------------

query() {
  part "$1"
  shift
  if have "$1"; then
    limited "$@" </dev/null 2>&1
    printf '\n@@modak:code\n%s\n' $?
  fi
}
# Made of what each scheduler's own package asks; see modak_deploy/schedulers/detect.py.
kind=$1
[ "$kind" = machine ] || probe_schedulers

# --- the application's Python ------------------------------------------------------------------------------------

if [ "$2" != - ]; then
  python=${2:-$3}
  # shellcheck disable=SC2088 # the tilde is the user's text
  case $python in '~/'*) python=$HOME/${python#'~/'} ;; esac
  case $python in
    '') python=$(command -v python3) || python= ;;
    */*) ;;
    *) python=$(command -v "$python") || python=$2 ;;
  esac
  part python
  printf '%s\n' "$python"
  prefix=${python%/*}
  prefix=${prefix%/*}
  runs=
  if [ -n "$python" ] && [ -x "$python" ] && [ ! -d "$python" ]; then
    runs=yes
    part python-runs
  fi
  # One that is missing here may be there on the compute nodes; one that this user may not execute is there for nobody.
  forbidden() { # PATH: prints the file or the folder that keeps this user from it
    path=$1 links=0
    while [ "$links" -lt 10 ]; do
      folder=$path
      while [ -n "$folder" ] && [ ! -e "$folder" ]; do folder=${folder%/*}; done
      if [ -n "$folder" ] && [ ! -x "$folder" ]; then
        printf '%s\n' "$folder"
        break
      fi
      { [ ! -e "$path" ] && [ -h "$path" ]; } || break
      link=$(readlink "$path" 2>/dev/null) || break
      case $link in /*) path=$link ;; *) path=${path%/*}/$link ;; esac
      links=$((links + 1))
    done
  }
  case $runs$python in
    /*)
      part python-forbidden
      forbidden "$python"
      ;;
  esac
  # A virtual environment can be read where the Python that it was made from is missing, as on a bare login node.
  if [ -n "$runs" ] || [ -r "$prefix/pyvenv.cfg" ]; then
    folders() { # PREFIX VERSION: where that installation keeps its packages
      for folder in "$1"/lib/python$2/site-packages "$1"/lib64/python$2/site-packages \
        "$1"/local/lib/python$2/dist-packages "$1"/lib/python3/dist-packages; do
        if [ -d "$folder" ]; then printf '%s\n' "$folder"; fi
      done
    }
    installation() { # PROGRAM: the same, and the user's own packages
      real=$(readlink -f "$1" 2>/dev/null) || real=$1
      version=${real##*python}
      case $version in 3.*) ;; *) version='3.*' ;; esac
      prefix=${real%/*}
      prefix=${prefix%/*}
      if [ -d "$HOME/.local" ]; then folders "$HOME/.local" "$version"; fi
      folders "$prefix" "$version"
    }
    found=$(
      if [ -r "$prefix/pyvenv.cfg" ]; then
        folders "$prefix" '3.*'
        home='' system=''
        while IFS= read -r line || [ -n "$line" ]; do
          value=${line#*=}
          value=${value# }
          case $line in
            home*=*) home=$value ;;
            include-system-site-packages*=*[Tt]rue*) system=yes ;;
          esac
        done <"$prefix/pyvenv.cfg"
        if [ -n "$system" ] && [ -n "$home" ]; then installation "$home/python3"; fi
      else
        installation "$python"
      fi
    )
    # What stands in for the real program, such as a shim, knows itself where they are.
    [ -n "$found" ] || [ -z "$runs" ] || found=$(limited "$python" -c 'import sys; print("\n".join(sys.path))' </dev/null 2>/dev/null)
    part packages
    printf '%s\n' "$found" | while IFS= read -r folder; do
      if [ -d "$folder" ]; then
        printf '%s\n' "$folder"
        for file in "$folder"/*.pth; do
          if [ -r "$file" ]; then cat "$file" && echo; fi # the last line may lack its end
        done | while IFS= read -r line; do
          case $line in /*) printf '%s\n' "$line" ;; esac
        done
      fi
    done | while IFS= read -r folder; do
      for entry in "$folder"/*.dist-info "$folder"/*.egg-info; do
        if [ -e "$entry" ]; then printf '%s\n' "${entry##*/}"; fi
      done
    done
  fi
fi
part end
