package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/requirements"
)

// Limits of the disk.
const (
	spaceWarn   = 2 * jobspec.GiB // log, snapshots and history grow by less in a day
	spaceBad    = 100 * jobspec.MiB
	inodesWarn  = 10_000
	inodesBad   = 1_000
	fsyncCount  = 100
	fsyncBudget = 5 * time.Second
	fsyncWarn   = 10 * time.Millisecond
	fsyncBad    = 100 * time.Millisecond
)

// programs checks that the programs a node needs are installed, and where the daemon finds them.
func (in *inspection) programs(context.Context) []finding {
	var found []finding
	if in.forController() {
		found = append(found, in.program(controld, len(in.settings.roles()) == 0)...)
	}
	if in.settings.node == nil && len(in.settings.roles()) > 0 {
		return found
	}
	found = append(found, in.program(noded, len(in.settings.roles()) == 0)...)
	daemon := in.find(noded)
	if daemon == "" || in.settings.login() {
		return found
	}
	for _, p := range []struct {
		setting string
		path    func() *string
	}{
		{"shim", func() *string { return in.settings.node.Shim }},
		{"init", func() *string { return in.settings.node.Init }},
	} {
		path := requirements.Beside(daemon, "rota-"+p.setting)
		if in.settings.node != nil {
			path = value(p.path(), path)
		}
		if err := requirements.Program("--"+p.setting, path); err != nil {
			found = append(found, one(bad, "rota-"+p.setting, "install it beside rota-noded or in /usr/libexec/rota, or set "+
				p.setting+" in the configuration", "%v", err)...)
			continue
		}
		found = append(found, fine("rota-"+p.setting, "%s", path)...)
	}
	return found
}

// program checks that a daemon's program is installed. It may be missing while nothing is
// configured.
func (in *inspection) program(name string, optional bool) []finding {
	switch path := in.find(name); {
	case path != "":
		return fine(name, "%s", path)
	case optional:
		return one(note, name, "", "it is not installed here")
	default:
		return one(bad, name, "install it, or put its directory on PATH", "it is neither beside this program, nor on PATH, "+
			"nor in /usr/bin or /usr/local/bin")
	}
}

// directories checks the owner and mode of the data directories.
func (in *inspection) directories(context.Context) []finding {
	var found []finding
	for _, dir := range in.settings.dataDirs() {
		found = append(found, in.directory(dir)...)
	}
	return found
}

func (in *inspection) directory(dir dataDir) []finding {
	const name = "data directory"
	info, err := os.Stat(in.path(dir.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(warn, name, "join the cluster, or start the daemon, which makes it", "%s does not exist yet", dir.path)
	case err != nil:
		return one(note, name, "run this command as root", "%v", err)
	case !info.IsDir():
		return one(bad, name, "name a directory as data_dir", "%s is no directory", dir.path)
	}
	var uid uint32
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		uid = st.Uid
	}
	mode := info.Mode().Perm()
	switch {
	case uid != 0 && !dir.controller:
		return one(bad, name, "chown -R root "+dir.path+", if you trust its contents", "%s belongs to uid %d, and the node "+
			"daemon runs as root", dir.path, uid)
	case mode&0o022 != 0:
		return one(bad, name, "chmod go-w "+dir.path+", if you trust its contents", "other accounts may write to %s (mode "+
			"%04o)", dir.path, mode)
	case mode&0o077 != 0:
		return one(warn, name, "chmod 0700 "+dir.path, "other accounts may enter %s, which has every user's scripts and "+
			"environments (mode %04o)", dir.path, mode)
	}
	return fine(name, "%s belongs to uid %d alone", dir.path, uid)
}

// space checks the kind and the free space of the file systems that hold the data directories.
func (in *inspection) space(context.Context) []finding {
	var found []finding
	for _, dir := range in.settings.dataDirs() {
		at := in.existing(dir.path)
		found = append(found, in.kindOf(dir, at)...)
		s, err := in.statfs(in.path(at))
		if err != nil {
			found = append(found, one(note, "space", "run this command as root", "%s: %v", at, err)...)
			continue
		}
		found = append(found, freeSpace(dir.path, s)...)
	}
	return found
}

// existing returns the deepest existing directory of a path.
func (in *inspection) existing(path string) string {
	for path != "/" && !in.exists(path) {
		path = filepath.Dir(path)
	}
	return path
}

// kindOf reports data directories on a file system that loses data at a reboot, or that is shared
// over a network.
func (in *inspection) kindOf(dir dataDir, at string) []finding {
	m, known := in.mountOf(at)
	severe := warn
	if dir.controller {
		severe = bad
	}
	switch {
	case !known:
		return nil
	case m.inMemory():
		return one(severe, "file system", "put data_dir on a disk", "%s is in memory (%s): it is empty after a reboot",
			dir.path, m.kind)
	case m.overNetwork():
		return one(severe, "file system", "put data_dir on a disk of this machine", "%s is on a file server (%s of %s): "+
			"fsync and locks are weaker there than on a disk, and the daemon hangs if the server does", dir.path, m.kind,
			m.source)
	}
	return fine("file system", "%s is on %s (%s)", dir.path, m.source, m.kind)
}

