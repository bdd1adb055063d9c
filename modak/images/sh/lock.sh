# shellcheck shell=sh
# A lock is a folder with one file in it, whose name says who holds it and to which the holder adds a line every few
# seconds. It works on shared file systems, needs no clock that agrees with another, and can be taken over from a
# holder that is gone: renaming the file succeeds for one process only.

lock='' lock_beat=''
lock_token=${lock_token:-$(uname -n)-$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc '0-9'):$(id -u):$$}
lock_patience=${lock_patience:-60} # seconds without a sign of life after which a holder is taken for gone

lock_gone() { # HOLDER: was it a process of ours on this machine that is no more?
  [ -n "$1" ] && [ "${1%:*}" = "${lock_token%:*}" ] && ! kill -0 "${1##*:}" 2>/dev/null
}

lock_look() { # sets lock_holder and lock_sign; the sign changes as long as the holder lives
  lock_holder=
  for lock_file in "$lock"/*; do [ ! -f "$lock_file" ] || lock_holder=${lock_file##*/}; done
  lock_sign=$lock_holder:$(wc -c 2>/dev/null <"$lock/${lock_holder:-.}")
}

lock_take() { # FOLDER
  lock=$1
  lock_last='' lock_quiet=0 lock_missing=0
  while :; do
    if lock_error=$(mkdir "$lock" 2>&1); then
      : >"$lock/$lock_token" 2>/dev/null && break
      continue # Somebody took the empty folder for an abandoned one.
    fi
    if [ ! -d "$lock" ]; then # given back at this moment, unless it goes on like this
      lock_missing=$((lock_missing + 1))
      [ "$lock_missing" -lt 5 ] || fail "the image folder ${lock%/.locks/*} cannot be written: ${lock_error##*: }"
      continue
    fi
    lock_missing=0
    lock_look
    if [ "$lock_sign" = "$lock_last" ]; then lock_quiet=$((lock_quiet + 1)); else lock_quiet=0 lock_last=$lock_sign; fi
    if lock_gone "$lock_holder" || [ "$lock_quiet" -ge "$lock_patience" ]; then
      lock_quiet=0
      if [ -z "$lock_holder" ]; then
        rmdir "$lock" 2>/dev/null
      elif mv "$lock/$lock_holder" "$lock/$lock_token" 2>/dev/null; then
        break
      fi
      continue
    fi
    sleep 1
  done
  (while sleep 5 && kill -0 $$ 2>/dev/null && [ -f "$lock/$lock_token" ]; do echo >>"$lock/$lock_token"; done) \
    >/dev/null 2>&1 </dev/null &
  lock_beat=$!
}

lock_held() { [ -f "$lock/$lock_token" ]; }

lock_drop() {
  [ -n "$lock" ] || return 0
  [ -z "$lock_beat" ] || kill "$lock_beat" 2>/dev/null
  rm -f "$lock/$lock_token"
  rmdir "$lock" 2>/dev/null
  lock='' lock_beat=''
}
