package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/requirements/criutest"
)

// criu returns a program that saves containers, or skips the test: `make criu` fetches one. Without
// CAP_SYS_RESOURCE it can only save what runs as root.
func (n *node) criu(t testing.TB) container.Criu {
	t.Helper()
	path := os.Getenv("ROTA_TEST_CRIU")
	if path == "" {
		path = "../../bin/criu"
	}
	path, version := criutest.Find(t, path)
	if n.asRoot = !hasCapability(t, unix.CAP_SYS_RESOURCE); n.asRoot {
		check(t, os.Chown(n.shared, 0, 0)) // this root has no capabilities
	}
	return container.Criu{Path: path, Version: version}
}

func hasCapability(t testing.TB, number int) bool {
	var data [2]unix.CapUserData
	check(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]))
	return data[number/32].Effective&(1<<(number%32)) != 0
}

func (n *node) saves(t *testing.T) container.Criu { return n.criu(t) }

// connects returns a script that has a connection, which CRIU does not save.
func (n *node) connects() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(n.t, err)
	n.t.Cleanup(func() { _ = l.Close() })
	return fmt.Sprintf(`#!/bin/bash
trap 'exit 85' TERM
exec 5<>/dev/tcp/127.0.0.1/%d
sleep 1000 & echo ready; wait`, l.Addr().(*net.TCPAddr).Port)
}

// counter counts, holds memory of so many bytes and files of several kinds, and says if one is not as it left it.
const counter = `#!/usr/bin/python3
import ctypes, mmap, os, sys, threading, time
child, parent = os.pipe()
if os.fork() == 0:
    while True: os.write(parent, b"x"); time.sleep(0.001)
memory = bytearray(os.urandom(4096) * (int(os.environ["HELD"]) // 4096))
page = bytes(memory[:4096])
open("/tmp/own", "w").write("kept")
shared = open("/dev/shm/own", "w+b"); shared.truncate(8192); shared = mmap.mmap(shared.fileno(), 8192)
gone = open("/tmp/gone", "w+"); gone.write("kept"); gone.flush(); os.unlink("/tmp/gone")
ticks = [0]
def tick():
    while True: ticks[0] += 1; time.sleep(0.001)
threading.Thread(target=tick, daemon=True).start()
n = 0
begun = time.monotonic()
while True:
    n += 1
    shared[:8] = n.to_bytes(8, "little")
    os.read(child, 1)
    before = ticks[0]
    while ticks[0] == before: time.sleep(0.001)
    gone.seek(0)
    if open("/tmp/own").read() + gone.read() != "keptkept": print("file is lost", flush=True)
    if memory[-4096:] != page or int.from_bytes(shared[:8], "little") != n: print("memory is lost", flush=True)
    if not 0 <= time.monotonic() - begun < 3600: print("the clock went", time.monotonic() - begun, flush=True)
    ring = ctypes.CDLL(None).syscall(250, 0, -3, 0)
    print("ready", n, ring, os.environ["ROTA_ATTEMPT"], flush=True)
`

// holding has bundles from now on hold so much memory.
func (n *node) holding(size int64) {
	n.mutate = func(in *oci.Input) {
		t := &in.Alloc.Spec.Groups[0].Tasks[0]
		t.Resources.Memory = jobspec.Bytes(size) + 256*jobspec.MiB
		t.Env = map[string]string{"HELD": strconv.FormatInt(size, 10)}
	}
}

// saved waits for what becomes of an order to save a container: "" if it was saved.
func (n *node) saved(t testing.TB, id container.ID, o container.SaveOrder) string {
	t.Helper()
	check(t, n.shims.Save(context.Background(), id, o))
	late := time.After(60 * time.Second)
	for {
		list, err := n.shims.List(context.Background())
		check(t, err)
		for _, s := range list {
			switch {
			case s.ID != id:
			case s.Exit != nil && s.Exit.Saved:
				return ""
			case s.State != container.Running:
				t.Fatalf("it ended: %+v, %+v\n%s", s, s.Exit, n.output(id))
			case s.Save.Problem != "":
				return s.Save.Problem
			}
		}
		select {
		case <-n.shims.Changes():
		case <-late:
			t.Fatalf("it was not saved: %+v", list)
		}
	}
}

