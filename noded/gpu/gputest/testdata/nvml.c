// A stand-in for libnvidia-ml.so.1. What it reports is read, on every call, from the file named by
// ROTA_FAKE_NVML, with lines
//   gpu UUID MODEL MINOR MIB ECC LOST     one for each GPU, in order; MODEL has _ for spaces
//   proc INDEX PID [MIB PERCENT]          a process on a GPU, with the memory that it uses and the part of
//                                         the time in which it computes; MIB -1: the driver does not know
//   declared DIR                          processes on GPUs say in the files of this directory what they
//                                         use: see gpu.Declaration
//   xid INDEX CODE                        a critical error, reported once
//   mig INDEX                             a GPU that is divided
//   persistent INDEX                      a GPU in persistence mode
//   files                                 a GPU is seen only if its file below /dev may be opened
//   deaf                                  the first wait for events fails
//   hang                                  no call returns
// Built with -DOLD it lacks what an old driver lacks.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "nvml.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, PROCESSES = 64 };
struct nvmlDevice_st { int index; };
struct nvmlEventSet_st { int told; };

struct gpu {
	char uuid[80], model[80];
	int minor, lost, processes, mig, persistent;
	unsigned long long mib, ecc;
	unsigned pids[PROCESSES];
	long long used[PROCESSES]; // MiB, -1: unknown
	int percent[PROCESSES];
};
struct world {
	struct gpu gpus[MOST];
	int count, xids, xid_gpu[8], xid_code[8], deaf, files;
};
static struct nvmlDevice_st handles[MOST];
static struct nvmlEventSet_st events;

// hide takes away the GPUs whose files below /dev are not there or may not be opened, as the driver's
// library does. A file without a driver behind it fails with ENXIO or ENODEV only after both were checked.
static void hide(struct world *w) {
	int kept = 0;
	for (int i = 0; i < w->count; i++) {
		char path[64];
		snprintf(path, sizeof path, "/dev/nvidia%d", w->gpus[i].minor);
		int fd = open(path, O_RDWR);
		if (fd < 0 && errno != ENXIO && errno != ENODEV) continue;
		if (fd >= 0) close(fd);
		handles[kept].index = kept;
		w->gpus[kept++] = w->gpus[i];
	}
	w->count = kept;
}

static void add(struct gpu *g, int pid, long long mib, int percent) {
	if (g->processes == PROCESSES) return;
	g->pids[g->processes] = pid;
	g->used[g->processes] = mib;
	g->percent[g->processes++] = percent;
}

// declared adds the processes that have locked a file of a directory, by what the file says.
static void declared(struct world *w, const char *dir) {
	DIR *d = opendir(dir);
	struct dirent *e;
	while (d && (e = readdir(d))) {
		char path[512], text[256], uuid[80];
		long long mib;
		int percent;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		int fd = open(path, O_RDONLY);
		if (fd < 0) continue;
		struct flock holder = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		ssize_t n = read(fd, text, sizeof text - 1);
		int locked = n > 0 && fcntl(fd, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0;
		close(fd);
		if (!locked) continue;
		text[n] = 0;
		if (sscanf(text, "%79s %lld %d", uuid, &mib, &percent) != 3) continue;
		for (int i = 0; i < w->count; i++)
			if (!strcmp(uuid, w->gpus[i].uuid)) add(&w->gpus[i], holder.l_pid, mib, percent);
	}
	if (d) closedir(d);
}

static struct world look(void) {
	struct world w;
	char dir[200] = "";
	memset(&w, 0, sizeof w);
	const char *path = getenv("ROTA_FAKE_NVML");
	FILE *f = path ? fopen(path, "r") : NULL;
	char line[256];
	while (f && fgets(line, sizeof line, f)) {
		struct gpu g;
		memset(&g, 0, sizeof g);
		int a, b, percent = 0;
		long long mib = 0;
		if (!strncmp(line, "hang", 4))
			for (;;) pause();
		if (w.count < MOST && sscanf(line, "gpu %79s %79s %d %llu %llu %d", g.uuid, g.model, &g.minor, &g.mib, &g.ecc, &g.lost) == 6) {
			for (char *c = g.model; *c; c++)
				if (*c == '_') *c = ' ';
			handles[w.count].index = w.count;
			w.gpus[w.count++] = g;
		} else if (sscanf(line, "proc %d %d %lld %d", &a, &b, &mib, &percent) >= 2) {
			add(&w.gpus[a], b, mib, percent);
		} else if (sscanf(line, "declared %199s", dir) == 1) {
		} else if (sscanf(line, "mig %d", &a) == 1) {
			w.gpus[a].mig = 1;
		} else if (sscanf(line, "persistent %d", &a) == 1) {
			w.gpus[a].persistent = 1;
		} else if (!strncmp(line, "files", 5)) {
			w.files = 1;
		} else if (!strncmp(line, "deaf", 4)) {
			w.deaf = 1;
		} else if (sscanf(line, "xid %d %d", &a, &b) == 2 && w.xids < 8) {
			w.xid_gpu[w.xids] = a;
			w.xid_code[w.xids++] = b;
		}
	}
	if (f) fclose(f);
	if (*dir) declared(&w, dir);
	if (w.files) hide(&w);
	return w;
}

#define DEVICE(d)                                                              \
	struct world w = look();                                               \
	if (!(d).handle || (d).handle->index >= w.count) return NVML_ERROR_INVALID_ARGUMENT; \
	struct gpu *g = &w.gpus[(d).handle->index];                            \
	(void)g;
#define ALIVE(d) DEVICE(d) if (g->lost) return NVML_ERROR_GPU_IS_LOST;

nvmlReturn_t nvmlInit_v2(void) { look(); return NVML_SUCCESS; }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : "failed"; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { *n = look().count; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
	if (i >= (unsigned)look().count) return NVML_ERROR_INVALID_ARGUMENT;
	d->handle = &handles[i];
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *d) {
	struct world w = look();
	for (int i = 0; i < w.count; i++)
		if (!strcmp(uuid, w.gpus[i].uuid)) { d->handle = &handles[i]; return NVML_SUCCESS; }
	return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *to, unsigned n) { DEVICE(d) snprintf(to, n, "%s", g->uuid); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *to, unsigned n) { ALIVE(d) snprintf(to, n, "%s", g->model); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *to) { ALIVE(d) *to = g->minor; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *to) {
	ALIVE(d)
	to->total = g->mib << 20;
	to->used = 0;
	for (int i = 0; i < g->processes; i++)
		if (g->used[i] > 0) to->used += (unsigned long long)g->used[i] << 20;
	to->free = to->total - to->used;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *to) {
	ALIVE(d)
	unsigned room = *n;
	*n = g->processes;
	if (room < *n) return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < *n; i++) {
		memset(&to[i], 0, sizeof to[i]);
		to[i].pid = g->pids[i];
		to[i].usedGpuMemory = g->used[i] < 0 ? NVML_VALUE_NOT_AVAILABLE : (unsigned long long)g->used[i] << 20;
	}
	return NVML_SUCCESS;
}

