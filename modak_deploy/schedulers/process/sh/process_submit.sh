# shellcheck shell=sh
# process_submit DIR SCRIPT TAG KEEP: start the script in a session of its own, with nothing open that a connection
# would wait for, and without file descriptor 9, which is the submission's lock (see lock.sh). KEEP says whether it gets
# this shell's whole environment. The tag is an argument of the script too, so that the process can be found by it.

umask 077
cd "$1" && mkdir -p state && (: >>scheduler.log) || exit 1
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
  setsid "$@" >scheduler.log 2>&1 </dev/null 9>&- &
else
  set -m
  nohup "$@" >scheduler.log 2>&1 </dev/null 9>&- &
fi
id=$!-$(start_of "$!" || echo 0)
(echo "$id" >state/pid) 2>/dev/null # for people; the answer is what counts
echo "modak-process $id"
