// What a kernel needs to run on a GPU and, from the same source, on a CPU (where the tests run it).
//
//     KERNEL twice(long long n, const int *in, int *out) { EACH(row, n) out[row] = 2 * in[row]; }
//
// On a GPU many threads share the rows out among themselves; on a CPU one thread takes them in turn.

typedef unsigned char u8;
typedef unsigned long long u64;
typedef long long i64;

#ifdef __CUDACC__
#define INSIDE __device__ static
#define ONCE __device__ static __noinline__  // one copy of its code, however often it is called: there is little room for code
#define KERNEL extern "C" __global__ void
#define EACH(row, n) for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < (n); row += gridDim.x * (i64)blockDim.x)
#else
#define INSIDE static
#define ONCE static
#define KERNEL extern "C" void
#define EACH(row, n) for (i64 row = 0; row < (n); row++)
#endif
