package requirements

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyAGoodCriuIsTaken notices a CRIU that is too old, that the kernel does not serve, or that is none.
func TestOnlyAGoodCriuIsTaken(t *testing.T) {
	if status, err := os.ReadFile("/proc/self/status"); err != nil || strings.Contains(string(status), "\nSeccomp:\t2\n") {
		t.Skip("this process has a filter of system calls, with which none is good")
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	path := filepath.Join(dir, "criu")
	for script, says := range map[string]string{
		`[ $1 = check ] || echo "Version: 4.3.1"`:                      "",
		`[ $1 = check ] || printf 'Version: 4.4-dev\nGitID: v4.3\n'`:   "",
		`[ $1 = check ] || echo "Version: 4.10"`:                       "",
		`[ $1 = check ] || echo "Version: 5.0"`:                        "",
		`[ $1 = check ] || echo "Version: 4.3"`:                        "is CRIU 4.3, in which a crafted image",
		`[ $1 = check ] || echo "Version: 4.1.1"`:                      "install criu 4.3.1 or later",
		`[ $1 = check ] || printf 'Version: 4.3.1-dev\nGitID: v4.3\n'`: "is CRIU 4.3.1-dev, in",
		`[ $1 = check ] || echo "Version: 3.17.1"`:                     "is CRIU 3.17.1, in",
		`[ $1 = check ] || echo "Version: 4.x"`:                        "is CRIU 4.x, in",
		`[ $1 = check ] && { echo one >&2; echo no time >&2; exit 1; }; echo "Version: 4.3.1"`: "check: the kernel " +
			"cannot save containers: exit status 1: no time",
		`echo hello`: "does not print its version",
		`exit 3`:     "--version: exit status 3",
	} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		found, version, err := FindCriu(t.Context(), "")
		if says == "" && (err != nil || found != path || !strings.Contains("4.3.1 4.4-dev 4.10 5.0", version)) ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %q, %q, %v", script, found, version, err)
		}
	}
	if _, _, err := FindCriu(t.Context(), dir+"/none"); err == nil {
		t.Error("there is none")
	}
	t.Setenv("PATH", "/nowhere")
	if _, _, err := FindCriu(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("%v", err)
	}
}
