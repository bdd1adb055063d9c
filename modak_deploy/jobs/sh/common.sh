# shellcheck shell=sh
# Shared by all steps: one step is one round trip. Its answer is a list of parts, each after a line that only this
# answer has ($boundary), so that nothing a file or a site's start-up script prints can be taken for a part.

boundary=${boundary:?is not set}

part() { printf '\n%s %s\n' "$boundary" "$1"; }

fail() { # SENTENCE
  printf '%s %s\n' "$boundary" "$*" >&2
  exit 1
}

rsync_there() { ! command -v rsync >/dev/null 2>&1 || part rsync; } # large files may travel by it

# --- records that outlast a power loss and a full disk ---

sync_kind=${modak_sync_kind:-} # "files" or "all", once it has been tried; several.sh tries for all of its steps

sync_files() { # does sync take files? It does from coreutils 8.24 on and in BusyBox; an older one flushes everything.
  [ -n "$sync_kind" ] || { sync . 2>/dev/null && sync_kind=files; } || sync_kind=all
  [ "$sync_kind" = files ]
}

durable() { # FILE...: what was written to these files and folders outlasts a power loss; fails where the disk is full
  command -v sync >/dev/null 2>&1 || return 0
  if sync_files; then sync "$@"; else sync; fi
}

durable_below() { # FOLDER...: the same for all files and folders in them
  command -v sync >/dev/null 2>&1 || return 0
  if ! sync_files; then
    sync
  elif [ -n "$(find "$@" -type f | sed -n 100p)" ] && sync -f "$1" 2>/dev/null; then
    return 0 # a hundred files or more: all of the file system at once
  else
    find "$@" \( -type f -o -type d \) -exec sync {} +
  fi
}

# A record has one size, and so it is written over room that was reserved for it without a byte more on disk: that
# works on a full disk and with a quota that is used up. (A file system that writes each change to a new place, as ZFS
# and btrfs do, may still refuse; then no application is started without its record.)
fill() { # FILE TEXT: in place
  printf '%-1023s\n' "$2" 1<>"$1"
}

reserve() { # FILE...: room for a record in each
  for file; do
    [ -s "$file" ] || fill "$file" '' || return 1
  done
}

has_text() { # FILE: has the reserved room been written to?
  first_line=
  [ -f "$1" ] || return 1 # the job may have put a FIFO there, which holds whoever opens it
  { read -r first_line <"$1"; } 2>/dev/null
  [ -n "$first_line" ]
}

is_past() { # DIR RECORD: has a job of an attempt that was put aside written it? See again.sh for state/attempt.
  [ -f "$1/state/attempt" ] && [ -f "$2" ] || return 1
  past_job=$(sed -n -e 's/ *$//' -e 's/^job=//p' "$2")
  past_number=${past_job%%[!0-9]*}
  [ -n "$past_number" ] || return 1
  sed 1d "$1/state/attempt" | {
    while read -r past_id; do
      # A process id may be in use again: then the time at which the process started counts, which is behind it.
      case ${past_job#"$past_number"}:${past_id#"${past_id%%[!0-9]*}"} in
      -*:-*) [ "$past_job" != "$past_id" ] || exit 0 ;;
      *) [ "$past_number" != "${past_id%%[!0-9]*}" ] || exit 0 ;;
      esac
    done
    exit 1
  }
}

begun() { # DIR: has a job begun or ended there, by its own word? An empty record is one whose content was lost.
  for record in "$1"/state/start "$1"/state/start.* "$1"/state/run "$1"/state/run.* \
    "$1"/state/exit "$1"/state/exit.* "$1"/state/reserved.exit*; do
    case $record in
    */reserved.*) ! has_text "$record" || is_past "$1" "$record" || return 0 ;;
    *) { [ ! -e "$record" ] && [ ! -h "$record" ]; } || is_past "$1" "$record" || return 0 ;;
    esac
  done
  return 1
}

records_of() { # FILE...: one process for all of them
  LC_ALL=C awk -v boundary="$boundary" '
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/^reserved[.]/, "", name); printf "\n%s %s\n", boundary, name }
    { sub(/ *$/, ""); print }
  ' "$@"
}

records() { # DIR: the job's records, as far as they are there
  set -- "$1"
  ls "$1/state" >/dev/null 2>&1 # asking for the listing makes NFS look again
  for record in "$1"/state/tag "$1"/state/attempt "$1"/state/intent "$1"/state/id "$1"/state/refused \
    "$1"/state/start "$1"/state/start.* "$1"/state/run "$1"/state/run.* \
    "$1"/state/exit "$1"/state/exit.* "$1"/state/reserved.exit*; do
    record_name=${record##*/}
    case $record_name in
    reserved.*) # an end that was written down, and then the power failed before it was put in place
      record_name=${record_name#reserved.}
      has_text "$record" && ! has_text "$1/state/$record_name" || continue ;;
    esac
    if [ -s "$record" ]; then
      set -- "$@" "$record"
    elif [ -f "$record" ]; then
      part "$record_name" # its content was lost
    fi
  done
  shift
  # mawk 1.3.4 ends at a file that has gone meanwhile: then each is read by itself. The last part of a name counts.
  [ "$#" = 0 ] || records_of "$@" 2>/dev/null || for record; do
    record_name=${record##*/}
    [ ! -f "$record" ] || { part "${record_name#reserved.}" && sed 's/ *$//' "$record"; }
  done
}

# FILE, in $( ): 'exec' saves a process for each file.
if command -v sha256sum >/dev/null 2>&1; then
  sum_of() { exec sha256sum <"$1"; }
elif command -v shasum >/dev/null 2>&1; then
  sum_of() { exec shasum -a 256 <"$1"; }
elif command -v openssl >/dev/null 2>&1; then
  sum_of() { exec openssl dgst -sha256 -r <"$1"; }
elif command -v sha256 >/dev/null 2>&1; then
  sum_of() { exec sha256 -q <"$1"; }
else
  sum_of() { cksum <"$1" | sed 's/^\([0-9]*\) \([0-9]*\).*/cksum:\1:\2/'; }
fi

digest() { # FILE NAME: one line with the file's digest, its size and its name; $digest_line is that line
  sum=$(sum_of "$1") || fail "$1 cannot be read"
  size=$(wc -c <"$1") || fail "$1 cannot be read"
  digest_line="${sum%% *} $((size)) $2"
  printf '%s\n' "$digest_line"
}
