package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Names within a container's directory. The container sees runDir at /run/rota.
const (
	configFile    = "config.json" // the OCI runtime spec: the directory is an OCI bundle
	settingsFile  = "shim.json"
	jobSocketFile = "job.sock"
	apiSocketFile = "rota.sock"
	binDir        = "bin"         // commands for the job
	limitsFile    = "limits.json" // of a worker of several tasks
	socketFile    = "shim.sock"
	pidFile       = "shim.pid"
	exitFile      = "exit.json"
	runDir        = "run"
	logDir        = "log"
	stateDir      = "state" // libcontainer's own
	taskDir       = "tasks" // a bundle for each of several tasks
	shmDir        = "shm"   // their /dev/shm
	tmpDir        = "tmp"   // /tmp of a worker's steps
	secretsDir    = "secrets"
	gpusDir       = "gpus"
	checkpointDir = "checkpoint"
	modulesDir    = "python"         // a mount point, as secretsDir
	progressDir   = "progress"       // mounted by the shim, in memory
	stepsFile     = "steps.jsonl"    // progress found in the output
	findingsFile  = "findings.jsonl" // what log policies have found
)

// TaskDir returns the bundle of one of several tasks of the worker in dir, by its index in
// [Settings.Tasks]. A single task has its bundle in dir itself.
func TaskDir(dir string, n int) string { return filepath.Join(dir, taskDir, strconv.Itoa(n)) }

// ShmDir returns what the tasks of the worker in dir share as /dev/shm. Their shim mounts it.
func ShmDir(dir string) string { return filepath.Join(dir, shmDir) }

// TmpDir returns what the worker in dir and its steps share as /tmp. The worker's shim mounts it.
func TmpDir(dir string) string { return filepath.Join(dir, tmpDir) }

// StepCgroup returns the cgroup of a part of a step, below that of its worker.
func StepCgroup(worker string, step int) string {
	return filepath.Join(worker, fmt.Sprint(stepPrefix, step))
}

const stepPrefix = "step." // no task has a name with a dot

// LimitsPath returns the file with the limits that the tasks of the worker in dir share, as OCI
// Linux resources.
func LimitsPath(dir string) string { return filepath.Join(dir, limitsFile) }

// StepsPath returns the file in which the shim of the worker in dir writes the progress that it
// finds in the output, as JSON Lines.
func StepsPath(dir string) string { return filepath.Join(dir, stepsFile) }

// FindingsPath returns the file in which the shim of the worker in dir writes what log policies
// have found, as JSON Lines of [Finding].
func FindingsPath(dir string) string { return filepath.Join(dir, findingsFile) }

// RunDir returns what the container in dir sees as /run/rota.
func RunDir(dir string) string { return filepath.Join(dir, runDir) }

// ListenJob opens the socket to which the processes of the container in dir connect, as
// $ROTA_SOCKET. Only its user may.
func ListenJob(dir string, user User) (net.Listener, error) {
	l, err := listenIn(RunDir(dir), jobSocketFile, &user)
	if err != nil {
		return nil, fmt.Errorf("listen for the job: %w", err)
	}
	return l, nil
}

// ListenAPI opens the sockets at which the processes of the worker in dir ask the controllers, one
// for each task: /run/rota/rota.sock there. Only its user may connect. It returns that user, and takes
// the place of what an earlier daemon has opened.
func ListenAPI(dir string) ([]net.Listener, User, error) {
	set, err := ReadSettings(dir)
	if err != nil {
		return nil, User{}, err
	}
	at := []string{dir}
	if set.Several() {
		at = nil
		for i := range set.Tasks {
			at = append(at, TaskDir(dir, i))
		}
	}
	var all []net.Listener
	for _, dir := range at {
		l, err := listenIn(RunDir(dir), apiSocketFile, &set.User)
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			return nil, User{}, fmt.Errorf("listen for requests of the job: %w", err)
		}
		all = append(all, l)
	}
	return all, set.User, nil
}

// LogDir returns the directory in which the shim of the container in dir keeps output that is not
// sent to a path of the user's. The files are stdout, stdout.1 (older), and so on, and the same for
// stderr unless it is joined to stdout.
func LogDir(dir string) string { return filepath.Join(dir, logDir) }

// StateDir returns where libcontainer keeps its own state of the container in dir.
func StateDir(dir string) string { return filepath.Join(dir, stateDir) }

// ConfigPath returns the OCI runtime spec of the container in dir.
func ConfigPath(dir string) string { return filepath.Join(dir, configFile) }

// ProgressPath returns the host's path of $ROTA_PROGRESS_FILE of the bundle in dir.
func ProgressPath(dir string) string { return filepath.Join(dir, progressDir, "progress.jsonl") }

// User is the account that a container runs as.
type User struct {
	UID  uint32   `json:"uid"`
	GID  uint32   `json:"gid"`
	GIDs []uint32 `json:"gids,omitempty"`
}

