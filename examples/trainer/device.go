package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// usageDir is where jobs with simulated GPUs say what they use of them: see docs/gpu.md.
const usageDir = "/run/rota/gpus"

// device is a simulated GPU as the trainer uses it. A computation there takes as long as -compute
// says. Trainers that name the same file compute one after another, as on one GPU.
type device struct {
	file  *os.File // of all that compute there; nil: nothing else does
	usage *os.File // says what is used; nil: nothing is said
	what  string   // is said
}

// openDevice says that the trainer has memory on its GPUs, in MiB, and keeps them busy for some
// percent of the time. Without memory nothing is said.
func openDevice(path string, memory, percent int, uuids string) (*device, error) {
	d := &device{}
	var err error
	if path != "" {
		if d.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666); err != nil {
			return nil, fmt.Errorf("device: %w", err)
		}
	}
	if memory == 0 || uuids == "" {
		return d, nil
	}
	for uuid := range strings.SplitSeq(uuids, ",") {
		d.what += fmt.Sprintf("%s %d %d\n", uuid, memory, percent)
	}
	d.usage, err = os.OpenFile(filepath.Join(usageDir, fmt.Sprintf("%d.%d", os.Getpid(), time.Now().UnixNano())),
		os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		lock := syscall.Flock_t{Type: syscall.F_WRLCK}
		err = syscall.FcntlFlock(d.usage.Fd(), syscall.F_SETLK, &lock)
	}
	if err != nil {
		return nil, fmt.Errorf("report the use of the GPU: %w", err)
	}
	return d, d.take()
}

// take says that the memory is in use.
func (d *device) take() error {
	if d.usage == nil {
		return nil
	}
	_, err := d.usage.WriteAt([]byte(d.what), 0)
	return err
}

// release says that it is not.
func (d *device) release() error {
	if d.usage == nil {
		return nil
	}
	return d.usage.Truncate(0)
}

// compute has something run on the device, when nothing else does.
func (d *device) compute(what func()) error {
	if d.file == nil {
		what()
		return nil
	}
	if err := syscall.Flock(int(d.file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	what()
	err := syscall.Flock(int(d.file.Fd()), syscall.LOCK_UN)
	time.Sleep(letIn)
	return err
}

// letIn is long enough for a trainer that waits for the device to get it: a driver gives each its turn.
const letIn = 100 * time.Microsecond

func (d *device) close() {
	for _, f := range []*os.File{d.file, d.usage} {
		if f != nil {
			f.Close()
		}
	}
	if d.usage != nil {
		os.Remove(d.usage.Name())
	}
}
