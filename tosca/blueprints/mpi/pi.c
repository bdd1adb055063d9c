/* Compute pi by the midpoint rule on all ranks; rank 0 writes metrics.json. Usage: pi [STEPS] */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    long steps = argc > 1 ? atol(argv[1]) : 100000000L;
    double sum = 0.0, pi = 0.0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);

    double start = MPI_Wtime();
    for (long i = rank; i < steps; i += ranks) {
        double x = (i + 0.5) / steps;
        sum += 4.0 / (1.0 + x * x);
    }
    sum /= steps;
    MPI_Reduce(&sum, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    printf("rank %d of %d on %s\n", rank, ranks, name);

    if (rank == 0) {
        FILE *file = fopen("metrics.json", "w");
        if (file == NULL) {
            perror("metrics.json");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        fprintf(file, "{\"pi\": %.15f, \"error\": %.3e, \"ranks\": %d, \"steps\": %ld, \"seconds\": %.4f}\n",
                pi, fabs(pi - acos(-1.0)), ranks, steps, seconds);
        fclose(file);
    }
    MPI_Finalize();
    return 0;
}
