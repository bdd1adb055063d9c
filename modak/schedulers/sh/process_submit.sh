# shellcheck shell=sh
# process_submit DIR SCRIPT TAG KEEP: start the script in a session of its own, with nothing open that a connection
# would wait for. KEEP says whether it gets this shell's whole environment. The tag is an argument of the script too,
# so that the process can be found by it.

umask 077
cd "$1" && mkdir -p state || exit 1
directory=$1 script=$2 tag=$3
if [ "$4" = yes ]; then
  set -- env
else
  set -- env -i
  for name in HOME LOGNAME USER SHELL PATH LANG LC_ALL LC_CTYPE TZ TMPDIR LD_LIBRARY_PATH MODULEPATH MODULESHOME; do
    eval "value=\${$name-}"
    [ -z "$value" ] || set -- "$@" "$name=$value"
  done
fi
set -- "$@" "MODAK_TAG=$tag" "MODAK_DIRECTORY=$directory" /bin/sh "$script" "$tag"
if command -v setsid >/dev/null 2>&1; then
  setsid "$@" >scheduler.log 2>&1 </dev/null &
else
  set -m
  nohup "$@" >scheduler.log 2>&1 </dev/null &
fi
id=$!-$(start_of "$!" || echo 0)
echo "$id" >state/pid
echo "modak-process $id"
