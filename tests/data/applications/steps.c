/* Steps that all ranks do together; the environment variable PAUSE gives the milliseconds of each. Rank DEAF hangs in
   the first step and ignores SIGTERM. The first rank prints the steps. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int rank, size, sum;
  const char *text = getenv("PAUSE"), *deaf = getenv("DEAF");
  long pause = text ? atol(text) : 300;
  int steps = argc > 1 ? atoi(argv[1]) : 12;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (deaf && rank == atoi(deaf)) {
    signal(SIGTERM, SIG_IGN);
    for (;;) sleep(1);
  }
  for (int step = 1; step <= steps; step++) {
    usleep(1000 * pause);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("step %d loss=%d\n", step, sum);
  }
  char host[256];
  gethostname(host, sizeof host);
  printf("rank %d of %d pause %ld on %s\n", rank, size, pause, host);
  MPI_Finalize();
  return 0;
}
