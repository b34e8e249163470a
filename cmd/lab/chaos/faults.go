package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// How long a daemon may take to come up or to give up, on a machine that is busy.
const (
	patience = time.Minute
	refusal  = 3 * time.Second // a daemon that is still there has not refused to start
)

// window is when a fault was there.
type window struct {
	kind     kind
	from, to time.Time
}

// harm does faults to a cluster and undoes them.
type harm struct {
	cluster *lab.Cluster
	begin   time.Time
	verbose bool

	mu       sync.Mutex
	windows  []window
	replaced int // controllers whose damaged log was refused
}

// run carries a schedule out.
func (h *harm) run(ctx context.Context, faults []fault, on []*lab.Daemon) error {
	for _, f := range faults {
		if !lab.Sleep(ctx, f.after) {
			return nil
		}
		from := time.Now()
		if h.verbose {
			fmt.Printf("%7.1fs  %v\n", from.Sub(h.begin).Seconds(), f)
		}
		err := h.do(context.WithoutCancel(ctx), f, on)
		if slices.Contains(onControllers, f.kind) {
			err = errors.Join(err, h.tended(context.WithoutCancel(ctx)))
		}
		h.mu.Lock()
		h.windows = append(h.windows, window{f.kind, from, time.Now()})
		h.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%v: %w", f, err)
		}
	}
	return nil
}

// do does one fault and undoes it.
func (h *harm) do(ctx context.Context, f fault, on []*lab.Daemon) error {
	d := on[f.target]
	if !d.Running() { // it ended by itself, as on a full disk: its service manager starts it again
		if err := d.Start(); err != nil {
			return err
		}
	}
	switch f.kind {
	case killLeader:
		if leader, err := h.leader(ctx); err == nil {
			d = leader
		}
		return h.killed(d, f.length, nil)
	case killOne, killNode:
		return h.killed(d, f.length, nil)
	case killAll:
		return h.killedAll(on, f.length)
	case pause, pauseNode:
		return during(f.length, d.Pause, d.Continue)
	case isolate, isolateNode:
		return during(f.length, func() error { return h.cluster.Unplug(ctx, d) },
			func() error { return h.cluster.Plug(ctx, d) })
	case cut:
		return h.unheard(ctx, on[f.other], d, f.length)
	case cutNode:
		return h.unheard(ctx, h.cluster.Controllers[f.other%len(h.cluster.Controllers)], d, f.length)
	case fullDisk, fullNode:
		err := during(f.length, d.Fill, d.Free)
		return errors.Join(err, restarted(d))
	case readOnly:
		return h.onReadOnlyDisk(d, f.length)
	case tornRecord:
		return h.damaged(ctx, d, f, tear)
	case flipped:
		return h.damaged(ctx, d, f, flip)
	case wrongClock, clockNode:
		return h.withWrongClock(d, f)
	case emptyDisk, oldDisk:
		return h.lostDisk(ctx, d, on[f.other], f)
	case allDown:
		return h.killedAll(on, longerThanALease+f.length)
	case slow, slowNode:
		return slowed(d, f.length)
	case cloneNode:
		return h.cloned(ctx, d, on[f.other], f.length)
	case loseDir:
		return h.killed(d, f.length/4, func() error { return emptyBut(d.Data, filepath.Base(pki.Dir(d.Data))) })
	}
	return fmt.Errorf("no such fault")
}

// during does something, waits, and undoes it.
func during(length time.Duration, do, undo func() error) error {
	if err := do(); err != nil {
		return errors.Join(err, undo())
	}
	<-time.After(length)
	return undo()
}

func (h *harm) leader(ctx context.Context) (*lab.Daemon, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return h.cluster.Leader(ctx)
}

// killed kills d, does something to it while it is down, and starts it again.
func (h *harm) killed(d *lab.Daemon, length time.Duration, down func() error) error {
	d.Kill()
	if down != nil {
		if err := down(); err != nil {
			return err
		}
	}
	<-time.After(length)
	return d.Start()
}

