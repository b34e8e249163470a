// A program that uses a GPU without any CUDA toolkit: it loads libcuda.so.1 when it runs, fills memory of
// the first GPU, and adds to it by a kernel in PTX, which the driver compiles.
//
//   gpuwork MIB
//
// It prints "ready PCI-ADDRESS", and then answers each line of its input:
//   step     adds 1 to every number in the memory; "stepped COUNT"
//   check    reads the memory back; "right COUNT", or "wrong INDEX VALUE"
// It ends with its input. Exit code 3: there is no usable driver or GPU, and the last line says why.
// Build: gcc -o gpuwork gpuwork.c -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t device_pointer;

static const char kernel[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry add_one(.param .u64 memory, .param .u32 count) {\n"
	"	.reg .pred %p<2>;\n"
	"	.reg .b32 %r<6>;\n"
	"	.reg .b64 %d<4>;\n"
	"	ld.param.u64 %d1, [memory];\n"
	"	ld.param.u32 %r1, [count];\n"
	"	mov.u32 %r2, %ctaid.x;\n"
	"	mov.u32 %r3, %ntid.x;\n"
	"	mov.u32 %r4, %tid.x;\n"
	"	mad.lo.u32 %r2, %r2, %r3, %r4;\n"
	"	setp.ge.u32 %p1, %r2, %r1;\n"
	"	@%p1 bra done;\n"
	"	cvta.to.global.u64 %d1, %d1;\n"
	"	mul.wide.u32 %d2, %r2, 4;\n"
	"	add.u64 %d3, %d1, %d2;\n"
	"	ld.global.u32 %r5, [%d3];\n"
	"	add.u32 %r5, %r5, 1;\n"
	"	st.global.u32 [%d3], %r5;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static void *library;

static void *function(const char *name) {
	void *f = dlsym(library, name);
	if (f) return f;
	printf("libcuda.so.1 has no %s\n", name);
	exit(3);
}

static void must(const char *what, int result) {
	if (result == 0) return;
	const char *text = "?";
	((int (*)(int, const char **))function("cuGetErrorName"))(result, &text);
	printf("%s: error %d, %s\n", what, result, text);
	exit(3);
}

#define CALL(name, types, ...) must(name, ((int (*) types)function(name))(__VA_ARGS__))

int main(int argc, char **argv) {
	setvbuf(stdout, NULL, _IOLBF, 0);
	size_t mib = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	if (mib == 0 || mib > 4096) {
		fprintf(stderr, "usage: gpuwork MIB (1 to 4096)\n");
		return 2;
	}
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		return 3;
	}
	int device;
	char address[64];
	void *context, *module, *add_one;
	device_pointer memory;
	uint32_t count = mib << 18, steps = 0; // numbers of 4 bytes
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &device, 0);
	CALL("cuDeviceGetPCIBusId", (char *, int, int), address, sizeof address, device);
	CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
	CALL("cuCtxSetCurrent", (void *), context);
	CALL("cuModuleLoadData", (void **, const void *), &module, kernel);
	CALL("cuModuleGetFunction", (void **, void *, const char *), &add_one, module, "add_one");
	CALL("cuMemAlloc_v2", (device_pointer *, size_t), &memory, (size_t)count * 4);
	CALL("cuMemsetD32_v2", (device_pointer, unsigned, size_t), memory, 0, count);
	CALL("cuCtxSynchronize", (void), );
	uint32_t *host = malloc((size_t)count * 4);
	if (!host) return 1;
	printf("ready %s\n", address);
	char line[64];
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "step\n")) {
			void *parameters[] = {&memory, &count};
			CALL("cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
				void **, void **), add_one, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL);
			CALL("cuCtxSynchronize", (void), );
			printf("stepped %u\n", ++steps);
		} else if (!strcmp(line, "check\n")) {
			CALL("cuMemcpyDtoH_v2", (void *, device_pointer, size_t), host, memory, (size_t)count * 4);
			uint32_t i = 0;
			while (i < count && host[i] == steps) i++;
			if (i == count) printf("right %u\n", steps);
			else printf("wrong %u %u\n", i, host[i]);
		}
	}
	return 0;
}
