/* An OpenMP program that is fastest with 4 threads, on any node: a step has a part that threads share and a part that they
   do one after the other. Both are pauses, so that a busy node changes nothing. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int steps = argc > 1 ? atoi(argv[1]) : 50, threads = 0;
  for (int step = 1; step <= steps; step++) {
#pragma omp parallel
    {
      usleep(200000 / omp_get_num_threads());
#pragma omp critical
      usleep(12000);
#pragma omp single
      threads = omp_get_num_threads();
    }
    printf("step %d\n", step);
  }
  printf("%d threads\n", threads);
  return 0;
}
