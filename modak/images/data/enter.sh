# Enters a container with the chosen part of the environment, once per rank.
# Arguments: how the runtime takes variables, an awk pattern of the names that pass, the command.
# The names are known only here: a launcher gives each rank its own PMI variables.
how=$1 pattern=$2
shift 2
names() { # 1: the variables that pass; 0: all others
  awk 'BEGIN { for (name in ENVIRON)
    if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && (name ~ ARGV[2]) == ARGV[1]) print name }' "$1" "$pattern"
}
case $how in
  APPTAINERENV_ | SINGULARITYENV_)
    # Values are data: without this a container made from an OCI image expands $(...) in them.
    export "${how%ENV_}_NO_EVAL=1"
    for name in $(names 1); do eval "export $how$name=\"\$$name\""; done ;;
  --env)
    first=$1 second=$2
    shift 2
    for name in $(names 1); do set -- --env "$name" "$@"; done
    [ "$first" != docker ] || set -- --user "$(id -u):$(id -g)" "$@"
    set -- "$first" "$second" "$@" ;;
  unset)
    for name in $(names 0); do
      case $name in PATH | HOME | USER | PWD | TMPDIR) ;; *) unset "$name" ;; esac
    done ;;
esac
exec "$@"
