#!/usr/bin/env bash
# Installs the programs that unit tests try and that a bare system lacks: rsync, and shells that users log in with.
# Without them those tests are skipped.
set -euo pipefail
NAME=programs
PROGRAMS="rsync zsh ksh csh tcsh fish busybox"
PACKAGES=(rsync zsh ksh csh tcsh fish busybox)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ -z "$(missing_programs)" ] || need_root
install_packages
