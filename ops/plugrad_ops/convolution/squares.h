/* Numbers of squares of two by two results of a convolution with kernels of 3 by 3; see winograd.pyx. */

#ifndef PG_SQUARES_H
#define PG_SQUARES_H

#define PG_COLUMN(T, j)                                                                                              \
    const T *restrict c##j = image + (j % 2) * plane + j / 2;                                                        \
    const T r0##j = c##j[q] - c##j[pitch + q], r1##j = c##j[2 * plane + q] + c##j[pitch + q];                        \
    const T r2##j = c##j[pitch + q] - c##j[2 * plane + q];                                                           \
    const T r3##j = c##j[2 * plane + q] - c##j[2 * plane + pitch + q];
#define PG_NUMBERS(i)                                                                                                \
    to[(4 * i + 0) * next + q] = r##i##0 - r##i##2;                                                                  \
    to[(4 * i + 1) * next + q] = r##i##1 + r##i##2;                                                                  \
    to[(4 * i + 2) * next + q] = r##i##2 - r##i##1;                                                                  \
    to[(4 * i + 3) * next + q] = r##i##1 - r##i##3;
#define PG_SUMS(T, j)                                                                                                \
    const T a##j = from[j * next + q], b##j = from[(4 + j) * next + q], d##j = from[(8 + j) * next + q];             \
    const T u##j = a##j + b##j + d##j, l##j = b##j - d##j - from[(12 + j) * next + q];
#define PG_SQUARES(T)                                                                                                \
    /* 16 numbers of each of n squares, `next` apart, from four planes of which a row has `pitch` elements. */       \
    PG_VECTOR static void pg_from_image_##T(                                                                         \
        const T *restrict image, Py_ssize_t plane, Py_ssize_t pitch, T *restrict to, Py_ssize_t next,                \
        Py_ssize_t n) {                                                                                              \
        for (Py_ssize_t q = 0; q < n; q++) {                                                                         \
            PG_COLUMN(T, 0) PG_COLUMN(T, 1) PG_COLUMN(T, 2) PG_COLUMN(T, 3)                                          \
            PG_NUMBERS(0) PG_NUMBERS(1) PG_NUMBERS(2) PG_NUMBERS(3)                                                  \
        }                                                                                                            \
    }                                                                                                                \
    /* The results of n squares, two rows of 2 n, from 16 numbers each. */                                           \
    PG_VECTOR static void pg_to_rows_##T(                                                                            \
        const T *restrict from, Py_ssize_t next, T added, T *restrict upper, T *restrict lower, Py_ssize_t n) {      \
        for (Py_ssize_t q = 0; q < n; q++) {                                                                         \
            PG_SUMS(T, 0) PG_SUMS(T, 1) PG_SUMS(T, 2) PG_SUMS(T, 3)                                                  \
            upper[2 * q] = u0 + u1 + u2 + added;                                                                     \
            upper[2 * q + 1] = u1 - u2 - u3 + added;                                                                 \
            lower[2 * q] = l0 + l1 + l2 + added;                                                                     \
            lower[2 * q + 1] = l1 - l2 - l3 + added;                                                                 \
        }                                                                                                            \
    }                                                                                                                \
    /* 16 numbers of a kernel, or of one that is turned around. */                                                   \
    static void pg_from_kernel_##T(const T *kernel, int flip, T *to, Py_ssize_t next) {                              \
        T s[4][3];                                                                                                   \
        for (int j = 0; j < 3; j++) {                                                                                \
            const T a = flip ? kernel[8 - j] : kernel[j], b = flip ? kernel[5 - j] : kernel[3 + j];                  \
            const T c = flip ? kernel[2 - j] : kernel[6 + j];                                                        \
            s[0][j] = a; s[1][j] = (a + b + c) / 2; s[2][j] = (a - b + c) / 2; s[3][j] = c;                          \
        }                                                                                                            \
        for (int i = 0; i < 4; i++) {                                                                                \
            to[(4 * i + 0) * next] = s[i][0];                                                                        \
            to[(4 * i + 1) * next] = (s[i][0] + s[i][1] + s[i][2]) / 2;                                              \
            to[(4 * i + 2) * next] = (s[i][0] - s[i][1] + s[i][2]) / 2;                                              \
            to[(4 * i + 3) * next] = s[i][2];                                                                        \
        }                                                                                                            \
    }
PG_SQUARES(float)
PG_SQUARES(double)

#endif
