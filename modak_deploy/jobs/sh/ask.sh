# shellcheck shell=sh
# ask COMMAND: run it with this step's standard input, and keep what it prints apart from what a site's start-up files
# print.

part out
sh -c "$1"
code=$?
part code
printf '%d' "$code"
part end