// Settings is what a shim must know besides the OCI spec.
type Settings struct {
	ID         ID     `json:"id"`
	User       User   `json:"user"`
	Cgroup     string `json:"cgroup"`         // path below every hierarchy's root, as in the spec
	LeaseGrace int64  `json:"lease_grace_ms"` // from the signal at the end of the lease to the kill; default 10,000

	OutputRate int64 `json:"output_rate,omitempty"` // bytes of output that are taken per second at most; 0: no bound

	Policies []Policy      `json:"policies,omitempty"` // looked for in the output
	Steps    *StepPattern  `json:"steps,omitempty"`    // progress in the output
	Progress *ProgressFile `json:"progress,omitempty"` // nil: $ROTA_PROGRESS_FILE
	// index of the task whose $ROTA_PROGRESS_FILE is read, if there are several
	Reporter int `json:"reporter,omitempty"`

	IO *IO `json:"io,omitempty"` // of a worker of one task; nil: output goes to log files, and there is no input

	Restore *Restore `json:"restore,omitempty"` // it goes on from an image; nil: it starts its command

	Tasks   []Task `json:"tasks"`             // each has a container of its own
	Success string `json:"success,omitempty"` // which tasks decide the worker's success: all (default), leader or any
	Shm     int64  `json:"shm,omitempty"`     // bytes of the common /dev/shm of several tasks

	// Place: steps run beside the worker's tasks, in cgroups below its own. They end with it.
	Place bool  `json:"place,omitempty"`
	Tmp   int64 `json:"tmp,omitempty"` // bytes of the common /tmp of a Place
	// IPC is the path of the IPC namespace of the worker that a part of a step runs beside; "": it has its own.
	IPC string `json:"ipc,omitempty"`
}

// Several reports whether the worker has, or may have, more than one container. Its tasks then have
// directories, logs and cgroups of their own below those of the worker.
func (s *Settings) Several() bool { return len(s.Tasks) > 1 || s.Place }

// Restore names the image that a container goes on from, and what restores it.
type Restore struct {
	Dir  string `json:"dir"`
	Criu Criu   `json:"criu"`
}

// Task is a task of a worker.
type Task struct {
	Name       string `json:"name"`
	Hook       string `json:"hook,omitempty"` // prestart, poststart or poststop; "": a main task
	Sidecar    bool   `json:"sidecar,omitempty"`
	Leader     bool   `json:"leader,omitempty"`
	KillSignal int    `json:"kill_signal"` // asks it to stop, also when the lease ends
	// from that signal to the kill, if other tasks have decided how the worker ends
	KillTimeout int64    `json:"kill_timeout_ms"`
	Log         LogFiles `json:"log"`               // where output goes
	Guards      []Guard  `json:"guards,omitempty"`  // host directories that the job asked for
	Secrets     []Secret `json:"secrets,omitempty"` // read on this machine and put into the container
}

// Secret is a file that is read with the user's rights and put into the container's private
// directory for secrets.
type Secret struct {
	Name   string `json:"name"` // for messages
	Source string `json:"source"`
	Target string `json:"target"` // in the container
}

// Policy is a pattern to be looked for in the output.
type Policy struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern"`          // RE2
	Stream  string `json:"stream,omitempty"` // stdout, stderr or "" for both
}

// Finding is the first line of output in which a policy's pattern was found.
type Finding struct {
	Policy string `json:"policy"`
	Line   string `json:"line"` // cut off if it is long
	Unix   int64  `json:"unix_ms"`
}

// StepPattern finds progress in the output: RE2 with a group named step, and others named after
// metrics.
type StepPattern struct {
	Pattern string `json:"pattern"`
	Task    string `json:"task"`              // in whose output it is looked for
	AtStep  int64  `json:"at_step,omitempty"` // the first line from this step on is always kept; 0: none
	Metric  string `json:"metric,omitempty"`  // that this line must have
}

// ProgressFile is a file of the user's that progress is read from, with the user's rights.
type ProgressFile struct {
	Dir  string `json:"dir"`  // an absolute directory
	Path string `json:"path"` // below Dir; no link leads out of it
}

// Guard is a path of the host that a job chose and that root is to mount. The shim makes sure that
// the job's user can reach it, and that what is mounted is what the user reaches.
type Guard struct {
	Source string   `json:"source"`
	Target string   `json:"target,omitempty"` // in the container; "": not the path itself but its entries are mounted
	Below  []string `json:"below,omitempty"`  // directories that it must lie below after links are resolved; empty: any
}

