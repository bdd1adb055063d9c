# shellcheck shell=sh
# The image folder: FILE and FILE.info, put there by renaming; .locks, .work, .used and .holders beside them.

store_open() { # IMAGES
  images=$1
  store_error=$(mkdir -p "$images" 2>&1) || fail "the image folder $images cannot be made: ${store_error##*: }"
  [ -z "$(find "$images/" -prune -perm -2020 2>/dev/null)" ] || umask 002 # all in a group's folder is the group's
  store_error=$(mkdir -p "$images/.locks" "$images/.work" "$images/.used" "$images/.holders" 2>&1) ||
    fail "the image folder $images cannot be made: ${store_error##*: }"
  images=$(cd "$images" && pwd) # tools that change the folder get it too
}

tmp=
store_work() { # sets work, a folder of our own that is removed at the end, with the lock
  work=$(mktemp -d "$images/.work/XXXXXXXX") || fail "the image folder $images cannot be written"
  work_own
  trap store_end EXIT
  trap 'store_end; exit 129' HUP
  trap 'store_end; exit 130' INT
  trap 'store_end; exit 143' TERM
}

# Images are unpacked beside the others, or where the site says so: not every shared file system can hold them.
store_unpack() {
  disk=${APPTAINER_TMPDIR:-${SINGULARITY_TMPDIR:-}}
  if [ -n "$disk" ]; then
    tmp=$(mktemp -d "$disk/modak.XXXXXXXX" 2>/dev/null) || fail "APPTAINER_TMPDIR names $disk, where no folder can be made"
  fi
  export APPTAINER_TMPDIR="${tmp:-$work}" SINGULARITY_TMPDIR="${tmp:-$work}"
  export APPTAINER_CACHEDIR="$work/cache" SINGULARITY_CACHEDIR="$work/cache"
}

store_end() { # whole, even where a signal comes while the shell is ending: that would cut the trap of EXIT short
  trap '' HUP INT TERM
  [ -z "${watch_tool:-}" ] || kill "$watch_tool" 2>/dev/null
  [ -z "${watch_beat:-}" ] || kill "$watch_beat" 2>/dev/null
  [ -z "${work_beat:-}" ] || kill "$work_beat" 2>/dev/null
  lock_drop
  chmod -R u+rwX "$work" ${tmp:+"$tmp"} 2>/dev/null
  rm -rf "$work" ${tmp:+"$tmp"}
}

store_login() { # TOOL: sets work, a private folder; standard input: registry, user and password, a line each, or nothing
  umask 077
  work=$(mktemp -d "${TMPDIR:-/tmp}/modak.XXXXXXXX") || fail "no temporary folder can be made"
  trap '[ -z "${watch_tool:-}" ] || kill "$watch_tool" "$watch_beat" 2>/dev/null; rm -rf "$work" ${tmp:+"$tmp"}' EXIT
  if ! IFS= read -r registry || ! IFS= read -r user || ! IFS= read -r password; then return 0; fi
  case $1 in
  apptainer | singularity) store_login_apptainer ;;
  *)
    printf '{"auths":{"%s":{"auth":"%s"}}}' "$registry" "$(printf '%s:%s' "$user" "$password" | base64 | tr -d '\n')" \
      >"$work/config.json"
    export REGISTRY_AUTH_FILE="$work/config.json"
    [ "$1" != docker ] || export DOCKER_CONFIG="$work" ;;
  esac
}

store_login_apptainer() { # with user and password
  export APPTAINER_DOCKER_USERNAME="$user" APPTAINER_DOCKER_PASSWORD="$password"
  export SINGULARITY_DOCKER_USERNAME="$user" SINGULARITY_DOCKER_PASSWORD="$password"
}

store_has() { [ -f "$images/$1" ] && [ -f "$images/$1.info" ]; }

store_hold() { # FILE DIRECTORY: the job in DIRECTORY needs FILE
  touch "$images/.used/$1" 2>/dev/null
  [ -n "$2" ] || return 0
  if ! mkdir -p "$images/.holders/$1" || ! printf '%s\n' "$2" >"$images/.holders/$1/${2##*/}"; then
    fail "the image folder $images cannot be written"
  fi
}

store_room() { # BYTES: is there room for so many?
  free=$(df -Pk "$images" | awk 'NR == 2 { print $4 }')
  [ "$(($1 / 1024))" -le "${free:-0}" ] ||
    fail "$images has $((${free:-0} / 1024)) MB free, and $(($1 / 1048576)) MB are needed for the image"
}

store_put() { # NEW FILE REFERENCE DIGEST TOOL: NEW becomes FILE, for good
  sum=$(sum_of "$1") || fail "$1 cannot be read"
  {
    printf 'reference=%s\ndigest=%s\nsha256=%s\nsize=%d\n' "$3" "$4" "${sum%% *}" "$(wc -c <"$1")"
    printf 'made=%s\ntool=%s\n' "$(date +%s)" "$5"
  } >"$work/info" || fail "$images is full"
  chmod a-w "$1"
  # On disk before it has its name: nothing else looks into an image that is there, and one of zeros would stay.
  durable "$1" "$work/info" || fail "$images is full"
  lock_held || fail "another process took over from this one, which had been silent for too long"
  if ! mv -f "$work/info" "$images/$2.info" || ! mv -f "$1" "$images/$2"; then fail "$images/$2 cannot be put in place"; fi
  durable "$images"
  touch "$images/.used/$2"
}

store_line() { # prints standard input as one line that a terminal takes for nothing else
  tr -s '[:space:]' ' ' | tr -d '[:cntrl:]' | cut -c1-400
}

store_why() { # LOG: the sentence of a tool that failed
  if grep -qi 'no space left on device\|disk quota exceeded' "$1"; then
    # Its end: who reads it shortens long messages in their middle, and paths of temporary files make this one long.
    why=$(grep -i 'no space left on device\|disk quota exceeded' "$1" | tail -n 1 | store_line)
    printf 'there is no space left for it: %s\n' "$(printf '%s\n' "$why" | awk '{ print substr($0, length($0) - 119) }')"
  elif grep -q 'WRONG_VERSION_NUMBER\|wrong version number\|RECORD_LAYER_FAILURE\|record layer failure' "$1"; then
    echo "ch-image speaks https only, and the registry speaks plain http: pull with apptainer or podman, or give the registry a certificate"
  else
    why=$(sed -n -e 's/^.*FATAL: *//p' -e 's/^Error: *//p' -e 's/^error: *//p' "$1" | tail -n 1)
    [ -n "$why" ] || why=$(grep . "$1" | tail -n 1)
    printf '%s\n' "$why" | store_line
  fi
}

store_needed() { # FILE DAYS: prints the folder of a job that needs FILE and has not ended
  for record in "$images/.holders/$1"/*; do
    [ -f "$record" ] || continue
    dir=$(cat "$record")
    [ -d "$dir" ] || { rm -f "$record" && continue; }
    [ ! -f "$dir/state/exit" ] || continue
    # The tasks of an array end one by one.
    if [ -z "$(find "$dir/state" -name 'exit.*' 2>/dev/null | head -n 1)" ] ||
      [ -n "$(find "$dir/state" -prune -mtime "-$2" 2>/dev/null)" ]; then
      printf '%s' "$dir"
      return
    fi
  done
}
