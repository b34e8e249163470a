package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

var (
	killsFlag = flag.Int("kills", 12, "how often the daemon is killed in TestDaemonKilledAnywhere")
	seedFlag  = flag.Uint64("seed", 0, "the one seed of TestDaemonKilledAnywhere")
)

// envDoomed makes this program a daemon that is to be killed: it is the directory of the
// containers. Shims inherit the variable.
const envDoomed = "ROTA_TEST_DOOMED"

// doomed creates, runs and removes the containers whose bundles it finds, until it is killed.
func doomed(dir string) error {
	shims, err := container.NewShims(container.Config{Dir: dir, ShimPath: os.Getenv(envDoomed + "_SHIM"), Warm: 1})
	if err != nil {
		return err
	}
	runtime.LockOSThread() // with which cp would end
	fmt.Println("ready")
	ctx := context.Background()
	for n := int64(1); ; n = n%3 + 1 {
		id := container.ID{Job: n, Attempt: 1}
		saved := filepath.Join(filepath.Dir(dir), "bundles", id.String())
		cp := exec.Command("cp", "-a", saved, dir)
		// or it would go on after this daemon was killed
		cp.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cp.Run(); err != nil {
			return err
		}
		if err := shims.Create(ctx, id, shims.Path(id), time.Now().Add(time.Hour)); err != nil {
			return err
		}
		if err := shims.Start(ctx, id); err != nil {
			return err
		}
		for over := false; !over; {
			list, err := shims.List(ctx)
			if err != nil {
				return err
			}
			for _, s := range list {
				over = over || s.ID == id && s.State == container.Exited
			}
			time.Sleep(time.Millisecond)
		}
		if err := shims.Remove(ctx, id); err != nil {
			return err
		}
	}
}

// TestDaemonKilledAnywhere kills the daemon at random moments: the next one finds every existing
// container, can end and remove it, and leaves no others.
func TestDaemonKilledAnywhere(t *testing.T) {
	n := newNode(t, 0)
	bundles := filepath.Join(filepath.Dir(n.dir), "bundles")
	for job := int64(1); job <= 3; job++ {
		id := container.ID{Job: job, Attempt: 1}
		var dir string
		if job == 3 {
			dir = n.tasks(id, "", mainTask("main", "sleep 0.05"), sidecar("side", "poststart", "exec sleep 1000"))
		} else {
			dir = n.bundle(id, "sleep 0.05; exit 3")
		}
		check(t, os.MkdirAll(bundles, 0o755))
		check(t, os.Rename(dir, filepath.Join(bundles, id.String())))
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	for k := range *killsFlag {
		check(t, n.shims.Close())
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envDoomed+"="+n.dir, envDoomed+"_SHIM="+filepath.Join(binaries, "rota-shim"))
		out, err := cmd.StdoutPipe()
		check(t, err)
		cmd.Stderr = os.Stderr
		check(t, cmd.Start())
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(dice.IntN(400_000)) * time.Microsecond)
		check(t, cmd.Process.Kill())
		_ = cmd.Wait()
		n.open(0)
		list, err := n.shims.List(t.Context())
		check(t, err)
		for _, s := range list {
			check(t, n.shims.Kill(t.Context(), s.ID))
			if end := n.await(s.ID); end.State == container.Lost {
				t.Errorf("seed %d, kill %d: %v was %s and is lost: %s", seed, k, s.ID, s.State, end.Why)
			}
		}
		for job := int64(1); job <= 3; job++ {
			check(t, n.shims.Remove(t.Context(), container.ID{Job: job, Attempt: 1}))
		}
		eventually(t, "no shim is left", func() bool { return len(marked(n.dir)) == 0 })
		if left := cgroupsAt(cgroupRoot + "/[0-9]*"); len(left) > 0 {
			t.Fatalf("seed %d, kill %d: cgroups left: %v", seed, k, left)
		}
		if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), n.dir) {
			t.Fatalf("seed %d, kill %d: mounts left", seed, k)
		}
		if left, _ := filepath.Glob(n.dir + "/*/[^l]*"); len(left) > 0 {
			t.Fatalf("seed %d, kill %d: files left: %v", seed, k, left)
		}
		for job := 1; job <= 3; job++ {
			check(t, os.RemoveAll(filepath.Join(n.dir, fmt.Sprintf("%d.1.0", job))))
		}
	}
}

// marked lists the processes of a doomed daemon.
func marked(dir string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), envDoomed+"="+dir+"\x00") {
			found = append(found, file)
		}
	}
	return found
}
