# shellcheck shell=sh
# push TOOL SOURCE REFERENCE PLAIN: sends an image file, or an image of podman's or docker's store, to a registry.
# Standard input: registry, user and password, a line each, or nothing.

tool=$1 source=$2 reference=$3 plain=$4
command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on this machine's PATH"
store_login "$tool"
case $tool in
apptainer | singularity)
  [ -f "$source" ] || fail "the image $source is not there"
  "$tool" push "$source" "$reference" >"$work/log" 2>&1 </dev/null || {
    [ "$plain" = 1 ] && APPTAINER_NOHTTPS=1 SINGULARITY_NOHTTPS=1 "$tool" push "$source" "$reference" >"$work/log" 2>&1 </dev/null
  } ;;
*)
  name=${reference#docker://}
  "$tool" tag "$source" "$name" >"$work/log" 2>&1 || fail "the image $source is not in $tool's store"
  "$tool" push "$name" >"$work/log" 2>&1 </dev/null || {
    [ "$plain" = 1 ] && [ "$tool" = podman ] && podman push --tls-verify=false "$name" >"$work/log" 2>&1 </dev/null
  } ;;
esac || fail "the image $source was not pushed to $reference: $(store_why "$work/log")"
part end
