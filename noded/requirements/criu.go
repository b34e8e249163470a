package requirements

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// criuLeast is the first version of CRIU that restores only the mounts of the container. An older
// one can be made to mount another directory of the machine (CVE-2026-119614).
var criuLeast = []int{4, 3, 1}

// CriuLeast is that version as users write it.
const CriuLeast = "4.3.1"

// criuPatience is how long CRIU may take to look at the kernel.
const criuPatience = 30 * time.Second

var criuVersion = regexp.MustCompile(`(?m)^Version: (\d+\.\S+)$`)

// FindCriu returns where CRIU is and its version: at the path, or found through PATH if that is "". It is
// an error if CRIU, the kernel or the rights of this process are no good for saving containers.
func FindCriu(ctx context.Context, path string) (found, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, criuPatience)
	defer cancel()
	if path == "" {
		if path, err = exec.LookPath("criu"); err != nil {
			return "", "", errors.New("criu is not installed: containers cannot be saved; install criu " + CriuLeast +
				" or later")
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w", path, err)
	}
	m := criuVersion.FindSubmatch(out)
	if m == nil {
		return "", "", fmt.Errorf("%s does not print its version: containers cannot be saved", path)
	}
	version = string(m[1])
	if olderCriu(version) {
		return "", "", fmt.Errorf("%s is CRIU %s, in which a crafted image can make root mount other directories of the "+
			"machine (CVE-2026-119614): install criu %s or later", path, version, CriuLeast)
	}
	if out, err := exec.CommandContext(ctx, path, "check").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("%s check: the kernel cannot save containers: %w: %s", path, err, lastLine(out))
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "", "", errors.New("this process has a filter of system calls, so CRIU cannot save containers that have one " +
			"too: remove the filters from the service's unit (see docs/operating.md)")
	}
	return path, version, nil
}

// olderCriu reports whether a version is below criuLeast. A pre-release is older than its release.
func olderCriu(version string) bool {
	version, pre, isPre := strings.Cut(version, "-")
	parts := make([]int, len(criuLeast))
	for i, text := range strings.SplitN(version, ".", len(parts)+1) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return true
		}
		if i < len(parts) {
			parts[i] = n
		}
	}
	order := slices.Compare(parts, criuLeast)
	return order < 0 || order == 0 && isPre && pre != ""
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
