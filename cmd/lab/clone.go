package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// asAnotherMachine runs a program that sees another boot and other hardware than this machine's. $1
// is a directory with the names of both, and the rest is the program.
const asAnotherMachine = `dir=$1; shift
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id &&
if [ -e /sys/class/dmi/id/product_uuid ]; then mount --bind "$dir/uuid" /sys/class/dmi/id/product_uuid; fi &&
exec "$@"`

// Clone lays out a second machine under the name of a node, as a copy of its disk in another
// machine. It has the node's certificate, another boot id and other hardware, and runs in the
// network of another node. Only with Options.Namespaces. It is for the caller to start and to end
// it.
func (c *Cluster) Clone(d, at *Daemon) (*Daemon, error) {
	dir := filepath.Join(c.Dir, d.Name+"-clone")
	twin := &Daemon{Name: d.Name, host: at.host, Socket: dir + ".sock", Data: filepath.Join(dir, "data"),
		Log: dir + ".log"}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.CopyFS(pki.Dir(twin.Data), os.DirFS(pki.Dir(d.Data))); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{
		filepath.Join(dir, "boot_id"): "c10e0000-0000-4000-8000-000000000001\n",
		filepath.Join(dir, "uuid"):    "c10e0000-0000-4000-8000-000000000002\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			return nil, err
		}
	}
	err := filepath.WalkDir(twin.Data, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()])
	})
	if err != nil {
		return nil, err
	}
	gossip, err := addr(at.host, clonePort)
	if err != nil {
		return nil, err
	}
	argv := slices.Clone(d.argv)
	for flag, value := range map[string]string{"--data-dir": twin.Data, "--socket": twin.Socket, "--gossip": gossip,
		"--cgroup-root": c.cgroup + "/" + d.Name + "-clone"} {
		i := slices.Index(argv, flag)
		if i < 0 || i+1 >= len(argv) {
			return nil, fmt.Errorf("node %s has no %s", d.Name, flag)
		}
		argv[i+1] = value
	}
	twin.argv = append([]string{"unshare", "--mount", "sh", "-c", asAnotherMachine, "sh", dir}, argv...)
	return twin, nil
}

// clonePort is where the gossip of a clone listens, beside that of the node whose network it shares.
const clonePort = 7172
