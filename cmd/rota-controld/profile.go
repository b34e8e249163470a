package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profileVariable names the environment variable with a directory for profiles: what this process spends its processor time on, from its
// start to its end, in the form that `go tool pprof` reads. `make pgo` sets it.
const profileVariable = "ROTA_PROFILE_DIR"

// profile begins a profile in dir, if that is set, and returns what ends it.
func profile(dir string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("rota-controld-%d.pprof", os.Getpid())))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", profileVariable, err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", profileVariable, err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
