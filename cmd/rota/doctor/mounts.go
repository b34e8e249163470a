package doctor

import (
	"path/filepath"
	"strconv"
	"strings"
)

// mount is a line of /proc/self/mountinfo.
type mount struct {
	target  string
	kind    string // type of the file system
	source  string
	options string // options of the mount and of the file system
}

// mounts returns the mounts of the machine, later mounts last.
func (s *system) mounts() []mount {
	var list []mount
	for line := range strings.Lines(s.text("/proc/self/mountinfo")) {
		before, after, found := strings.Cut(line, " - ")
		a, b := strings.Fields(before), strings.Fields(after)
		if !found || len(a) < 6 || len(b) < 3 {
			continue
		}
		list = append(list, mount{target: unescape(a[4]), kind: b[0], source: unescape(b[1]), options: a[5] + "," + b[2]})
	}
	return list
}

// unescape replaces the octal escapes of the kernel, such as \040 for a space.
func unescape(text string) string {
	parts := strings.Split(text, `\`)
	for i, p := range parts[1:] {
		if len(p) < 3 {
			continue
		}
		if n, err := strconv.ParseUint(p[:3], 8, 8); err == nil {
			parts[i+1] = string(rune(n)) + p[3:]
		}
	}
	return strings.Join(parts, "")
}

// mountOf returns the mount that holds a path, and false if the mounts are unknown.
func (s *system) mountOf(path string) (m mount, found bool) {
	if real, err := filepath.EvalSymlinks(s.path(path)); err == nil {
		if rel, err := filepath.Rel(s.root, real); err == nil {
			path = filepath.Join("/", rel)
		}
	}
	for _, one := range s.mounts() {
		inside := one.target == "/" || path == one.target || strings.HasPrefix(path, one.target+"/")
		if inside && len(one.target) >= len(m.target) {
			m, found = one, true
		}
	}
	return m, found
}

// networkKinds are the types of file systems that several machines can share.
var networkKinds = map[string]bool{"nfs": true, "nfs4": true, "lustre": true, "beegfs": true, "ceph": true,
	"gpfs": true, "cifs": true, "smb3": true, "9p": true, "virtiofs": true, "glusterfs": true, "wekafs": true,
	"orangefs": true, "afs": true, "panfs": true, "vastfs": true, "daos": true}

// overNetwork reports whether a file system may be shared with other machines.
func (m mount) overNetwork() bool {
	kind := strings.TrimPrefix(m.kind, "fuse.")
	return networkKinds[kind] || strings.Contains(kind, "ceph") || strings.Contains(kind, "sshfs") ||
		strings.Contains(kind, "dfuse") || strings.Contains(kind, "juicefs")
}

// inMemory reports whether a file system is empty after a reboot.
func (m mount) inMemory() bool { return m.kind == "tmpfs" || m.kind == "ramfs" }
