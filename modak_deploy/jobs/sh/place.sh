# shellcheck shell=sh
# place DIR NEW PATH MODE: put the file NEW, that came alone, at PATH; both below DIR.

dir=$1 new=$2 path=$3 mode=$4
# A controller at the same time may have been faster: then it is the digest that tells.
[ ! -f "$dir/$new" ] && [ -f "$dir/$path" ] ||
  { chmod "$mode" "$dir/$new" && mkdir -p "$dir/${path%/*}" && mv -f "$dir/$new" "$dir/$path" &&
    durable "$dir/$path" "$dir/${path%/*}"; } ||
  fail "$dir/$path cannot be put in place"
part files
digest "$dir/$path" "$path"
part end
