// A stand-in for libcuda.so.1: the calls by which the driver moves the CUDA state of processes. The
// directory named by ROTA_FAKE_CUDA has
//   PID      a process with CUDA state: the state's number
//   plan     lines "HOW CALL PID": fail, hang, die (with the helper), or block (while the line is there);
//            PID 0 is any
//   waits    there when a call has begun to hang or to wait
//   calls    what was called, a line each, is appended here
// A process that is frozen, has ended or has no file here is treated as the driver does.
// Built with -DOLD it lacks what a driver before 570 lacks.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, INVALID_VALUE, NO_DEVICE = 100, ILLEGAL_STATE = 401, NOT_READY = 600, UNKNOWN = 999 };
enum { RUNNING, LOCKED, CHECKPOINTED };
typedef struct { unsigned timeout_ms, zero; uint64_t reserved[7]; } args;

static FILE *in_world(const char *name, const char *mode) {
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", getenv("ROTA_FAKE_CUDA"), name);
	return fopen(path, mode);
}

static void note(const char *name, const char *call, int pid) {
	FILE *f = in_world(name, "a");
	if (!f) return;
	fprintf(f, "%s %d\n", call, pid);
	fclose(f);
}

// planned finds what is to happen with a call: the first letter, 0 for nothing.
static int planned(const char *call, int pid) {
	char line[256], how[32], what[32];
	int who, found = 0;
	FILE *f = in_world("plan", "r");
	while (!found && f && fgets(line, sizeof line, f))
		if (sscanf(line, "%31s %31s %d", how, what, &who) == 3 && !strcmp(what, call) && (!who || who == pid)) found = how[0];
	if (f) fclose(f);
	return found;
}

// begin notes a call, and does what is planned.
static int begin(const char *call, int pid) {
	note("calls", call, pid);
	int how = planned(call, pid);
	if (how == 'd') _exit(3);
	if (how == 'h' || how == 'b') note("waits", call, pid);
	while (how == 'h') pause();
	while (how == 'b' && planned(call, pid) == 'b') usleep(1000);
	if (how != 'f') return SUCCESS;
	return strcmp(call, "lock") ? strcmp(call, "init") ? UNKNOWN : NO_DEVICE : NOT_READY;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : begin("init", 0); }
int cuGetErrorName(int r, const char **to) {
	*to = r == NOT_READY ? "CUDA_ERROR_NOT_READY" : r == ILLEGAL_STATE ? "CUDA_ERROR_ILLEGAL_STATE"
		: r == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
	return SUCCESS;
}
int cuGetErrorString(int r, const char **to) {
	*to = r == NOT_READY ? "device not ready" : "it did not work";
	return r == UNKNOWN ? INVALID_VALUE : SUCCESS;
}
#ifndef OLD
static FILE *of_process(int pid, const char *mode) {
	char name[32];
	snprintf(name, sizeof name, "%d", pid);
	return in_world(name, mode);
}

static int read_line(const char *path, char *line, int size) {
	FILE *f = fopen(path, "r");
	char *got = f ? fgets(line, size, f) : NULL;
	if (f) fclose(f);
	return got != NULL;
}

// frozen looks at both versions of cgroups.
static int frozen(int pid) {
	char path[4096], line[4096], file[8300], state[64];
	snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
	FILE *f = fopen(path, "r");
	int found = 0;
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *dir = strstr(line, ":freezer:");
		if (dir) snprintf(file, sizeof file, "/sys/fs/cgroup/freezer%s/freezer.state", dir + strlen(":freezer:"));
		else if (!strncmp(line, "0::", 3)) snprintf(file, sizeof file, "/sys/fs/cgroup%s/cgroup.freeze", line + 3);
		else continue;
		if (read_line(file, state, sizeof state)) found |= dir ? strncmp(state, "THAWED", 6) != 0 : state[0] == '1';
	}
	if (f) fclose(f);
	return found;
}

static int look(int pid, int *state) {
	FILE *f = of_process(pid, "r");
	int n = f ? fscanf(f, "%d", state) : 0;
	if (f) fclose(f);
	return n == 1 && kill(pid, 0) == 0 ? SUCCESS : INVALID_VALUE;
}

static int move(const char *call, int pid, int from, int to) {
	int r = begin(call, pid), state;
	if (r == SUCCESS) r = look(pid, &state);
	if (r != SUCCESS) return r;
	if (frozen(pid)) return UNKNOWN; // the driver would wait for it
	if (state != from) return ILLEGAL_STATE;
	FILE *f = of_process(pid, "w");
	if (!f) return UNKNOWN;
	fprintf(f, "%d", to);
	fclose(f);
	return SUCCESS;
}

static int zero(const args *a) {
	for (int i = 0; i < 7; i++)
		if (a->reserved[i]) return 0;
	return a->zero == 0;
}

int cuCheckpointProcessGetRestoreThreadId(int pid, int *to) {
	int r = begin("thread", pid), state;
	*to = pid;
	return r == SUCCESS ? look(pid, &state) : r;
}
int cuCheckpointProcessGetState(int pid, int *to) {
	int r = begin("state", pid);
	return r == SUCCESS ? look(pid, to) : r;
}
int cuCheckpointProcessLock(int pid, args *a) {
	if (!zero(a) || a->timeout_ms == 0) return INVALID_VALUE;
	return move("lock", pid, RUNNING, LOCKED);
}
int cuCheckpointProcessCheckpoint(int pid, args *a) {
	return zero(a) && !a->timeout_ms ? move("checkpoint", pid, LOCKED, CHECKPOINTED) : INVALID_VALUE;
}
int cuCheckpointProcessRestore(int pid, args *a) {
	return zero(a) && !a->timeout_ms ? move("restore", pid, CHECKPOINTED, LOCKED) : INVALID_VALUE;
}
int cuCheckpointProcessUnlock(int pid, args *a) {
	return zero(a) && !a->timeout_ms ? move("unlock", pid, LOCKED, RUNNING) : INVALID_VALUE;
}
#endif
