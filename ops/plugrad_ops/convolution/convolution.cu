// Columns of a convolution and their adjoint.
//
// (a) Columns hold, for each image, channel and tap of the kernel, that element of every window. Where an image and a tap
//     begin in them is told by two steps, so that images lie apart or side by side.
// (b) The adjoint gathers: a thread adds up what the windows took from one element, in the order of the taps, so that the
//     same input gives the same bits.
//
// Macros: T, the type of an image's element; S, that of a column's; I, in which elements are counted.

struct Windows { i64 size[3], kernel[3], stride[3], padding[3], dilation[3], out[3]; };

extern "C" __global__ void read_columns(
    S *columns, const T *images, Windows w, i64 channels, i64 image_step, i64 tap_step, i64 count
) {
    const I taps = (I)(w.kernel[0] * w.kernel[1] * w.kernel[2]), cells = (I)(w.out[0] * w.out[1] * w.out[2]);
    const I plane = (I)(w.size[0] * w.size[1] * w.size[2]);
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (i64)gridDim.x * blockDim.x) {
        I rest = (I)at / cells;
        const I cell = (I)at - rest * cells, tap = rest % taps;
        rest /= taps;
        const I channel = rest % (I)channels, image = rest / (I)channels;
        I place = 0, of_cell = cell, of_tap = tap, step = 1;
        bool inside = true;
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            const I window = of_cell % (I)w.out[d], k = of_tap % (I)w.kernel[d];
            of_cell /= (I)w.out[d];
            of_tap /= (I)w.kernel[d];
            const I x = window * (I)w.stride[d] + k * (I)w.dilation[d] - (I)w.padding[d];
            inside = inside && x >= 0 && x < (I)w.size[d];
            place += x * step;
            step *= (I)w.size[d];
        }
        const i64 to = image * image_step + ((i64)channel * taps + tap) * tap_step + cell;
        if (inside) store(columns[to], load(images[((i64)image * channels + channel) * plane + place]));
        else store(columns[to], compute_t<S>(0));
    }
}

extern "C" __global__ void add_columns(
    T *images, const S *columns, Windows w, i64 channels, i64 image_step, i64 tap_step, i64 count
) {
    const I plane = (I)(w.size[0] * w.size[1] * w.size[2]);
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (i64)gridDim.x * blockDim.x) {
        I rest = (I)at / plane, place = (I)at - rest * plane, x[3];
        const I channel = rest % (I)channels, image = rest / (I)channels;
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            x[d] = place % (I)w.size[d] + (I)w.padding[d];
            place /= (I)w.size[d];
        }
        const S *from = columns + image * image_step + (i64)channel * w.kernel[0] * w.kernel[1] * w.kernel[2] * tap_step;
        compute_t<S> sum = 0;
        for (I a = 0; a < (I)w.kernel[0]; ++a) {
            const I d = x[0] - a * (I)w.dilation[0], i = d / (I)w.stride[0];
            if (d < 0 || i * (I)w.stride[0] != d || i >= (I)w.out[0]) continue;
            for (I b = 0; b < (I)w.kernel[1]; ++b) {
                const I h = x[1] - b * (I)w.dilation[1], j = h / (I)w.stride[1];
                if (h < 0 || j * (I)w.stride[1] != h || j >= (I)w.out[1]) continue;
                for (I e = 0; e < (I)w.kernel[2]; ++e) {
                    const I v = x[2] - e * (I)w.dilation[2], k = v / (I)w.stride[2];
                    if (v < 0 || k * (I)w.stride[2] != v || k >= (I)w.out[2]) continue;
                    const i64 tap = ((i64)a * w.kernel[1] + b) * w.kernel[2] + e;
                    sum += load(from[tap * tap_step + ((i64)i * w.out[1] + j) * w.out[2] + k]);
                }
            }
        }
        store(images[at], sum);
    }
}