func (n *node) saveInto(criu container.Criu, name string, within time.Duration) container.SaveOrder {
	return container.SaveOrder{Dir: filepath.Join(filepath.Dir(n.dir), name), Criu: criu, WithinMS: within.Milliseconds()}
}

// restored starts a container that goes on from an image, and waits until it runs or has ended.
func (n *node) restored(t testing.TB, id container.ID, script string, r container.Restore) container.Status {
	t.Helper()
	n.restore = &r
	dir := n.bundle(id, script)
	n.restore = nil
	check(t, n.shims.Create(context.Background(), id, dir, time.Now().Add(time.Hour)))
	check(t, n.shims.Start(context.Background(), id))
	late := time.After(60 * time.Second)
	for {
		list, err := n.shims.List(context.Background())
		check(t, err)
		for _, s := range list {
			if s.ID == id && s.State != container.Created {
				return s
			}
		}
		select {
		case <-n.shims.Changes():
		case <-late:
			t.Fatalf("it was not restored: %+v", list)
		}
	}
}

// counts returns the last whole line of a counter's output, as numbers.
func (n *node) counts(id container.ID) (list []int) {
	out := n.output(id)
	out = strings.TrimSpace(out[:strings.LastIndexByte(out, '\n')+1])
	for _, word := range strings.Fields(strings.TrimPrefix(out[strings.LastIndexByte(out, '\n')+1:], "ready")) {
		number, _ := strconv.Atoi(word)
		list = append(list, number)
	}
	return append(list, 0)
}

// TestSavedProgramGoesOn has a program with threads, a child, memory and files saved and restored twice,
// under the filter of system calls that jobs have.
func TestSavedProgramGoesOn(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	n.holding(20 << 20)
	held := n.mutate
	filter, err := bundle.Seccomp(false)
	check(t, err)
	n.mutate = func(in *oci.Input) { held(in); in.Node.Seccomp = filter }
	n.log.Join = false
	check(t, n.shims.Create(t.Context(), one, n.bundle(one, counter), time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	id, all := one, ""
	for round := range 2 {
		o := n.saveInto(criu, fmt.Sprint("image", round), time.Minute)
		if why := n.saved(t, id, o); why != "" {
			t.Fatal(why)
		}
		all += n.output(id)
		last := n.counts(id)
		id.Attempt++
		if s := n.restored(t, id, counter, container.Restore{Dir: o.Dir, Criu: criu}); s.State != container.Running {
			t.Fatalf("%+v %+v", s, s.Exit)
		}
		eventually(t, "it counts on", func() bool { return n.counts(id)[0] > last[0]+10 })
		n.checkFenced(t, id)
		if daemons, _ := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); n.counts(id)[1] == daemons {
			t.Errorf("it has the daemon's session keyring %d", daemons)
		}
		if info, err := os.Stat(o.Dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
	}
	check(t, n.shims.Signal(t.Context(), id, container.Signal{Number: int(unix.SIGTERM)}))
	if e := n.await(id).Exit; e == nil || e.Signal != int(unix.SIGTERM) || e.Saved {
		t.Errorf("%+v", e)
	}
	number := 0
	for line := range strings.Lines(all + n.output(id)) {
		number++
		if !strings.HasPrefix(line, fmt.Sprintf("ready %d ", number)) {
			t.Fatalf("line %d is %q", number, line)
		}
	}
}

// checkFenced checks that no process of a container may more than those of one that was started.
func (n *node) checkFenced(t *testing.T, id container.ID) {
	t.Helper()
	count := 0
	for pid := range strings.FieldsSeq(read(t, countsProcesses(cgroupRoot+"/"+id.String()+"/cgroup.procs"))) {
		status := read(t, "/proc/"+pid+"/status")
		count++
		for _, line := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000",
			"CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(status, "\n"+line+"\n") {
				t.Errorf("process %s lacks %q:\n%s", pid, line, status)
			}
		}
	}
	if count < 3 {
		t.Errorf("it has %d processes", count)
	}
}

