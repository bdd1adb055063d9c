# shellcheck shell=sh
# collect IMAGES DAYS DRY: removes images that nobody used for DAYS days and that no queued or running job needs, and
# what killed builds and pulls left. A file without a record is not modak's and stays. With DRY=1 only says so. Prints lines:
# removed or kept, bytes, file, reason.

images=$1 days=$2 dry=$3
[ -d "$images" ] || { part end && exit 0; }
store_open "$images"
store_work

recent() { # FILE
  mark=$images/.used/$1
  [ -e "$mark" ] || mark=$images/$1
  [ "$days" -gt 0 ] && [ -z "$(find "$mark" -prune -mtime "+$((days - 1))" 2>/dev/null)" ]
}

part files
for path in "$images"/*.sif "$images"/*.sqfs; do
  [ -f "$path" ] || continue
  file=${path##*/}
  size=$(wc -c <"$path")
  if [ ! -f "$path.info" ]; then
    printf 'kept\t%d\t%s\tmodak did not bring it\n' "$size" "$file"
    continue
  fi
  if recent "$file"; then
    printf 'kept\t%d\t%s\tused within %d days\n' "$size" "$file" "$days"
    continue
  fi
  lock_take "$images/.locks/$file"
  holder=$(store_needed "$file" "$days")
  if [ -z "$holder" ] && [ "$dry" != 1 ]; then
    # Out of sight first: whoever needs it from now on says so and waits for the lock, and then gets it back.
    mv "$path" "$work/$file" || fail "$path cannot be removed"
    holder=$(store_needed "$file" "$days")
    if [ -n "$holder" ]; then mv "$work/$file" "$path"; else rm -f "$work/$file" "$path.info" "$images/.used/$file"; fi
  fi
  if [ -n "$holder" ]; then
    printf 'kept\t%d\t%s\tneeded by %s\n' "$size" "$file" "$holder"
  else
    printf 'removed\t%d\t%s\tnot used for %d days\n' "$size" "$file" "$days"
  fi
  lock_drop
done
work_list "$dry"
part end
