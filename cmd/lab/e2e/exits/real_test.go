package exits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/logs"
)

// bin is where TestMain builds the programs that containers need.
var bin string

func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // as rota-noded does: under nohup shims would ignore it
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	if bin = os.Getenv("ROTA_TEST_BIN"); bin != "" || os.Geteuid() != 0 {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "rota-exits-bin-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 1, err
	}
	bin = dir
	for program, cgo := range map[string]string{"cmd/rota-shim": "1", "cmd/rota-init": "0"} {
		cmd := exec.Command("go", "build", "-trimpath", "-tags", "seccomp", "-o", dir+"/", "./"+program)
		cmd.Dir, cmd.Env = "../../../..", append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
	}
	return m.Run(), nil
}

// atOnce is how many cells are played at once with real containers: most of their time they wait.
const atOnce = 6

// TestEveryStopAtEveryMomentForReal plays cells in real containers, by the real shim and rota-init.
// By default they are a sample: each stop at each moment and with each launch type, and each moment
// with each launch type and program. ROTA_TEST_LONG=1 plays each stop at each moment with each
// launch type, the programs by turns. With -cells all programs are played.
func TestEveryStopAtEveryMomentForReal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: jobs run in real containers")
	}
	all := slices.DeleteFunc(cells(), func(c cell) bool { return c.impossible() != "" })
	switch {
	case *only != "":
	case os.Getenv("ROTA_TEST_LONG") != "":
		all = triples(all)
	default:
		all = pairs(all)
	}
	var failures atomic.Int64
	var group sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		group.Go(func() {
			for i := range next {
				if err := all[i].playForReal(); err != nil {
					failures.Add(1)
					t.Errorf("%v: %v", all[i], err)
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	group.Wait()
	t.Logf("cells %d, failures %d", len(all), failures.Load())
}

// triples returns a part of some cells that has each stop at each moment with each launch type once. The
// programs take turns.
func triples(all []cell) []cell {
	like := map[string][]cell{}
	var order []string
	for _, c := range all {
		key := fmt.Sprint(c.stop, c.at, c.launch.name)
		if like[key] == nil {
			order = append(order, key)
		}
		like[key] = append(like[key], c)
	}
	out := make([]cell, len(order))
	for i, key := range order {
		out[i] = like[key][i%len(like[key])]
	}
	return out
}

// pairs returns a part of some cells in which each pair of properties is that they have: greedily, in order.
func pairs(all []cell) []cell {
	of := func(c cell) []string {
		stop, at := string(c.stop), string(c.at)
		return []string{stop + ", " + at, stop + ", " + c.launch.name, at + ", " + c.launch.name,
			at + ", " + c.program.name}
	}
	missing := map[string]bool{}
	for _, c := range all {
		for _, p := range of(c) {
			missing[p] = true
		}
	}
	var out []cell
	for len(missing) > 0 {
		best, most := 0, 0
		for i, c := range all {
			n := 0
			for _, p := range of(c) {
				if missing[p] {
					n++
				}
			}
			if n > most {
				best, most = i, n
			}
		}
		out = append(out, all[best])
		for _, p := range of(all[best]) {
			delete(missing, p)
		}
	}
	return out
}

// playForReal plays a cell in real containers.
func (c cell) playForReal() error {
	dir, err := os.MkdirTemp("", "rota-exits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &real{cell: c, dir: filepath.Join(dir, "shared"), cgroup: "/" + filepath.Base(dir)}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(r.dir, 0o755),
		os.Chown(r.dir, int(owner.UID), int(owner.GID))); err != nil {
		return err
	}
	return c.play(r, dir)
}

// real is a stage with real containers. Their programs and the test meet by files in a directory.
type real struct {
	cell
	dir    string
	cgroup string
	homes  []string // of nodes
	shims  []*container.Shims
}

// ranks returns how many processes run the program in each worker.
func (r *real) ranks() int { return max(1, r.launch.gpus) }

// script implements stage.
func (r *real) script() string {
	then := fmt.Sprintf("exit %d", r.cell.program.leaves)
	traps := "trap 'gone TERM' TERM\ntrap 'gone USR1' USR1"
	switch r.cell.program.leaves {
	case dies:
		then = "trap - TERM USR1; kill -$1 $$"
	case ignores:
		traps = "trap '' TERM USR1"
	}
	says := ""
	if r.cell.program.finished {
		says = `echo '{"finished":true}' >> $ROTA_PROGRESS_FILE`
	}
	return strings.NewReplacer("DIR", r.dir, "SAYS", says, "TRAPS", traps, "THEN", then,
		"CODE", strconv.Itoa(r.cell.program.ends), "RANKS", strconv.Itoa(r.ranks())).Replace(
		`exec 2> /dev/null # the shell tells of each sleep that a signal ends
W=${ROTA_WORKER:-0}
K=$W.${ROTA_LOCAL_RANK:-0}.$ROTA_ATTEMPT
: > DIR/executing.$K
until [ -e DIR/begin ]; do sleep 0.03; done
gone() {
  echo leaving
  : > DIR/leaving.$K
  until [ -e DIR/leave ]; do sleep 0.03; done
  THEN
}
SAYS
TRAPS
echo begun
: > DIR/begun.$K
until [ -e DIR/end ]; do sleep 0.03; done
trap '' TERM USR1 # the first rank that fails has the others stopped
: > DIR/ended.$K
until [ $(ls -d DIR/ended.$W.* | wc -l) = RANKS ]; do sleep 0.03; done
exit CODE
`)
}

// open implements stage.
func (r *real) open(n *node, dir string) (container.Runtime, noded.Bundles, error) {
	home, cgroup := filepath.Join(dir, n.name), r.cgroup+"-"+n.name
	r.homes = append(r.homes, home)
	kept := &logs.Store{Containers: filepath.Join(home, "containers"), Dir: filepath.Join(home, "logs")}
	if err := os.MkdirAll(kept.Dir, 0o755); err != nil {
		return nil, nil, err
	}
	b, err := bundle.Open(bundle.Config{Node: n.name, Hostname: n.name, Logs: kept, RootDir: filepath.Join(home, "root"),
		CgroupRoot: cgroup, SharedPaths: []string{r.dir}, InitPath: filepath.Join(bin, "rota-init")})
	if err != nil {
		return nil, nil, err
	}
	s, err := container.NewShims(container.Config{Dir: kept.Containers, ShimPath: filepath.Join(bin, "rota-shim"),
		CgroupRoot: cgroup})
	if err != nil {
		return nil, nil, err
	}
	r.shims = append(r.shims, s)
	return s, b, nil
}

// touch makes a file that programs wait for. A program that polls it a moment later goes on.
func (r *real) touch(name string) {
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o644); err != nil {
		panic(err) // in a directory of the test
	}
}

// all reports whether each rank of a worker's first attempt has made a file.
func (r *real) all(name string, worker int) bool {
	for rank := range r.ranks() {
		if _, err := os.Stat(filepath.Join(r.dir, fmt.Sprintf("%s.%d.%d.1", name, worker, rank))); err != nil {
			return false
		}
	}
	return true
}

func (r *real) executing(worker int) bool { return r.all("executing", worker) }

// begun implements stage. The line is in the log, so that nothing of it is lost with the shim.
func (r *real) begun(worker int) bool {
	return r.all("begun", worker) && slices.Contains(r.saidBy(worker), "begun")
}

// begin implements stage. A program that is not to linger may leave at once.
func (r *real) begin() {
	if r.at != inGrace {
		r.touch("leave")
	}
	r.touch("begin")
}

func (r *real) linger()               {}
func (r *real) leave()                { r.touch("leave") }
func (r *real) leaving(w int) bool    { return r.cell.program.leaves == ignores || r.all("leaving", w) }
func (r *real) id(w int) container.ID { return container.ID{Job: 1, Attempt: 1, Worker: w} }

// programs lists the workers that run the program.
func (r *real) programs() int {
	if r.launch.kind == jobspec.LaunchSteps {
		return 1
	}
	return r.workers()
}

// shim sends a signal to the shim of a worker.
func (r *real) shim(worker int, s unix.Signal) error {
	b, err := os.ReadFile(filepath.Join(r.homes[worker], "containers", r.id(worker).String(), "shim.pid"))
	var p container.Process
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err == nil {
		err = unix.Kill(p.Pid, s)
	}
	if s == unix.SIGCONT && (errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrNotExist)) {
		return nil // it went on before, and has ended
	}
	return err
}

// end implements stage. A shim that is stopped does not notice that its container has ended.
func (r *real) end(nodes []*node, hidden bool) error {
	if !hidden {
		r.touch("end")
		return nil
	}
	var first []int
	for worker := range r.programs() {
		if err := r.shim(worker, unix.SIGSTOP); err != nil {
			return err
		}
		list, err := nodes[worker].bare.List(context.Background())
		if err != nil {
			return err
		}
		for _, s := range list {
			first = append(first, s.Pid)
		}
	}
	r.touch("end")
	for end := time.Now().Add(patience); slices.ContainsFunc(first, lives); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the programs do not end within %v", patience)
		}
	}
	return nil
}

