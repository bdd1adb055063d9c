# shellcheck shell=sh
# pull IMAGES FILE TOOL REFERENCE DIGEST SHA256 BYTES HOLDER PLAIN SQUASH STALL: brings REFERENCE to IMAGES/FILE, once.
# BYTES is the room that it takes on the way; SHA256 the file's hash, empty where it is known only afterwards;
# PLAIN is 1 for a registry on this machine, which may speak HTTP; STALL seconds without progress end it. Standard input: user and password, a line each.

store_open "$1"
file=$2 tool=$3 reference=$4 digest=$5 wanted=$6 bytes=$7 holder=$8 plain=$9
shift 9
squash=$1 watch_limit=$2
if ! IFS= read -r user || ! IFS= read -r password; then user='' password=''; fi

attempt() { # COMMAND...: the registry's own scheme first; what is said goes to a log
  if watched "$work/log" "$@"; then return 0; fi
  [ "$plain" = 1 ] && watched "$work/log.plain" env APPTAINER_NOHTTPS=1 SINGULARITY_NOHTTPS=1 "$@" && return 0
  # The attempt over plain HTTP says more, unless HTTP was not what the registry speaks.
  if [ -s "$work/log.plain" ] && ! grep -q 'HTTP request to an HTTPS server' "$work/log.plain"; then
    mv "$work/log.plain" "$work/log"
  fi
  return 1
}

download_apptainer() {
  store_unpack
  [ -z "$user" ] || store_login_apptainer
  case $reference in
  docker://*)
    if [ -n "$squash" ]; then
      attempt "$tool" build --force --mksquashfs-args "$squash" "$work/new" "$reference"
    else
      attempt "$tool" build --force "$work/new" "$reference"
    fi ;;
  library://*)
    rest=${reference#library://} scheme=https
    [ "$plain" != 1 ] || scheme=http
    server=$scheme://${rest%%/*}
    # Apptainer pulls from no library while it knows of none, even where it is told which.
    export APPTAINER_CONFIGDIR="$work/settings"
    mkdir -m 700 "$work/settings"
    printf 'Active: library\nRemotes:\n  library:\n    URI: %s\n    Keyservers: [{URI: "%s", External: true}]\n' \
      "${rest%%/*}" "$server" >"$work/settings/remote.yaml"
    attempt "$tool" pull --force --library "$server" "$work/new" "library://${rest#*/}" ;;
  *) attempt "$tool" pull --force "$work/new" "$reference" ;;
  esac
}

# ch-image is '#!/usr/bin/env python3': a virtual environment first in PATH has not the packages that it needs.
without_environments() { # takes them out of PATH, unless ch-image itself is there
  path='' ifs=$IFS
  IFS=:
  for dir in $PATH; do
    if [ -x "$dir/ch-image" ] || [ ! -e "$dir/../pyvenv.cfg" ]; then path=$path${path:+:}$dir; fi
  done
  IFS=$ifs
  PATH=$path
  unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
}

download_charliecloud() {
  without_environments
  export CH_IMAGE_STORAGE="$work/store" CH_IMAGE_CACHE=disabled TMPDIR="$work"
  [ -z "$user" ] || export CH_IMAGE_USERNAME="$user" CH_IMAGE_PASSWORD="$password" CH_IMAGE_AUTH=yes
  # gzip's first level takes a fifth of the time of its last, for a tenth more room.
  # shellcheck disable=SC2086 # arguments, and not one argument
  attempt ch-image pull "${reference#docker://}" &&
    attempt ch-convert --in-fmt ch-image --out-fmt dir "${reference#docker://}" "$work/tree" &&
    attempt mksquashfs "$work/tree" "$work/new" -noappend -no-progress -all-root ${squash:--Xcompression-level 1}
}

started=$(date +%s)
# Said before looking: whoever tidies up at this moment looks at it before and after taking the file away.
store_hold "$file" "$holder"
if ! store_has "$file"; then
  store_work
  lock_take "$images/.locks/$file"
fi
if store_has "$file"; then
  part pulled
else
  store_room "$bytes"
  command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on this machine's PATH"
  case $tool in ch-image) download_charliecloud ;; *) download_apptainer ;; esac ||
    fail "the image $reference was not pulled: $(store_why "$work/log")"
  sum=$(sum_of "$work/new")
  [ -z "$wanted" ] || [ "${sum%% *}" = "$wanted" ] ||
    fail "the image $reference is not what its registry says it is: its hash is ${sum%% *} and should be $wanted"
  store_put "$work/new" "$file" "$reference" "$digest" "$("$tool" --version 2>&1 | head -n 1)"
  part pulled
  printf '%d' $(($(date +%s) - started))
fi
part info
cat "$images/$file.info"
part end
