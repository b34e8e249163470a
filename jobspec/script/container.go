package script

import (
	"path"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// image reads the directory of a root file system.
func (a *asked) image(s setting) {
	switch ext := path.Ext(s.value); {
	case !path.IsAbs(s.value):
		a.refuse(s, "unpack the image and give the absolute path of its root file system", "%q: images are not pulled from registries", s.value)
	case ext == ".sqsh" || ext == ".squashfs" || ext == ".sif" || ext == ".simg" || ext == ".tar":
		a.refuse(s, "unpack the image and give the directory: unsquashfs -d DIR FILE", "%q: image files are not mounted", s.value)
	default:
		a.imageDir = s.value
	}
}

// mounts reads SOURCE[:TARGET[:FLAGS]] with commas between them.
func (a *asked) mounts(s setting) {
	a.mounted = nil
	for item := range strings.SplitSeq(s.value, ",") {
		parts := strings.Split(item, ":")
		m := jobspec.Mount{Source: parts[0], Target: parts[len(parts)-1]}
		if len(parts) > 1 {
			m.Target = parts[1]
		}
		if len(parts) > 3 || m.Source == "" || m.Target == "" {
			a.bad(s, "write /source:/target or /source:/target:ro", "%q is not a mount", item)
			return
		}
		if len(parts) == 3 && !a.mountFlags(s, &m, parts[2]) {
			return
		}
		a.mounted = append(a.mounted, m)
	}
}

func (a *asked) mountFlags(s setting, m *jobspec.Mount, flags string) bool {
	for flag := range strings.SplitSeq(flags, "+") {
		switch flag {
		case "ro":
			m.ReadOnly = true
		case "rw", "rbind", "bind":
		default:
			a.refuse(s, "only ro and rw are known", "%q: a mount cannot have the flag %q", m.Source, flag)
			return false
		}
	}
	return true
}