// lives reports whether a process has not ended. One that its parent has not waited for has ended.
func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// notice implements stage.
func (r *real) notice([]*node) error {
	var errs []error
	for worker := range r.programs() {
		errs = append(errs, r.shim(worker, unix.SIGCONT))
	}
	return errors.Join(errs...)
}

// lapse implements stage. A program in its grace must hear of it before it leaves.
func (r *real) lapse(n *node) error {
	list, err := n.bare.List(context.Background())
	if err != nil {
		return err
	}
	for _, s := range list {
		end := func() { _ = n.bare.Renew(context.Background(), s.ID, time.Now()) } // it may have ended
		if r.at == exiting {
			go end() // a shim that is stopped answers later
			continue
		}
		if end(); r.at != inGrace || s.State != container.Running {
			continue
		}
		for late := time.Now().Add(patience); !r.noticed(s.ID); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				return fmt.Errorf("%v has no notice of the end of its lease within %v", s.ID, patience)
			}
		}
	}
	return nil
}

// noticed reports whether a worker has the notice that its lease has ended, or is gone.
func (r *real) noticed(id container.ID) bool {
	found := false
	dir := filepath.Join(r.homes[id.Worker], "containers", id.String())
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() == "notice.json" {
			b, _ := os.ReadFile(path)
			found = found || strings.Contains(string(b), `"lease"`)
		}
		return nil // what is being removed is passed over
	})
	_, err := os.Stat(filepath.Join(dir, "shim.sock"))
	return found || err != nil
}

