package container

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// # Containers without a directory
//
// A data directory may be lost while shims run: it was removed, its disk was replaced, or another
// one is mounted in its place. The processes go on, and a daemon that knows nothing of them would
// launch the next attempt beside them. So a daemon that starts ends whatever runs in a container's
// cgroup below its root without a directory here, before it launches anything.

// findStrays ends the containers of which this daemon has no directory.
func (s *Shims) findStrays() {
	if s.cfg.CgroupRoot == "" {
		return
	}
	known := map[string]bool{}
	for id := range s.links {
		known[s.cgroupOf(id)] = true
	}
	for _, cgroup := range containersBelow(cgroupMount, s.cfg.CgroupRoot) {
		// a step ends with its worker
		if !known[cgroup] && !slices.ContainsFunc(s.strays, func(w string) bool { return strings.HasPrefix(cgroup, w+"/") }) {
			s.strays = append(s.strays, cgroup)
		}
	}
	if len(s.strays) > 0 && s.cfg.Log != nil {
		s.cfg.Log.Warn("stopping containers whose directories are lost", "cgroups", s.strays,
			"dir", s.cfg.Dir)
	}
	if err := s.endStrays(); err != nil && s.cfg.Log != nil {
		s.cfg.Log.Error("this node launches no jobs for now", "error", err)
	}
}

// cgroupOf returns the cgroup of a container, below every hierarchy.
func (s *Shims) cgroupOf(id ID) string {
	if s.cfg.CgroupRoot == "" {
		return ""
	}
	cgroup := filepath.Join("/", s.cfg.CgroupRoot, id.OfWorker().String())
	if id.Step > 0 {
		cgroup = StepCgroup(cgroup, id.Step-1)
	}
	return cgroup
}

// containersBelow lists the cgroups of containers below a root, those of workers first.
func containersBelow(mount, root string) []string {
	var found []string
	for _, below := range []string{"/*", "/*/" + stepPrefix + "*"} {
		for _, pattern := range []string{mount + root + below, mount + "/*" + root + below} {
			dirs, _ := filepath.Glob(pattern) // the pattern is well formed
			for _, dir := range dirs {
				cgroup := dir[strings.LastIndex(dir, root+"/"):]
				worker := strings.Split(cgroup[len(root)+1:], "/")[0]
				if _, ok := ParseID(worker); ok && isDir(dir) && !slices.Contains(found, cgroup) {
					found = append(found, cgroup)
				}
			}
		}
	}
	return found
}

// endStrays ends what is left of the containers without a directory. While it is not possible nothing may
// be launched.
func (s *Shims) endStrays() error {
	s.mu.Lock()
	strays := slices.Clone(s.strays)
	s.mu.Unlock()
	var errs []error
	for _, cgroup := range strays {
		err := sweepCgroup(cgroup)
		if err != nil && populated(cgroup) {
			errs = append(errs, fmt.Errorf("cannot kill processes of %s, whose directory below %s is lost: %w; kill them, or "+
				"reboot this machine", filepath.Base(cgroup), s.cfg.Dir, err))
			continue
		}
		s.mu.Lock()
		s.strays = slices.DeleteFunc(s.strays, func(c string) bool { return c == cgroup })
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
