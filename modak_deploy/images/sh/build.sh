# shellcheck shell=sh
# build IMAGES TOOL SQUASH ROOM PLAIN [STEM ENTRY DIGEST]...: builds these images in their order, each from the folder
# of its name and, but for the first, on the one before. One that is there already is left as it is. ROOM is the
# number of bytes that must be free; PLAIN is 1 where the first one's registry is on this machine and may speak HTTP.

umask 022
store_open "$1" # which may let the group in, too
tool=$2 squash=$3 room=$4 plain=$5
shift 5
command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on this machine's PATH"
store_work
# What compilers keep from one build to the next; the definitions look for the mark.
if ! mkdir -p "$images/.cache" || ! touch "$images/.cache/modak-cache"; then
  fail "the image folder $images cannot be written"
fi
case $tool in
apptainer | singularity)
  store_unpack
  [ "$plain" != 1 ] || export APPTAINER_NOHTTPS=1 SINGULARITY_NOHTTPS=1 ;;
esac

has() { # STEM ENTRY DIGEST
  case $tool in
  apptainer | singularity) store_has "$1.sif" ;;
  *) "$tool" image inspect "$(tag_of "$2" "$3")" >/dev/null 2>&1 ;;
  esac
}

tag_of() { # ENTRY DIGEST
  short=${2#sha256:}
  printf 'localhost/modak/%s:%.16s' "$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]')" "$short"
}

make_one() { # STEM ENTRY DIGEST, in the folder of the definition
  case $tool in
  apptainer | singularity)
    set -- "$tool" build --force --fakeroot --bind "$images/.cache:/mnt" ${squash:+--mksquashfs-args "$squash"} \
      "$work/new" image.def ;;
  podman) set -- podman build --squash --volume "$images/.cache:/mnt" --tag "$(tag_of "$2" "$3")" \
    --tls-verify="$([ "$plain" = 1 ] && echo false || echo true)" --file Containerfile . ;;
  *) set -- "$tool" build --tag "$(tag_of "$2" "$3")" --file Containerfile . ;;
  esac
  "$@" </dev/null 9>&- # what a killed build leaves running has no part in the lock
}

previous=
while [ "$#" -ge 3 ]; do
  if has "$1" "$2" "$3"; then
    echo "the image $2 is there already"
  else
    lock_take "$images/.locks/$1"
    if ! has "$1" "$2" "$3"; then
      store_room "$room"
      echo "building the image $2"
      chmod -R a+rX "$1" # the files of a job are its owner's alone; in the image they are everybody's
      [ -z "$previous" ] || [ ! -f "$images/$previous.sif" ] || ln -sf "$images/$previous.sif" "$1/$previous.sif"
      (cd "$1" && make_one "$1" "$2" "$3") || fail "the image $2 was not built: $tool ended with exit code $?"
      case $tool in
      apptainer | singularity)
        store_put "$work/new" "$1.sif" "build://$2" "$3" "$("$tool" --version 2>&1 | head -n 1)" ;;
      esac
    fi
    lock_drop
  fi
  touch "$images/.used/$1.sif"
  previous=$1
  shift 3
done
echo "the images are there"
