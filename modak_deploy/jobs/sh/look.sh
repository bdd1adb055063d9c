# shellcheck shell=sh
# look WORKSPACE NAME FIND: what is there of the job NAME; standard input: files below its folder, one a line.
# FIND, where it is not empty, is the scheduler's command that lists the jobs with the tag.

workspace=$1 name=$2 find=$3
case $workspace in
\~) workspace=${HOME:?is not set} ;;
\~/*) workspace=${HOME:?is not set}/${workspace#??} ;;
esac
dir=${workspace%/}/runs/$name

part directory
printf '%s' "$dir"
[ ! -h "$dir" ] || fail "$dir is a symbolic link, and not the folder of a job"
[ ! -e "$dir" ] || [ -d "$dir" ] || fail "$dir is not a folder"
[ ! -d "$dir" ] || [ -n "$(find "$dir" -prune -user "$(id -u)" 2>/dev/null)" ] || fail "$dir belongs to another user"
[ ! -d "$dir" ] || part exists
part now
date +%s
records "$dir"
part files
while IFS= read -r path; do
  [ ! -f "$dir/$path" ] || digest "$dir/$path" "$path"
done
if [ -n "$find" ]; then
  part found
  sh -c "$find" </dev/null
  code=$?
  part found_code
  printf '%d' "$code"
fi
part end
