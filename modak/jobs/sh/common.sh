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

records() { # DIR: the job's records, as far as they are there
  ls "$1/state" >/dev/null 2>&1 # asking for the listing makes NFS look again
  for record in "$1"/state/tag "$1"/state/attempt "$1"/state/intent "$1"/state/id "$1"/state/refused \
    "$1"/state/start "$1"/state/start.* "$1"/state/exit "$1"/state/exit.*; do
    [ ! -f "$record" ] || { part "${record##*/}" && cat "$record"; }
  done
}

if command -v sha256sum >/dev/null 2>&1; then
  sum_of() { sha256sum <"$1"; }
elif command -v shasum >/dev/null 2>&1; then
  sum_of() { shasum -a 256 <"$1"; }
elif command -v openssl >/dev/null 2>&1; then
  sum_of() { openssl dgst -sha256 -r <"$1"; }
elif command -v sha256 >/dev/null 2>&1; then
  sum_of() { sha256 -q <"$1"; }
else
  sum_of() { cksum <"$1" | sed 's/^\([0-9]*\) \([0-9]*\).*/cksum:\1:\2/'; }
fi

digest() { # FILE NAME: one line with the file's digest, its size and its name
  sum=$(sum_of "$1") || fail "$1 cannot be read"
  size=$(wc -c <"$1") || fail "$1 cannot be read"
  printf '%s %d %s\n' "${sum%% *}" "$size" "$2"
}
