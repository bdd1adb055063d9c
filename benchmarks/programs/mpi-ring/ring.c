/* A wave on a ring that is spread over the ranks; the ends are exchanged at every step.
 *     mpicc -O3 -march=native -o ring ring.c -lm
 *     mpirun -n 2 ./ring STEPS [POINTS]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long steps = argc > 1 ? atol(argv[1]) : 100, n = (argc > 2 ? atol(argv[2]) : 4000000) / ranks;
    double *u = malloc((n + 2) * sizeof *u), *v = calloc(n + 2, sizeof *v), *times = malloc(steps * sizeof *times);
    if (!u || !v || !times || steps < 1 || n < 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < n + 2; i++)
        u[i] = sin(6.283185307179586 * (rank * n + i) / (n * ranks));
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    double begin = MPI_Wtime(), energy = 0;
    for (long step = 0; step < steps; step++) {
        double start = MPI_Wtime(), own = 0;
        MPI_Sendrecv(u + 1, 1, MPI_DOUBLE, left, 0, u + n + 1, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + n, 1, MPI_DOUBLE, right, 1, u, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (long i = 1; i <= n; i++)
            v[i] += 0.1 * (u[i - 1] - 2 * u[i] + u[i + 1]);
        for (long i = 1; i <= n; i++) {
            u[i] += v[i];
            own += u[i] * u[i];
        }
        MPI_Allreduce(&own, &energy, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        times[step] = MPI_Wtime() - start;
        if (rank == 0) {
            printf("step %ld energy=%.6e\n", step + 1, energy);
            fflush(stdout);
        }
    }
    if (rank == 0) {
        double seconds = MPI_Wtime() - begin;
        long from = steps * 2 / 3, count = steps - from;
        qsort(times + from, count, sizeof *times, compare);
        FILE *metrics = fopen("metrics.json", "w");
        if (!metrics)
            MPI_Abort(MPI_COMM_WORLD, 1);
        fprintf(metrics, "{\"seconds\": %.6f, \"steady\": %.9f, \"result\": %.9e}\n", seconds, times[from + count / 2], energy);
        fclose(metrics);
    }
    MPI_Finalize();
    return 0;
}
