package containertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

var (
	two   = container.ID{Job: 1, Attempt: 2}
	three = container.ID{Job: 1, Attempt: 3}
)

// saveOrder returns an order to save into a new directory.
func saveOrder(t *testing.T, criu container.Criu) container.SaveOrder {
	return container.SaveOrder{Dir: filepath.Join(t.TempDir(), "image"), Criu: criu, WithinMS: limit.Milliseconds()}
}

// save has a running container saved, and returns the image.
func (h *Harness) save(t *testing.T, id container.ID, criu container.Criu) string {
	t.Helper()
	o := saveOrder(t, criu)
	must(t, h.Runtime.Save(t.Context(), id, o))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		s := h.status(t, id)
		if s.State == container.Exited {
			if !s.Exit.Saved || s.Exit.NotRestored {
				t.Fatalf("exit record %+v", *s.Exit)
			}
			break
		}
		if s.Save.Problem != "" {
			t.Fatalf("it was not saved: %s", s.Save.Problem)
		}
		select {
		case <-h.Runtime.Changes():
		case <-ctx.Done():
			t.Fatalf("container %s was not saved: %+v", id, h.status(t, id))
		}
	}
	must(t, h.Runtime.Save(t.Context(), id, o)) // a repeated order changes nothing
	must(t, h.Runtime.Remove(t.Context(), id))
	saved, err := container.ReadSaved(o.Dir)
	must(t, err)
	if saved.Bytes() == 0 || saved.Criu != criu.Version {
		t.Errorf("the image is said to be %+v", saved)
	}
	return o.Dir
}

// createFrom creates a container that is to go on from an image.
func (h *Harness) createFrom(t *testing.T, id container.ID, k Kind, r container.Restore) {
	t.Helper()
	must(t, h.Runtime.Create(t.Context(), id, h.BundleFrom(t, id, k, r), time.Now().Add(time.Hour)))
	if s := h.status(t, id); s.State != container.Created {
		t.Errorf("after Create: %+v", s)
	}
}

func (h *Harness) restore(t *testing.T, id container.ID, k Kind, r container.Restore) {
	t.Helper()
	h.createFrom(t, id, k, r)
	must(t, h.Runtime.Start(t.Context(), id))
	must(t, h.Runtime.Start(t.Context(), id))
	if s := h.await(t, id, container.Running); s.Pid == 0 {
		t.Errorf("after Start: %+v", s)
	}
}

// testSave has a container saved and restored twice, with a restart of the daemon between.
func testSave(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	h.restore(t, two, Saves, container.Restore{Dir: h.save(t, one, criu), Criu: criu})
	h.Runtime = h.Restart(t)
	if s := h.status(t, two); s.State != container.Running {
		t.Fatalf("after a restart of the daemon: %+v", s)
	}
	h.restore(t, three, Saves, container.Restore{Dir: h.save(t, two, criu), Criu: criu})
	must(t, h.Runtime.Signal(t.Context(), three, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, three, container.Exit{Code: 85})
}

// testNotSaved notices a container that does not go on as before when it cannot be saved.
func testNotSaved(k Kind) func(*testing.T, *Harness) {
	return func(t *testing.T, h *Harness) {
		o := saveOrder(t, h.Saves(t))
		h.run(t, one, k)
		why := ""
		if err := h.Runtime.Save(t.Context(), one, o); err != nil {
			why = err.Error()
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		for why == "" {
			s := h.status(t, one)
			if why = s.Save.Problem; why != "" || s.State != container.Running {
				break
			}
			select {
			case <-h.Runtime.Changes():
			case <-ctx.Done():
				t.Fatalf("%+v", h.status(t, one))
			}
		}
		if s := h.status(t, one); s.State != container.Running {
			t.Fatalf("it does not go on: %+v", s)
		}
		for _, path := range []string{o.Dir, container.PartOfImage(o.Dir)} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
		must(t, h.Runtime.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
		h.ends(t, one, container.Exit{Code: 85})
	}
}

func testSaveBeforeStart(t *testing.T, h *Harness) {
	o := saveOrder(t, h.Saves(t))
	h.create(t, one, Runs, time.Now().Add(time.Hour))
	if err := h.Runtime.Save(t.Context(), one, o); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("%v", err)
	}
	must(t, h.Runtime.Kill(t.Context(), one))
	h.ends(t, one, container.Exit{Signal: int(unix.SIGKILL), Unbegun: true})
}

func testSaveFrozen(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	must(t, h.Runtime.Switch(t.Context(), one, container.SwitchOrder{Number: 1}))
	h.switched(t, one, 1)
	h.restore(t, two, Saves, container.Restore{Dir: h.save(t, one, criu), Criu: criu})
	must(t, h.Runtime.Signal(t.Context(), two, container.Signal{Number: int(unix.SIGTERM)}))
	h.ends(t, two, container.Exit{Code: 85})
}

func testImageNotWhole(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	dir := h.save(t, one, criu)
	files, err := os.ReadDir(dir)
	must(t, err)
	must(t, os.Truncate(filepath.Join(dir, files[0].Name()), 1))
	for i, dir := range []string{dir, filepath.Dir(dir), "/nowhere"} {
		id := container.ID{Job: int64(i + 2), Attempt: 1}
		r := container.Restore{Dir: dir, Criu: criu}
		err := h.Runtime.Create(t.Context(), id, h.BundleFrom(t, id, Saves, r), time.Now().Add(time.Hour))
		if err == nil || !strings.Contains(err.Error(), "is incomplete") {
			t.Errorf("from %s: %v", dir, err)
		}
		must(t, h.Runtime.Remove(t.Context(), id))
	}
}

// testNotRestored notices an image that cannot be restored and is taken for a job that has failed.
func testNotRestored(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	dir := h.save(t, one, criu)
	saved, err := container.ReadSaved(dir)
	must(t, err)
	for name, size := range saved.Files {
		must(t, os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600))
	}
	h.createFrom(t, two, Saves, container.Restore{Dir: dir, Criu: criu})
	must(t, h.Runtime.Start(t.Context(), two))
	e := h.await(t, two, container.Exited).Exit
	if !e.NotRestored || e.Why == "" || e.Saved {
		t.Errorf("exit record %+v", *e)
	}
	h.ends(t, two, container.Exit{Signal: int(unix.SIGKILL)})
}

func testKilledBeforeRestore(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	h.createFrom(t, two, Saves, container.Restore{Dir: h.save(t, one, criu), Criu: criu})
	must(t, h.Runtime.Kill(t.Context(), two))
	if e := h.await(t, two, container.Exited).Exit; e.NotRestored {
		t.Errorf("exit record %+v", *e)
	}
	h.ends(t, two, container.Exit{Signal: int(unix.SIGKILL), Unbegun: true})
}

func testRestoredLease(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	h.restore(t, two, Saves, container.Restore{Dir: h.save(t, one, criu), Criu: criu})
	must(t, h.Runtime.Renew(t.Context(), two, time.Now().Add(50*time.Millisecond)))
	h.ends(t, two, container.Exit{Code: 85, Lease: true})
}

func testRestoredShimKilled(t *testing.T, h *Harness) {
	criu := h.Saves(t)
	h.run(t, one, Saves)
	h.restore(t, two, Saves, container.Restore{Dir: h.save(t, one, criu), Criu: criu})
	h.KillShim(t, two)
	if s := h.await(t, two, container.Lost); s.Why == "" || s.Exit != nil {
		t.Errorf("after the shim was killed: %+v", s)
	}
	must(t, h.Runtime.Remove(t.Context(), two))
}
