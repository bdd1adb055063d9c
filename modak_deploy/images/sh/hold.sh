# shellcheck shell=sh
# hold IMAGES FILE HOLDER: says that the job in HOLDER needs FILE, and what FILE is where it is there.

[ -d "$1" ] || { part end && exit 0; }
# A folder that somebody else keeps may be read-only: what lies there is used, and nobody here could remove it.
if [ ! -w "$1" ] && [ -f "$1/$2" ] && [ -f "$1/$2.info" ]; then
  part info
  cat "$1/$2.info"
  part end
  exit 0
fi
store_open "$1"
store_hold "$2" "$3"
if store_has "$2"; then
  part info
  cat "$images/$2.info"
fi
part end
