# shellcheck shell=sh
# What packs files, and turns bytes into text that every connection carries unchanged; the name of the encoding is a
# part's name.

if command -v base64 >/dev/null 2>&1; then
  encoding=base64 encoder=base64
elif command -v openssl >/dev/null 2>&1; then
  encoding=base64 encoder='openssl base64'
else
  encoding=hex encoder='od -An -v -tx1'
fi

# GNU tar reads \n and the like in the names that it is given as escapes ("File Name Quoting" in its manual).
packer='tar --no-unquote -cf -'
tar --no-unquote --help >/dev/null 2>&1 || packer='tar -cf -'