// TestSaveGivenUp ends CRIU at any moment: a container that is not saved goes on where it was.
func TestSaveGivenUp(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	n.holding(50 << 20)
	seed := uint64(time.Now().UnixNano())
	if *seedFlag != 0 {
		seed = *seedFlag
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	id, saved, kept := one, 0, 0
	check(t, n.shims.Create(t.Context(), id, n.bundle(id, counter), time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), id))
	n.ready(t, id)
	for round := range *givenUpFlag {
		o := n.saveInto(criu, fmt.Sprint("image", round), time.Duration(1+dice.IntN(400))*time.Millisecond)
		why := n.saved(t, id, o)
		if _, err := os.Stat(container.PartOfImage(o.Dir)); err == nil {
			t.Errorf("seed %d, round %d: a part of an image is left", seed, round)
		}
		last := n.counts(id)[0]
		if why != "" {
			kept++
			if _, err := os.Stat(o.Dir); err == nil || !strings.Contains(why, "took too long") {
				t.Fatalf("seed %d, round %d: %s; its image: %v", seed, round, why, err)
			}
		} else {
			saved++
			id.Attempt++
			if s := n.restored(t, id, counter, container.Restore{Dir: o.Dir, Criu: criu}); s.State != container.Running {
				t.Fatalf("seed %d, round %d: %+v %+v", seed, round, s, s.Exit)
			}
			check(t, os.RemoveAll(o.Dir))
		}
		late := time.Now().Add(20 * time.Second)
		for n.counts(id)[0] <= last+5 {
			if time.Now().After(late) {
				list, _ := n.shims.List(t.Context())
				t.Fatalf("seed %d, round %d: it stands still (%q): %+v, %+v\n%s", seed, round, why, list,
					list[len(list)-1].Exit, n.processes(id))
			}
		}
		if out := n.output(id); strings.Contains(out, "lost") || strings.Contains(out, "went") {
			t.Fatalf("seed %d, round %d (%q): %s", seed, round, why, out)
		}
	}
	t.Logf("seed %d: %d times saved, %d times not", seed, saved, kept)
}

// processes describes what a container's processes do.
func (n *node) processes(id container.ID) (text string) {
	pids, _ := os.ReadFile(countsProcesses(cgroupRoot + "/" + id.String() + "/cgroup.procs"))
	for pid := range strings.FieldsSeq(string(pids)) {
		tasks, _ := filepath.Glob("/proc/" + pid + "/task/*")
		for _, dir := range tasks {
			status, _ := os.ReadFile(dir + "/status")
			wchan, _ := os.ReadFile(dir + "/wchan")
			_, state, _ := strings.Cut(string(status), "State:")
			text += dir + state[:min(len(state), 20)] + " " + string(wchan) + "\n"
		}
	}
	return text
}

var givenUpFlag = flag.Int("given-up", 6, "how often CRIU is ended in TestSaveGivenUp")

