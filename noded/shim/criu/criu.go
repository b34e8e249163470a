// Package criu has CRIU save the processes of a container into an image, and restore them from it.
//
//	Save     makes a place for the image, has a helper run CRIU, and gives the image its final name
//	helper   a process of its own runs CRIU, so that the shim keeps answering meanwhile
//	give up  the helper may not write files any more: CRIU fails and lets the processes go on; CRIU is
//	         not killed, because at times its code runs inside the processes
//	Restore  makes the processes and leaves them stopped
package criu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// libcontainer starts the program criu from PATH. There it finds a link to this program, which asks
// the kernel to kill it with its parent and then becomes CRIU. Without that, CRIU may wait for ever
// for a process that was killed.
const (
	// Name is the name under which this program becomes CRIU.
	Name = "criu"
	// Env is the variable that names CRIU itself.
	Env = "ROTA_CRIU"
)

// environment returns the variables by which libcontainer finds CRIU, and CRIU finds tar. state is
// libcontainer's directory for the container.
func environment(state string, criu container.Criu) (map[string]string, error) {
	dir := filepath.Join(state, "bin")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Symlink("/proc/self/exe", filepath.Join(dir, Name))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make a link to CRIU: %w", err)
	}
	return map[string]string{Env: criu.Path,
		"PATH": dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, nil
}

// Become replaces this program by CRIU. It returns only after a failure.
func Become() error {
	signal.Ignore(unix.SIGXFSZ) // forbidWriting shall make CRIU fail, not kill it
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.Exec(os.Getenv(Env), os.Args, os.Environ())
}

// complaintMax is the length in bytes at which CRIU's message is cut.
const complaintMax = 300

// harmless are beginnings of messages that CRIU calls errors and goes on after.
var harmless = []string{"rlimit: Can't setup", "tun: Unable to create tun"}

// complaint returns the first error that counts in CRIU's log, or else the text of err.
func complaint(path string, err error) string {
	f, openErr := os.Open(path)
	if openErr != nil {
		return err.Error()
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, text, is := strings.Cut(lines.Text(), "Error ("); is {
			if _, rest, ok := strings.Cut(text, "): "); ok {
				text = rest
			}
			if slices.ContainsFunc(harmless, func(h string) bool { return strings.HasPrefix(text, h) }) {
				continue
			}
			return container.Printable(text[:min(len(text), complaintMax)])
		}
	}
	return err.Error()
}