#ifndef OLD
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *to) {
	ALIVE(d)
	memset(to, 0, sizeof *to);
	for (int i = 0; i < g->processes; i++) to->gpu += g->percent[i];
	if (to->gpu > 100) to->gpu = 100;
	return NVML_SUCCESS;
}
// Processes that compute have a sample of two seconds ago, with another value, and one of now.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *to, unsigned *n, unsigned long long since) {
	ALIVE(d)
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	unsigned long long now = t.tv_sec * 1000000ull + t.tv_nsec / 1000;
	unsigned room = *n;
	*n = 0;
	for (int i = 0; i < g->processes; i++)
		for (int age = 2; age >= 0; age -= 2) {
			unsigned long long at = now - age * 1000000ull;
			if (!g->percent[i] || at <= since) continue;
			if (to && *n < room) {
				memset(&to[*n], 0, sizeof *to);
				to[*n].pid = g->pids[i];
				to[*n].timeStamp = at;
				to[*n].smUtil = age ? 1 : g->percent[i];
			}
			++*n;
		}
	if (!*n) return NVML_ERROR_NOT_FOUND;
	return to && room >= *n ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *to, unsigned n) { snprintf(to, n, "570.1"); return NVML_SUCCESS; }
static void address(nvmlPciInfo_t *to, int i) {
	memset(to, 0, sizeof *to);
	to->bus = 0x10 + i;
	snprintf(to->busId, sizeof to->busId, "00000000:%02X:00.0", to->bus);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *to) { DEVICE(d) address(to, d.handle->index); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t t, nvmlEccCounterType_t c, unsigned long long *to) {
	(void)c;
	ALIVE(d)
	*to = t == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? g->ecc : 0;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t *mode) {
	ALIVE(d)
	*mode = g->persistent ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *pending) { ALIVE(d) *now = *pending = g->mig; return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *s) { s->handle = &events; return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t s) { (void)s; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *to) { DEVICE(d) *to = nvmlEventTypeXidCriticalError; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t s) { (void)types; (void)s; DEVICE(d) return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t s, nvmlEventData_t *to, unsigned ms) {
	static int heard;
	if (look().deaf && !heard++) return NVML_ERROR_GPU_IS_LOST;
	for (unsigned waited = 0;; waited += 5) {
		struct world w = look();
		if (s.handle->told < w.xids) {
			memset(to, 0, sizeof *to);
			int i = s.handle->told++;
			to->device.handle = &handles[w.xid_gpu[i]];
			to->eventType = nvmlEventTypeXidCriticalError;
			to->eventData = w.xid_code[i];
			return NVML_SUCCESS;
		}
		if (waited >= ms) return NVML_ERROR_TIMEOUT;
		usleep(5000);
	}
}
#endif
