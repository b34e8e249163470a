package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runc/libcontainer"

	"github.com/rota-hpc/rota/noded/container"
)

// Processes are those of a container, which rota-init has cut off from its shim.
type Processes struct {
	Container *libcontainer.Container
	State     string // libcontainer's directory for it
	Pid       int    // of the first process
}

var (
	// ErrUnfinished says that the processes have ended and the image could not be finished.
	ErrUnfinished = errors.New("CRIU has ended the processes, but their image is incomplete")
	// ErrHangs says that CRIU did not let the processes go in time. They may be damaged.
	ErrHangs = errors.New("CRIU hung, and the worker was killed with it")
)

// dumpLog is CRIU's log in an image while it saves.
const dumpLog = "dump.log"

// Save saves processes into the directory of an order. It returns when the image is whole and the
// processes have ended, or when CRIU no longer touches them. It gives up when ctx ends.
func Save(ctx context.Context, p Processes, o container.SaveOrder) error {
	// 1. An empty place, whose name says that the image is unfinished.
	part, err := makePlace(p, o)
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	// 2. CRIU. If it succeeds, the processes have ended and the image is all that is left.
	if err := p.runHelper(ctx, o); err != nil {
		return err
	}
	// 3. The final name, durably. An image under its final name is whole.
	return finish(part, o)
}

// makePlace makes an empty directory for an image. Only root may change it: root restores from it.
func makePlace(p Processes, o container.SaveOrder) (part string, err error) {
	if err := errors.Join(container.CheckPrivate(filepath.Dir(o.Dir)), p.checkMounts()); err != nil {
		return "", fmt.Errorf("it cannot be saved: %w", err)
	}
	if _, err := os.Lstat(o.Dir); err == nil {
		return "", fmt.Errorf("%s exists already", o.Dir)
	}
	part = container.PartOfImage(o.Dir)
	if err = os.RemoveAll(part); err == nil { // a shim that was killed may have left one
		err = os.Mkdir(part, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("it cannot be saved: %w", err)
	}
	return part, nil
}

// finish gives an image its final name.
func finish(part string, o container.SaveOrder) error {
	for _, name := range []string{dumpLog, "stats-dump"} {
		_ = os.Remove(filepath.Join(part, name)) // of no use any more
	}
	if err := container.FinishImage(o.Dir, o.Criu); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return nil
}

// checkMounts returns an error for a mount that is not the container's own. The machine may have
// mounted a file system inside a directory that the container shows. CRIU would save a copy of it,
// or nothing.
func (p Processes) checkMounts() error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p.Pid))
	if err != nil {
		return err
	}
	config := p.Container.Config()
	own := append([]string{"/"}, slices.Concat(config.MaskPaths, config.ReadonlyPaths)...)
	for _, m := range config.Mounts {
		own = append(own, m.Destination)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return fmt.Errorf("mounts of the container: the kernel has the unexpected line %q", line)
		}
		at := unescape.Replace(fields[4])
		if !slices.Contains(own, at) {
			return fmt.Errorf("the machine has a file system mounted at %s, inside a directory that is mounted in the "+
				"container", at)
		}
	}
	return nil
}

// unescape decodes paths in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
