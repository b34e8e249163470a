// Package criutest has tests save containers with the CRIU that is there, although it may be older than
// daemons accept.
package criutest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/requirements"
)

// Find returns a program that works as CRIU, and its version. It skips the test if there is none.
// own is tried first: the path where `make criu` puts one. Debian has no version yet that daemons accept.
// Tests restore images that they have just made, so an older one is good enough for them: a script
// runs it and says that it is newer. No daemon has a flag for that.
func Find(t testing.TB, own string) (path, version string) {
	t.Helper()
	if _, err := os.Stat(own); err != nil {
		var lacks error
		if own, lacks = exec.LookPath("criu"); lacks != nil {
			t.Skip("criu is not installed; `make criu` fetches one for tests")
		}
	}
	own, err := filepath.Abs(own)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(own, "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "Version: 4.") {
		t.Skipf("%s is no CRIU of version 4: %q, %v; `make criu` fetches one for tests", own, out, err)
	}
	real, version, err := requirements.FindCriu(t.Context(), own)
	if err == nil {
		return real, version
	}
	script := filepath.Join(t.TempDir(), "criu")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'Version: %s'\nexec %q \"$@\"\n",
		requirements.CriuLeast, own)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	path, version, err = requirements.FindCriu(t.Context(), script)
	if err != nil {
		t.Skipf("%v; `make criu` fetches one for tests", err)
	}
	return path, version
}
