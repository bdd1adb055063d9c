# shellcheck shell=sh
# Shared by the searches for a tag: reads what qstat -f printed and prints the ids of the jobs that have it among their
# variables. Lines that qstat has folded go on after a tab.

tagged() { # TAG
  awk -v tag="MODAK_TAG=$1" '
    function look() { if (index(line, "    Variable_List = ") == 1 && index(line, tag)) print id }
    /^\t/ { line = line substr($0, 2); next }
    { look(); line = $0 }
    /^Job Id:/ { id = $3 }
    END { look() }'
}