func (h *harm) killedAll(all []*lab.Daemon, length time.Duration) error {
	var wg sync.WaitGroup
	for _, d := range all {
		wg.Go(d.Kill)
	}
	wg.Wait()
	<-time.After(length)
	var errs []error
	for _, d := range all {
		errs = append(errs, d.Start())
	}
	return errors.Join(errs...)
}

// unheard drops what from sends to d.
func (h *harm) unheard(ctx context.Context, from, d *lab.Daemon, length time.Duration) error {
	return during(length, func() error { return h.cluster.Cut(ctx, from, d) },
		func() error { return h.cluster.Mend(ctx, from, d) })
}

// restarted starts a daemon that has ended, as its service manager would: one whose disk was full
// ends itself, maybe after the room is back. It is given a moment for that.
func restarted(d *lab.Daemon) error {
	<-time.After(500 * time.Millisecond)
	if d.Running() {
		return nil
	}
	return d.Start()
}

// onReadOnlyDisk starts d on a disk that it cannot write to: it must refuse.
func (h *harm) onReadOnlyDisk(d *lab.Daemon, length time.Duration) error {
	return h.killed(d, length, func() error {
		if err := d.ReadOnly(); err != nil {
			return err
		}
		if err := d.Start(); err != nil {
			return err
		}
		ended := d.WaitEnd(patience)
		d.Kill()
		if err := d.Writable(); err != nil {
			return err
		}
		if !ended || d.ExitCode() == 0 {
			return fmt.Errorf("%s runs on a disk to which it cannot write", d.Name)
		}
		return nil
	})
}

// withWrongClock runs d for a while with its wall clock moved by up to an hour each way.
func (h *harm) withWrongClock(d *lab.Daemon, f fault) error {
	by := time.Duration((f.amount*2 - 1) * float64(time.Hour)).Round(time.Second)
	d.Env = []string{clock.OffsetVariable + "=" + by.String()}
	err := h.killed(d, 0, nil)
	d.Env = nil
	if err != nil {
		return err
	}
	<-time.After(f.length)
	return h.killed(d, 0, nil)
}

// damaged kills d, damages its log, and starts it again. Either the damage is where nothing is read,
// or the daemon refuses to start. Then its operator replaces it: the cluster forgets this member, its
// data go, and it joins again.
func (h *harm) damaged(ctx context.Context, d *lab.Daemon, f fault,
	damage func(path string, where float64) error,
) error {
	if err := errors.Join(h.allVote(ctx), h.settled(ctx)); err != nil {
		return err // the others have all that was acknowledged, and are a majority
	}
	d.Kill()
	if err := damage(filepath.Join(d.Data, "raft", "log.bolt"), f.amount); err != nil {
		return err
	}
	if err := d.Start(); err != nil {
		return err
	}
	if !d.WaitEnd(max(f.length, refusal)) {
		return nil
	}
	return h.replace(ctx, d)
}

