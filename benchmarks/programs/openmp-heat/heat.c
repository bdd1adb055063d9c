/* Heat in a plate by Jacobi's method with OpenMP; a new grid is allocated for every sweep.
 *     cc -O3 -march=native -fopenmp -o heat heat.c -lm
 *     ./heat STEPS [SIZE]
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 100, n = argc > 2 ? atol(argv[2]) : 2000;
    double residual = 0, begin = omp_get_wtime();
    double *old = calloc(n * n, sizeof *old), *times = malloc(steps * sizeof *times);
    if (!old || !times || steps < 1 || n < 3)
        return 1;
    for (long i = 0; i < n; i++)
        old[i] = 1;
    for (long step = 0; step < steps; step++) {
        double start = omp_get_wtime(), *new = malloc(n * n * sizeof *new);
        if (!new)
            return 1;
        residual = 0;
        memcpy(new, old, n * sizeof *new);
        memcpy(new + (n - 1) * n, old + (n - 1) * n, n * sizeof *new);
#pragma omp parallel for reduction(+ : residual)
        for (long i = 1; i < n - 1; i++) {
            new[i * n] = old[i * n];
            new[i * n + n - 1] = old[i * n + n - 1];
            for (long j = 1; j < n - 1; j++) {
                double value = 0.25 * (old[(i - 1) * n + j] + old[(i + 1) * n + j] + old[i * n + j - 1] + old[i * n + j + 1]);
                double change = value - old[i * n + j];
                new[i * n + j] = value;
                residual += change * change;
            }
        }
        free(old);
        old = new;
        times[step] = omp_get_wtime() - start;
        printf("step %ld residual=%.6e\n", step + 1, sqrt(residual));
    }
    double seconds = omp_get_wtime() - begin;
    long from = steps * 2 / 3, count = steps - from;
    qsort(times + from, count, sizeof *times, compare);
    FILE *metrics = fopen("metrics.json", "w");
    if (!metrics)
        return 1;
    fprintf(metrics, "{\"seconds\": %.6f, \"steady\": %.9f, \"result\": %.9e}\n", seconds, times[from + count / 2], sqrt(residual));
    return fclose(metrics) != 0;
}