// says implements stage.
func (r *real) says() ([]string, bool) { return r.saidBy(0), true }

// saidBy returns what the program of a worker has written.
func (r *real) saidBy(worker int) []string {
	var lines []string
	_ = filepath.WalkDir(r.homes[worker], func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.HasPrefix(e.Name(), "stdout") &&
			strings.Contains(path, "/"+r.id(worker).String()+"/") && !strings.Contains(path, "/side/") {
			b, _ := os.ReadFile(path)
			lines = append(lines, strings.Fields(string(b))...)
		}
		return nil // what is being removed is passed over
	})
	slices.Sort(lines) // those of ranks are mixed
	return slices.Compact(lines)
}

// close implements stage. It reports what is left of containers.
func (r *real) close() error {
	var errs []error
	for _, s := range r.shims {
		errs = append(errs, s.Close())
	}
	for _, top := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup"} {
		found, _ := filepath.Glob(top + r.cgroup + "-n?") // the pattern is well formed
		for _, dir := range found {
			err := removeCgroup(dir)
			for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); err = removeCgroup(dir) {
				time.Sleep(time.Millisecond) // a shim may be about to end
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeCgroup removes the parent of containers' cgroups, and the shims' beside them. A cgroup of a container
// that is left is a fault.
func removeCgroup(dir string) error {
	_ = os.Remove(filepath.Join(dir, container.ShimsGroup))
	err := os.Remove(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
