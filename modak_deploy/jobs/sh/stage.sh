# shellcheck shell=sh
# stage DIR TAG TOKEN [FOLDER...]: take the job's files from the tar archive on standard input, each put in place by
# one rename. FOLDERs are made besides, for output files. The archive's file .digests has a line for each other one, as
# digest prints it, by SHA-256 and by cksum: what arrives otherwise is refused. state/staged.TOKEN is left behind.

dir=$1 tag=$2 token=$3
shift 3
umask 077
[ -d "${dir%/*}" ] || said=$(mkdir -p "${dir%/*}" 2>&1) || fail "the folder ${dir%/*} cannot be made: ${said##*: }"
contents=''
if ! said=$(mkdir -m 700 "$dir" 2>&1); then
  { [ -d "$dir" ] && [ ! -h "$dir" ]; } || fail "the folder $dir cannot be made: ${said##*: }"
  contents=$(ls -A "$dir") # before the tag is looked for: another run may be making the folder, and its tag comes first
fi
said=
[ ! -f "$dir/state/tag" ] || said=$(cat "$dir/state/tag" 2>/dev/null)
case $tag in "$said"*) ;; *) fail "$dir is the folder of another job" ;; esac
if [ "$said" != "$tag" ]; then # there is none, or it was cut short
  case $contents in
  '' | state) ;;
  *) [ -f "$dir/state/tag" ] || fail "$dir is there already, and is no job's folder: move it away" ;;
  esac
  mkdir -p "$dir/state" && (printf '%s\n' "$tag" >"$dir/state/tag.$token") 2>/dev/null &&
    durable "$dir/state/tag.$token" && mv -f "$dir/state/tag.$token" "$dir/state/tag" && durable "$dir/state" "$dir" ||
    fail "nothing can be written to $dir/state" # all else in the folder comes after its tag, on disk too
fi
mkdir -p "$dir/work" "$dir/state/lock" "$@" || fail "the folders for the job's output cannot be made"
# What a controller that was killed left behind a day ago or earlier.
for left in "$dir"/state/stage.*; do
  [ ! -e "$left" ] || { find "$dir/state" -name 'stage.*' -mtime +0 -prune -exec rm -rf {} + && break; }
done
attempt='' refused=''
[ ! -f "$dir/state/intent" ] || read -r attempt rest <"$dir/state/intent"
[ ! -f "$dir/state/refused" ] || read -r refused rest <"$dir/state/refused"
if [ "$attempt" != "$refused" ] || begun "$dir"; then # another run was faster, and its job may be running on these files
  part late
  part end
  exit 0
fi
new=$dir/state/stage.$token
mkdir "$new" && (cd "$new" && tar -xof -) || fail "the files cannot be unpacked in $new"
newline='
' digests=
[ ! -f "$new/.digests" ] || digests=$newline$(cat "$new/.digests")$newline
part files
(cd "$new" && find . -type f) | while IFS= read -r path; do
  path=${path#./}
  case $path in
  .digests) continue ;;
  */*) mkdir -p "$dir/${path%/*}" || fail "the folder $dir/${path%/*} cannot be made" ;;
  esac
  # Before it is put in place: there another run of the same job may have put its own meanwhile.
  digest "$new/$path" "$path"
  case $digests in
  '' | *"$newline$digest_line$newline"*) ;;
  *) fail "the file '${path#work/}' arrived damaged on the target" ;;
  esac
  mv -f "$new/$path" "$dir/$path" || fail "$dir/$path cannot be put in place"
done || exit 1
rm -rf "$new"
# A job must not find its files cut short after a power loss: all is on disk before the scheduler hears of it.
set -- "$dir/state" "$dir"
for file in job.sh plan.json; do [ ! -f "$dir/$file" ] || set -- "$@" "$dir/$file"; done
above=$dir
while above=${above%/*} && [ -w "${above:-/}" ]; do # the folders above it may be as new
  set -- "$@" "${above:-/}"
  [ -n "$above" ] || break
done
for left in "$dir"/state/staged.*; do
  [ ! -e "$left" ] || { rm -f "$dir"/state/staged.* && break; }
done
(: >"$dir/state/staged.$token") 2>/dev/null || fail "nothing can be written to $dir/state"
below='' # what lies in the working directory; most jobs bring nothing
for entry in "$dir"/work/* "$dir"/work/.[!.]* "$dir"/work/..?*; do
  [ ! -e "$entry" ] && [ ! -h "$entry" ] || { below=yes && break; }
done
{ [ -z "$below" ] || durable_below "$dir/work"; } && durable "$dir/work" "$@" ||
  fail "the files in $dir cannot be written to the disk"
rsync_there
part end
