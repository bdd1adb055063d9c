# shellcheck shell=sh
# list_results DIR LIMIT CONTENT: which files, folders and links the caller would have; at most LIMIT bytes of it. Nothing
# is written, so that it works where the file system is full. Standard input: lines "want ./PATH ..." of quoted words.
#
# The answer's part "content" is a tar archive of all that, encoded and cut off after about CONTENT bytes; there is none
# where CONTENT is 0.
#
# The answer's part "listing" is a list of values that each end with a NUL byte, which no file name holds: so no name
# can pass for another value.
#   files N NAME... SUMS ABOUT   N files; a line of SUMS and one of ABOUT for each that can be read
#   odd NAME SUM ABOUT           one file in whose name a line ends, or that sha256sum would escape
#   folders N NAME... ABOUT      N folders
#   links N NAME... TAR          N symbolic links; TAR, encoded, holds where they lead
#   other N NAME...              what is none of these
#   followed NAME                a path of the caller's that is a link itself; what it leads to is listed
#   end STATUS                   0, or how find ended where it could not read all

dir=$1 limit=$2 content=$3
LC_ALL=C # names are bytes
export LC_ALL encoder packer sums about
cd "$dir" || fail "$dir is not there"

if command -v sha256sum >/dev/null 2>&1; then
  sums=sha256sum
elif command -v shasum >/dev/null 2>&1; then
  sums='shasum -a 256'
elif command -v openssl >/dev/null 2>&1; then
  sums='openssl dgst -sha256 -r'
elif command -v sha256 >/dev/null 2>&1; then
  sums='sha256 -r'
else
  sums=cksum
fi
if stat -L -c %a,%s,%n / >/dev/null 2>&1; then # GNU, busybox
  about='stat -L -c %a,%s,%n'
elif stat -L -f %Lp,%z,%N / >/dev/null 2>&1; then # BSD
  about='stat -L -f %Lp,%z,%N'
else
  about=by_hand
fi

# Run by find with as many names as fit. printf is the shell's own and find's -exec + is POSIX's: find -print0 is
# neither in POSIX 2008 nor in every busybox.
# shellcheck disable=SC2016 # for the inner shell
batch='
by_hand() {
  for file; do
    mode=644 size=0
    [ ! -x "$file" ] || mode=755
    [ -d "$file" ] || size=$(wc -c <"$file") || continue
    printf "%s,%d,%s\n" "$mode" "$size" "$file"
  done
}
kind=$1
shift
if [ "$kind" = odd ]; then
  for file; do
    printf "odd\000%s\000" "$file"
    [ ! -r "$file" ] || $sums <"$file" 2>/dev/null
    printf "\000"
    $about "$file" 2>/dev/null
    printf "\000"
  done
  exit 0
fi
printf "%s\000" "$kind" "$#" "$@"
case $kind in
files)
  $sums "$@" 2>/dev/null
  printf "\000"
  $about "$@" 2>/dev/null
  printf "\000"
  ;;
folders)
  $about "$@" 2>/dev/null
  printf "\000"
  ;;
links)
  $packer "$@" 2>/dev/null | $encoder
  printf "\000"
  ;;
esac
exit 0'
odd=$(printf '*[\\\\\n\r]*')
status=0

want() { # PATH...
  for path; do
    shift
    if [ -e "$path" ] || [ -h "$path" ]; then
      set -- "$@" "$path"
      [ ! -h "$path" ] || [ ! -e "$path" ] || printf 'followed\000%s\000' "$path"
    fi
  done
  [ "$#" -gt 0 ] || return 0
  # Without parentheses: busybox 1.35 forgets what it has gathered for an -exec + in them.
  find -H "$@" -type d -exec sh -c "$batch" sh folders {} + \
    -o -type f -path "$odd" -exec sh -c "$batch" sh odd {} + \
    -o -type f -exec sh -c "$batch" sh files {} + \
    -o -type l -exec sh -c "$batch" sh links {} + \
    -o -exec sh -c "$batch" sh other {} + || status=$?
}

bounded='head -c'
printf x | head -c 1 >/dev/null 2>&1 || bounded='cat #'
wanted=$(cat)
rsync_there
part encoding
printf '%s' "${encoding:?is not set}"
part space
df -Pk . 2>/dev/null
part listing
{
  eval "$wanted"
  printf 'end\000%s\000' "$status"
} | eval "$bounded $limit"
if [ "$content" -gt 0 ] && [ "$bounded" = 'head -c' ]; then
  want() { # PATH...
    for path; do
      shift
      if [ -e "$path" ] && [ ! -h "$path" ]; then set -- "$@" "$path"; fi
    done
    [ "$#" = 0 ] || $packer "$@" 2>/dev/null
  }
  part content
  eval "$wanted" | head -c "$content" | $encoder
fi
part end