// LogFiles says where output goes. Paths are the host's; empty ones mean files in [LogDir], which
// root owns. Others are opened with the user's rights.
type LogFiles struct {
	Stdout   string `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	Join     bool   `json:"join"` // stderr goes to stdout's file
	Truncate bool   `json:"truncate,omitempty"`
	MaxSize  int64  `json:"max_size"` // bytes after which a file is rotated; default 1 GiB
	Keep     int    `json:"keep"`     // rotated files that are kept
	// Umask is the mask with which the user's files, and directories for them, are made; nil: 022.
	Umask *uint32 `json:"umask,omitempty"`
}

// Bundle is everything that a container, or the containers of a worker's tasks, are made from.
type Bundle struct {
	Settings Settings
	Tasks    []TaskBundle // one for each of Settings.Tasks
	Limits   any          // of several tasks together: OCI Linux resources
}

// TaskBundle is one task's share of a bundle.
type TaskBundle struct {
	Config any    // the OCI runtime spec (noded/oci.Spec)
	Plan   any    // what rota-init carries out (noded/oci.Plan)
	Script string // the task's script, if it has one
	// names of the command rota in the container, which is mounted as rota; none: it is not there
	Commands []string
}

// WriteBundle fills dir, which it makes if necessary, so that Create can be called with it. It may
// be called again until the container has been created.
func WriteBundle(dir string, b Bundle) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of container %s: %w", b.Settings.ID, err)
	}
	errs := []error{writeJSON(filepath.Join(dir, settingsFile), 0o600, nil, b.Settings)}
	if b.Settings.Several() {
		errs = append(errs, writeJSON(LimitsPath(dir), 0o600, nil, b.Limits), os.MkdirAll(ShmDir(dir), 0o755))
	}
	if b.Settings.Place {
		errs = append(errs, os.MkdirAll(TmpDir(dir), 0o755))
	}
	for i, t := range b.Tasks {
		at := dir
		if b.Settings.Several() {
			at = TaskDir(dir, i)
		}
		errs = append(errs, t.write(at, b.Settings.User))
	}
	return errors.Join(errs...)
}

func (t TaskBundle) write(dir string, owner User) error {
	run := RunDir(dir)
	for _, made := range []string{
		filepath.Join(run, secretsDir), filepath.Join(run, gpusDir), filepath.Join(run, modulesDir),
		filepath.Join(run, checkpointDir), filepath.Join(run, binDir), filepath.Dir(ProgressPath(dir)),
	} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			return err
		}
	}
	for _, name := range t.Commands {
		link := filepath.Join(run, binDir, name)
		if err := errors.Join(removeFile(link), os.Symlink("rota", link)); err != nil {
			return err
		}
	}
	return errors.Join(
		writeJSON(ConfigPath(dir), 0o600, nil, t.Config),
		writeJSON(filepath.Join(run, "launch.json"), 0o400, &owner, t.Plan),
		writeFile(filepath.Join(run, "script"), 0o500, &owner, []byte(t.Script)),
		writeFile(ProgressPath(dir), 0o644, &owner, nil),
		writeFile(filepath.Join(run, "progress.jsonl"), 0o644, nil, nil), // a mount point
		writeFile(filepath.Join(run, "init"), 0o644, nil, nil),           // a mount point
		writeFile(filepath.Join(run, binDir, "rota"), 0o644, nil, nil),   // a mount point
	)
}

// ReadSettings reads what WriteBundle wrote for the shim.
func ReadSettings(dir string) (Settings, error) {
	var s Settings
	if err := readJSON(filepath.Join(dir, settingsFile), &s); err != nil {
		return Settings{}, fmt.Errorf("read shim settings: %w", err)
	}
	return s, nil
}

// Notice tells a job why it is being stopped.
type Notice struct {
	Reason   string `json:"reason"`
	Deadline string `json:"deadline"` // RFC 3339: when it will be killed
	Attempt  int    `json:"attempt"`
	Signal   string `json:"signal"`            // that was sent with it; "": none was
	Message  string `json:"message,omitempty"` // more about the reason
}

// WriteNotice writes the notice to $ROTA_NOTICE_FILE of the container in dir, or of the containers
// of its tasks, whole or not at all.
func WriteNotice(dir string, n Notice) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode notice: %w", err)
	}
	var errs []error
	for _, path := range noticePaths(dir) {
		errs = append(errs, replaceFile(path, 0o644, append(b, '\n')))
	}
	return errors.Join(errs...)
}

// RemoveNotice removes a notice that WriteNotice wrote for a reason. One for another reason stays.
func RemoveNotice(dir, reason string) error {
	var errs []error
	for _, path := range noticePaths(dir) {
		var n Notice
		if readJSON(path, &n) == nil && n.Reason == reason {
			errs = append(errs, removeFile(path))
		}
	}
	return errors.Join(errs...)
}

// noticePaths lists the notices of the container in dir, or of the containers of its tasks.
func noticePaths(dir string) []string {
	runs := []string{RunDir(dir)}
	// the pattern is well formed
	if tasks, _ := filepath.Glob(filepath.Join(dir, taskDir, "*", runDir)); len(tasks) > 0 {
		runs = tasks
	}
	for i := range runs {
		runs[i] = filepath.Join(runs[i], "notice.json")
	}
	return runs
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func writeJSON(path string, mode os.FileMode, owner *User, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return writeFile(path, mode, owner, b)
}

// removeFile removes a file if there is one.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile writes a new file and gives it to owner, or leaves it with the daemon's own user.
func writeFile(path string, mode os.FileMode, owner *User, b []byte) error {
	if err := removeFile(path); err != nil {
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

// replaceFile writes beside path and renames, so that a reader never sees half a file.
func replaceFile(path string, mode os.FileMode, b []byte) error {
	tmp := path + ".tmp"
	if err := writeFile(tmp, mode, nil, b); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