// tended starts controllers that have ended by themselves, and replaces those that refuse: damage may
// be where nothing was read until now.
func (h *harm) tended(ctx context.Context) error {
	for _, d := range h.cluster.Controllers {
		if d.Running() {
			continue
		}
		if err := d.Start(); err != nil {
			return err
		}
		if !d.WaitEnd(refusal) {
			continue
		}
		if err := h.replace(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until every controller has applied what was acknowledged before. An entry that one
// controller alone has is lost with it. A cluster of three survives the loss of one log, not of two
// at once.
func (h *harm) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	index, err := h.acknowledged(ctx)
	for _, d := range h.cluster.Controllers {
		if err == nil {
			err = h.applied(ctx, d, index)
		}
	}
	return err
}

// acknowledged waits until a leader answers, and returns the index of everything that was acknowledged before.
func (h *harm) acknowledged(ctx context.Context) (uint64, error) {
	client, err := h.cluster.Client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return until(ctx, func() (uint64, error) {
		_, answer, err := client.Nodes(ctx, api.Read{Consistent: true})
		return answer.Index, err
	})
}

// written waits until an entry is committed that was written after this call began.
func (h *harm) written(ctx context.Context) error {
	from, err := h.acknowledged(ctx)
	if err != nil {
		return err
	}
	_, err = until(ctx, func() (uint64, error) {
		index, err := h.acknowledged(ctx)
		if err == nil && index <= from {
			err = fmt.Errorf("nothing has been written since index %d", from)
		}
		return index, err
	})
	return err
}

// applied waits until one controller has applied an index.
func (h *harm) applied(ctx context.Context, d *lab.Daemon, index uint64) error {
	client, err := api.Dial("unix:" + d.Socket)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = until(ctx, func() (*api.Cluster, error) {
		if !d.Running() { // a service manager starts it again
			if err := d.Start(); err != nil {
				return nil, err
			}
		}
		info, _, err := client.Cluster(ctx)
		if err == nil && info.Index < index {
			err = fmt.Errorf("%s is at index %d of %d", d.Name, info.Index, index)
		}
		return info, err
	})
	return err
}

// until tries something until it succeeds or ctx ends.
func until[T any](ctx context.Context, try func() (T, error)) (T, error) {
	for {
		v, err := try()
		if err == nil || !lab.Sleep(ctx, 50*time.Millisecond) {
			return v, err
		}
	}
}

// replace does what the operator of a controller with a damaged log does.
func (h *harm) replace(ctx context.Context, d *lab.Daemon) error {
	if d.ExitCode() == 0 {
		return fmt.Errorf("%s ended with success", d.Name)
	}
	h.mu.Lock()
	h.replaced++
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := h.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = until(ctx, func() (bool, error) { return true, client.RemoveController(ctx, d.Name) })
	if err != nil {
		return fmt.Errorf("remove %s from the cluster: %w", d.Name, err)
	}
	others := slices.DeleteFunc(slices.Clone(h.cluster.Controllers), func(o *lab.Daemon) bool { return o == d })
	signer, err := pki.Load(pki.Dir(others[0].Data))
	if err != nil {
		return err
	}
	if err := empty(d.Data); err != nil {
		return err
	}
	if err := signer.Issue(pki.Dir(d.Data), pki.Controller, d.Name, h.cluster.Seeds()); err != nil {
		return err
	}
	if err := d.Start(); err != nil {
		return err
	}
	return h.settled(ctx)
}

// empty removes what a directory holds.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// page is how much a disk writes at once.
const page = 4096

// usedPages returns the offsets of a file's non-zero pages. A log reserves pages on the disk before
// it needs them.
func usedPages(b []byte) []int {
	var used []int
	for at := 0; at+page <= len(b); at += page {
		if slices.ContainsFunc(b[at:at+page], func(x byte) bool { return x != 0 }) {
			used = append(used, at)
		}
	}
	return used
}

// tear cuts off the end of a file: up to an eighth of what it holds, or its last page.
func tear(path string, where float64) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	used := usedPages(b)
	if len(used) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	keep := len(used) - 1 - int(where*float64(len(used))/8)
	return os.Truncate(path, int64(used[keep])+page/2)
}

// flip inverts 64 bytes in a row of what a file holds.
func flip(path string, where float64) error {
	const run = 64
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	used := usedPages(b)
	if len(used) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	n := where * float64(len(used))
	at := used[int(n)] + int((n-float64(int(n)))*(page-run))
	for i := range b[at : at+run] {
		b[at+i] = ^b[at+i]
	}
	return os.WriteFile(path, b, 0o600)
}

// heal makes every machine whole: what a fault left is undone, and every daemon runs.
func (h *harm) heal(ctx context.Context) error {
	if err := h.tended(ctx); err != nil {
		return err
	}
	for _, d := range h.cluster.Nodes {
		if err := restarted(d); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(patience)
	for {
		ready, cancel := context.WithDeadline(ctx, deadline)
		err := h.cluster.Ready(ready)
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		for _, d := range slices.Concat(h.cluster.Controllers, h.cluster.Nodes) {
			if !d.Running() {
				if err := d.Start(); err != nil {
					return err
				}
			}
		}
		lab.Sleep(ctx, 100*time.Millisecond)
	}
}