// TestMountsOfTheMachineAreNotSaved notices a container that goes on with a copy of a file system that others
// write to.
func TestMountsOfTheMachineAreNotSaved(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	n.holding(1 << 20)
	inner := n.shared + "/in ner"
	check(t, os.Mkdir(inner, 0o755))
	check(t, unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { check(t, unix.Unmount(inner, unix.MNT_DETACH)) })
	check(t, n.shims.Create(t.Context(), one, n.bundle(one, counter), time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	if why := n.saved(t, one, n.saveInto(criu, "image", time.Minute)); !strings.Contains(why, "file system at "+inner) {
		t.Errorf("got %q", why)
	}
	n.endsWithItsShim(t, one) // from then on by the kernel
}

// TestRestoredMountChanged notices a program that runs although something else is mounted than what its user
// reaches.
func TestRestoredMountChanged(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	script := fmt.Sprintf("#!/bin/bash\nwhile true; do echo x >>%s/ran; echo ready; sleep 0.001; done", n.shared)
	good, other := n.shared+"/good", n.shared+"/other"
	check(t, errors.Join(os.Mkdir(good, 0o755), os.Mkdir(other, 0o755)))
	n.guards = []container.Guard{{Source: good, Target: "/mine"}}
	mounted := good
	mount := func(dir string) {
		editSpec(t, dir, func(s *specs.Spec) {
			s.Mounts = append(s.Mounts, specs.Mount{Destination: "/mine", Type: "bind", Source: mounted,
				Options: []string{"rbind", "ro"}})
		})
	}
	dir := n.bundle(one, script)
	mount(dir)
	check(t, n.shims.Create(t.Context(), one, dir, time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	r := container.Restore{Dir: n.saveInto(criu, "image", time.Minute).Dir, Criu: criu}
	if why := n.saved(t, one, n.saveInto(criu, "image", time.Minute)); why != "" {
		t.Fatal(why)
	}
	for attempt, source := range []string{other, good} {
		id := container.ID{Job: 1, Attempt: attempt + 2}
		before := len(read(t, n.shared+"/ran"))
		n.restore, mounted = &r, source
		dir := n.bundle(id, script)
		mount(dir)
		check(t, n.shims.Create(t.Context(), id, dir, time.Now().Add(time.Hour)))
		check(t, n.shims.Start(t.Context(), id))
		if source == good {
			eventually(t, "it goes on", func() bool { return len(read(t, n.shared+"/ran")) > before })
			continue
		}
		e := n.await(id).Exit
		if e == nil || !e.NotRestored || !strings.Contains(e.Why, "changed while it was being mounted") {
			t.Errorf("%+v", e)
		}
		if after := len(read(t, n.shared+"/ran")); after != before {
			t.Error("it ran")
		}
	}
}

// TestKilledWhileSaved and while it is restored, at any moment: nothing of the container is left, and the
// record says what is true.
func TestKilledWhileSaved(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	n.holding(20 << 20)
	seed := uint64(time.Now().UnixNano())
	if *seedFlag != 0 {
		seed = *seedFlag
	}
	dice := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	begin := func(id container.ID) {
		check(t, n.shims.Create(t.Context(), id, n.bundle(id, counter), time.Now().Add(time.Hour)))
		check(t, n.shims.Start(t.Context(), id))
		n.ready(t, id)
	}
	begin(one)
	whole := n.saveInto(criu, "whole", time.Minute)
	if why := n.saved(t, one, whole); why != "" {
		t.Fatal(why)
	}
	stops := []func(id container.ID) error{
		func(id container.ID) error { return n.shims.Kill(t.Context(), id) },
		func(id container.ID) error { return n.shims.Renew(t.Context(), id, time.Now()) },
		func(id container.ID) error {
			return n.shims.Signal(t.Context(), id, container.Signal{Number: int(unix.SIGTERM)})
		},
		func(id container.ID) error {
			if err := unix.Kill(n.shimPid(t, id), unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
				return err
			}
			return nil // it was saved already
		},
	}
	for round := range *givenUpFlag {
		for kind, stop := range stops {
			id := container.ID{Job: int64(10 + kind), Attempt: 1 + round}
			o := n.saveInto(criu, fmt.Sprintf("image%d.%d", kind, round), time.Minute)
			restoring := dice.IntN(2) == 1
			if restoring {
				n.restore = &container.Restore{Dir: whole.Dir, Criu: criu}
				dir := n.bundle(id, counter)
				n.restore = nil
				check(t, n.shims.Create(t.Context(), id, dir, time.Now().Add(time.Hour)))
				check(t, n.shims.Start(t.Context(), id))
			} else {
				begin(id)
				check(t, n.shims.Save(t.Context(), id, o))
			}
			time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond) // a moment to be killed at
			check(t, stop(id))
			s := n.await(id)
			_, err := container.ReadSaved(o.Dir)
			what := fmt.Sprintf("seed %d, round %d, stop %d, restoring %v", seed, round, kind, restoring)
			switch {
			case s.State == container.Lost && kind == 3:
			case s.Exit == nil || s.Exit.NotRestored || s.Exit.Saved != (err == nil):
				t.Errorf("%s: %+v, %+v; the image: %v", what, s, s.Exit, err)
			case restoring && s.Exit.Saved:
				t.Errorf("%s: %+v, %+v", what, s, s.Exit)
			}
			check(t, n.shims.Remove(t.Context(), id))
			if left := cgroupsAt(cgroupRoot + "/" + id.String()); len(left) > 0 {
				t.Errorf("%s: cgroups left: %v", what, left)
			}
		}
	}
}

// TestRestoredEndsWithItsShim notices a restored container that outlives a shim that is killed while no
// daemon runs, and so its lease.
func TestRestoredEndsWithItsShim(t *testing.T) {
	n := newNode(t, 0)
	criu := n.criu(t)
	n.holding(1 << 20)
	check(t, n.shims.Create(t.Context(), one, n.bundle(one, counter), time.Now().Add(time.Hour)))
	check(t, n.shims.Start(t.Context(), one))
	n.ready(t, one)
	o := n.saveInto(criu, "image", time.Minute)
	if why := n.saved(t, one, o); why != "" {
		t.Fatal(why)
	}
	id := container.ID{Job: 1, Attempt: 2}
	if s := n.restored(t, id, counter, container.Restore{Dir: o.Dir, Criu: criu}); s.State != container.Running {
		t.Fatalf("%+v %+v", s, s.Exit)
	}
	n.ready(t, id)
	n.endsWithItsShim(t, id)
}

// endsWithItsShim kills the shim of a container while no daemon runs.
func (n *node) endsWithItsShim(t *testing.T, id container.ID) {
	t.Helper()
	procs := countsProcesses(cgroupRoot + "/" + id.String() + "/cgroup.procs")
	check(t, n.shims.Close())
	n.killShim(t, id)
	eventually(t, "every process is gone", func() bool { b, _ := os.ReadFile(procs); return len(b) == 0 })
	n.open(0)
}

// BenchmarkSave has a program saved and restored, and tells how long both take from the order until the
// runtime says that it is done, and how large the image is.
func BenchmarkSave(b *testing.B) {
	for _, held := range []int64{1 << 20, 200 << 20} {
		b.Run(fmt.Sprintf("%dMB", held>>20), func(b *testing.B) {
			n := newNode(b, 0)
			criu := n.criu(b)
			n.holding(held)
			id := one
			check(b, n.shims.Create(b.Context(), id, n.bundle(id, counter), time.Now().Add(time.Hour)))
			check(b, n.shims.Start(b.Context(), id))
			n.ready(b, id)
			var save, restore []time.Duration
			var size int64
			for b.Loop() {
				began := time.Now()
				o := n.saveInto(criu, id.String(), time.Minute)
				if why := n.saved(b, id, o); why != "" {
					b.Fatal(why)
				}
				save = append(save, time.Since(began))
				image, err := container.ReadSaved(o.Dir)
				check(b, err)
				size = image.Bytes()
				id.Attempt++
				began = time.Now()
				s := n.restored(b, id, counter, container.Restore{Dir: o.Dir, Criu: criu})
				if s.State != container.Running {
					b.Fatalf("%+v %+v", s, s.Exit)
				}
				restore = append(restore, time.Since(began))
				check(b, os.RemoveAll(o.Dir))
				n.ready(b, id)
			}
			for what, took := range map[string][]time.Duration{"save": save, "restore": restore} {
				slices.Sort(took)
				for _, percent := range []int{50, 99} {
					at := took[(len(took)-1)*percent/100]
					b.ReportMetric(float64(at.Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", what, percent))
				}
			}
			b.ReportMetric(float64(size)/(1<<20), "image-MiB")
		})
	}
}
