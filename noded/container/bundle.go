package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Names within a container's directory. What lies in runDir is seen by the container at /run/rota.
const (
	configFile   = "config.json" // the OCI runtime spec: the directory is an OCI bundle
	settingsFile = "shim.json"
	socketFile   = "shim.sock"
	pidFile      = "shim.pid"
	exitFile     = "exit.json"
	runDir       = "run"
	logDir       = "log"
	stateDir     = "state" // libcontainer's own
)

// RunDir is where the container in dir has its /run/rota.
func RunDir(dir string) string { return filepath.Join(dir, runDir) }

// LogDir is where the shim of the container in dir keeps output that was not sent to a path of the user's. The files are stdout,
// stdout.1 (older), and so on, and stderr likewise unless it is joined to stdout.
func LogDir(dir string) string { return filepath.Join(dir, logDir) }

// StateDir is where libcontainer keeps its own state of the container in dir.
func StateDir(dir string) string { return filepath.Join(dir, stateDir) }

// ConfigPath is the OCI runtime spec of the container in dir.
func ConfigPath(dir string) string { return filepath.Join(dir, configFile) }

// ProgressPath is the host's side of $ROTA_PROGRESS_FILE.
func ProgressPath(dir string) string { return filepath.Join(dir, runDir, "progress.jsonl") }

// User is whom a container runs as.
type User struct {
	UID  uint32   `json:"uid"`
	GID  uint32   `json:"gid"`
	GIDs []uint32 `json:"gids,omitempty"`
}

// Settings is what a shim must know besides the OCI spec.
type Settings struct {
	ID         ID       `json:"id"`
	User       User     `json:"user"`
	Cgroup     string   `json:"cgroup"`             // path below every hierarchy's root, as in the spec
	KillSignal int      `json:"kill_signal"`        // sent when the lease ends
	LeaseGrace int64    `json:"lease_grace_ms"`     // from that signal to the kill; default 10,000
	NoLease    bool     `json:"no_lease,omitempty"` // on_node_lost = "wait": never stopped by the lease
	Log        LogFiles `json:"log"`                // where output goes
	Guards     []Guard  `json:"guards,omitempty"`   // what the job asked to see of the host
}

// Guard is a path of the host that a job chose and root is to mount. The shim sees to it that the job's user can reach it, and that
// what is mounted is what the user reaches.
type Guard struct {
	Source string   `json:"source"`
	Target string   `json:"target,omitempty"` // in the container; "": it is not mounted itself, but its entries are
	Below  []string `json:"below,omitempty"`  // where it must lie when links are resolved; empty: anywhere
}

// LogFiles says where output goes. Paths are the host's; empty ones mean files in [LogDir], which root owns. Others are opened
// with the user's rights.
type LogFiles struct {
	Stdout   string `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	Join     bool   `json:"join"` // stderr goes where stdout goes
	Truncate bool   `json:"truncate,omitempty"`
	MaxSize  int64  `json:"max_size"` // bytes after which a file is rotated; default 1 GiB
	Keep     int    `json:"keep"`     // rotated files kept
}

// Bundle is everything a container is made from.
type Bundle struct {
	Config   any    // the OCI runtime spec (noded/oci.Spec)
	Plan     any    // what rota-init carries out (noded/oci.Plan)
	Script   string // the task's script, if it has one
	Settings Settings
}

// WriteBundle fills dir, which is made if need be, so that Create can be called with it. Writing it again is safe as long as the
// container has not been created.
func WriteBundle(dir string, b Bundle) error {
	run := RunDir(dir)
	if err := os.MkdirAll(run, 0o755); err != nil {
		return fmt.Errorf("make directory of container %s: %w", b.Settings.ID, err)
	}
	return errors.Join(
		writeJSON(ConfigPath(dir), 0o600, nil, b.Config),
		writeJSON(filepath.Join(dir, settingsFile), 0o600, nil, b.Settings),
		writeJSON(filepath.Join(run, "launch.json"), 0o400, &b.Settings.User, b.Plan),
		writeFile(filepath.Join(run, "script"), 0o500, &b.Settings.User, []byte(b.Script)),
		writeFile(filepath.Join(run, "progress.jsonl"), 0o644, &b.Settings.User, nil),
		writeFile(filepath.Join(run, "init"), 0o644, nil, nil), // a mount point
	)
}

// ReadSettings reads what WriteBundle wrote for the shim.
func ReadSettings(dir string) (Settings, error) {
	var s Settings
	b, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read shim settings: %w", err)
	}
	return s, nil
}

// Notice tells a job that it is about to be stopped, and why.
type Notice struct {
	Reason   string `json:"reason"`
	Deadline string `json:"deadline"` // RFC 3339: when what is left is killed
	Attempt  int    `json:"attempt"`
	Signal   string `json:"signal"`
}

// WriteNotice puts the notice where the container in dir sees it as $ROTA_NOTICE_FILE, whole or not at all.
func WriteNotice(dir string, n Notice) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	return replaceFile(filepath.Join(RunDir(dir), "notice.json"), 0o644, append(b, '\n'))
}

func writeJSON(path string, mode os.FileMode, owner *User, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return writeFile(path, mode, owner, b)
}

// writeFile writes a file afresh and gives it to owner, or leaves it with the daemon's own user.
func writeFile(path string, mode os.FileMode, owner *User, b []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if owner != nil && os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(int(owner.UID), int(owner.GID)))
	}
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// replaceFile writes beside path and renames, so that a reader never sees a part.
func replaceFile(path string, mode os.FileMode, b []byte) error {
	tmp := path + ".tmp"
	if err := writeFile(tmp, mode, nil, b); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
