# shellcheck shell=bash
# MariaDB without a network: its socket is in /os, and it need not survive a power failure.
start_database() {
  local round
  mariadbd --no-defaults --user=mysql --datadir=/os/mysql --socket=/os/mysql/socket --pid-file=/os/mysql/pid --skip-networking \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --performance-schema=OFF \
    --max-connections=500 >log/mysql.out 2>&1 </dev/null &
  DATABASE=$!
  for round in $(seq 300); do
    ! mariadb-admin --socket=/os/mysql/socket ping >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  echo "MariaDB does not answer (round $round)" >&2
  return 1
}

end_database() {
  mariadb-admin --socket=/os/mysql/socket shutdown
  wait "$DATABASE"
}
