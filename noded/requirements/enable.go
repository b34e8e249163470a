package requirements

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// enableControllers makes sure that cgroups of version 2 below root have the controllers that limits
// need. Each cgroup on the way passes them on to those below it.
func enableControllers(mount, root string) error {
	dir := mount
	for _, element := range strings.Split(root, "/") { // the first one is empty, for the mount itself
		dir = filepath.Join(dir, element)
		if err := enableIn(dir); err != nil {
			return err
		}
	}
	return nil
}

// enableIn enables the controllers for the cgroups inside of one.
func enableIn(dir string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cgroups cannot be used: %w", err)
	}
	for _, name := range controllers {
		if slices.Contains(strings.Fields(string(enabled)), name) {
			continue
		}
		err := os.WriteFile(file, []byte("+"+name), 0)
		switch {
		case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("cgroups cannot be used: processes run directly in %s, so cgroups below it cannot have limits: "+
				"move these processes into a cgroup below it, or choose another place with --cgroup-root", dir)
		case err != nil:
			return fmt.Errorf("cgroups cannot be used: the controller %s cannot be enabled below %s: %w (systemd does so "+
				"for units with Delegate=yes; otherwise choose another place with --cgroup-root)", name, dir, err)
		}
	}
	return nil
}