func freeSpace(path string, s unix.Statfs_t) []finding {
	free := jobspec.Bytes(s.Bavail) * jobspec.Bytes(s.Bsize)
	text := show.Size(free) + " free"
	if s.Files > 0 {
		text += ", " + strconv.FormatUint(s.Ffree, 10) + " inodes"
	}
	l := ok
	switch {
	case free < spaceBad || s.Files > 0 && s.Ffree < inodesBad:
		l = bad
	case free < spaceWarn || s.Files > 0 && s.Ffree < inodesWarn:
		l = warn
	}
	if l == ok {
		return fine("space", "%s: %s", path, text)
	}
	return one(l, "space", "free some space, or move the directory to a larger disk; on a node, lower max_logs",
		"%s: %s", path, text)
}

// fsync measures the controller's disk, because each change of the cluster waits for an fsync.
func (in *inspection) fsync(context.Context) []finding {
	const name = "fsync"
	if in.quick || in.settings.controller == nil || in.settings.controllerUnknown {
		return nil
	}
	dir := in.existing(value(in.settings.controller.DataDir, controldData))
	took, err := in.syncs(in.path(dir), fsyncCount, fsyncBudget)
	if err != nil {
		return one(note, name, "run this command as root", "%s cannot be measured: %v", dir, err)
	}
	in.synced = slices.Max(took)
	p50, p99 := percentile(took, 50), percentile(took, 99)
	text := "%d times 4 KiB in %s: p50 %s, p99 %s"
	args := []any{len(took), dir, human(p50), human(p99)}
	l := ok
	switch {
	case p99 > fsyncBad:
		l = bad
	case p99 > fsyncWarn:
		l = warn
	}
	if l == ok {
		return fine(name, text, args...)
	}
	return one(l, name, "put data_dir on a local SSD that other programs do not keep busy",
		text+"; every submission, start and end of a job waits for an fsync on a majority of the controllers", args...)
}

// defaultShared are directories that a node shares with its jobs by default if they exist.
var defaultShared = []string{"/home", "/shared", "/data"}

// sharedPaths checks the directories that all nodes share.
func (in *inspection) sharedPaths(context.Context) []finding {
	if in.settings.node == nil {
		return nil
	}
	var found []finding
	for _, p := range in.settings.node.SharedPath {
		if info, err := os.Stat(in.path(p)); err != nil || !info.IsDir() {
			found = append(found, one(bad, "shared path", "mount it, or remove it from shared_path", "%s is not a directory "+
				"here: the node daemon does not start", p)...)
			continue
		}
		found = append(found, in.sharedPath(p)...)
	}
	for _, p := range defaultShared {
		if in.exists(p) && !slices.Contains(in.settings.node.SharedPath, p) {
			found = append(found, in.sharedPath(p)...)
		}
	}
	if !in.settings.login() {
		found = append(found, in.otherShared()...)
	}
	return append(found, in.homeDirectory()...)
}

// homeDirectory checks that jobs can use the caller's home directory.
func (in *inspection) homeDirectory() []finding {
	if in.uid == 0 || in.home == "" || in.settings.nodeUnknown {
		return nil
	}
	const name = "home"
	shared := slices.ContainsFunc(slices.Concat(in.settings.node.SharedPath, defaultShared), func(p string) bool {
		return in.exists(p) && (in.home == p || strings.HasPrefix(in.home, p+"/"))
	})
	switch {
	case !shared:
		return one(note, name, "submit jobs from a shared directory", "%s is not below a shared directory", in.home)
	case unix.Access(in.path(in.home), unix.W_OK) != nil:
		return one(warn, name, "chown it to the user, or mount it writable", "this user may not write to %s", in.home)
	}
	return fine(name, "%s is shared, and this user may write to it", in.home)
}

// sharedPath returns the source of a shared directory's content.
func (in *inspection) sharedPath(path string) []finding {
	m, known := in.mountOf(path)
	if !known {
		return nil
	}
	if !m.overNetwork() {
		return one(note, "shared path", "", "%s is on a local file system (%s of %s): jobs on other nodes see different "+
			"files there", path, m.kind, m.source)
	}
	found := fine("shared path", "%s is %s of %s: every node must mount the same one", path, m.kind, m.source)
	if in.uid == 0 && m.kind != "9p" && unix.Access(in.path(path), unix.W_OK) != nil {
		found = append(found, one(note, "shared path", "", "root may not write to %s (root squash): this is fine, because "+
			"jobs run as their users", path)...)
	}
	return found
}

// otherShared compares this node's shared directories with those that other nodes have registered.
func (in *inspection) otherShared() []finding {
	var own *api.Node
	for i := range in.cluster.nodes {
		if in.cluster.nodes[i].Name == in.nodeName() {
			own = &in.cluster.nodes[i]
		}
	}
	if own == nil {
		return nil
	}
	var found []finding
	for _, n := range in.cluster.nodes {
		if missing := difference(n.SharedPaths, own.SharedPaths); len(missing) > 0 && len(found) < 5 {
			found = append(found, one(warn, "shared path", "mount them here, or name them in shared_path",
				"node %s shares %v with jobs, and this node does not", n.Name, missing)...)
		}
	}
	return found
}

// difference returns the elements of a that b lacks.
func difference(a, b []string) []string {
	var out []string
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
