package cuda

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// The arguments of every checkpoint call have 64 bytes. Only those of Lock have one that matters
// here; the others must be zero.
typedef struct {
	uint32_t timeout_ms; // of Lock; 0: none
	uint32_t zero;
	uint64_t reserved[7];
} rota_args;

static void *rota_open(const char *name) { return dlopen(name, RTLD_NOW); }
static int rota_init(void *f) { return ((int (*)(unsigned))f)(0); }
static int rota_ask(void *f, int pid, int *answer) { return ((int (*)(int, int *))f)(pid, answer); }
static int rota_do(void *f, int pid, uint32_t timeout_ms) {
	rota_args a = {.timeout_ms = timeout_ms};
	return ((int (*)(int, rota_args *))f)(pid, &a);
}
static const char *rota_text(void *f, int code) {
	const char *text = NULL;
	return ((int (*)(int, const char **))f)(code, &text) ? NULL : text;
}
*/
import "C"

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

// library is the driver's, by the name that all its versions have.
const library = "libcuda.so.1"

// Results of calls (CUresult) that are no failure to look at a process.
const (
	success        = 0
	invalidValue   = 1 // of a process that has never used CUDA
	notInitialised = 3 // of a process that has not finished to start CUDA
)

// symbols are the functions that the library must have, by the calls that they carry out.
var symbols = map[call]string{
	"init": "cuInit", "name": "cuGetErrorName", "text": "cuGetErrorString",
	"thread": "cuCheckpointProcessGetRestoreThreadId", callState: "cuCheckpointProcessGetState",
	callLock: "cuCheckpointProcessLock", callCheckpoint: "cuCheckpointProcessCheckpoint",
	callRestore: "cuCheckpointProcessRestore", callUnlock: "cuCheckpointProcessUnlock",
}

// Serve makes the calls that a [Driver] asks for on in, and answers on out, until in ends. It must
// run as root, or as the user of the processes.
func Serve(in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	var lib functions
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		err := error(nil)
		if lib == nil {
			lib, err = load()
		}
		r := response{}
		if err == nil {
			r, err = lib.carryOut(q)
		}
		if err != nil {
			r = response{Error: err.Error()}
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

// functions are the library's functions.
type functions map[call]unsafe.Pointer

// load loads and starts the library.
func load() (functions, error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	handle := C.rota_open(name)
	if handle == nil {
		return nil, fmt.Errorf("NVIDIA's library cannot be loaded: %s", C.GoString(C.dlerror()))
	}
	lib := functions{}
	for what, name := range symbols {
		c := C.CString(name)
		lib[what] = C.dlsym(handle, c)
		C.free(unsafe.Pointer(c))
		if lib[what] == nil {
			return nil, fmt.Errorf("NVIDIA's driver cannot move GPU memory to the host: %s has no %s; "+
				"update it to 570 or later", library, name)
		}
	}
	if r := C.rota_init(lib["init"]); r != success {
		return nil, fmt.Errorf("start CUDA: %w", lib.failure(r))
	}
	return lib, nil
}

func (lib functions) carryOut(q request) (response, error) {
	pid, r, state := C.int(q.PID), C.int(0), C.int(0)
	switch q.Call {
	case callState:
		// A process without CUDA has no thread that could restore it. Its state is not defined.
		if r = C.rota_ask(lib["thread"], pid, &state); r == invalidValue || r == notInitialised {
			return response{None: true}, nil
		}
		if r == success {
			r = C.rota_ask(lib[callState], pid, &state)
		}
	case callLock:
		r = C.rota_do(lib[q.Call], pid, C.uint32_t(q.WithinMS))
	case callCheckpoint, callRestore, callUnlock:
		r = C.rota_do(lib[q.Call], pid, 0)
	default:
		return response{}, fmt.Errorf("unknown call %q", q.Call)
	}
	if r != success {
		return response{}, lib.failure(r)
	}
	return response{State: int(state)}, nil
}

// failure explains a result in the driver's words.
func (lib functions) failure(r C.int) error {
	name, text := C.rota_text(lib["name"], r), C.rota_text(lib["text"], r)
	if name == nil || text == nil {
		return fmt.Errorf("error %d of CUDA", int(r))
	}
	return errors.New(C.GoString(name) + ", " + C.GoString(text))
}
