package controld

import (
	"context"
	"sync"

	"github.com/rota-hpc/rota/controld/cluster"
)

// lookout wakes those who wait for something in the state. It asks for each of them, once for all entries that were applied meanwhile,
// whether what they wait for has come, so that a thousand long polls do not all wake at every entry of the log. The zero value is ready.
type lookout struct {
	mu      sync.Mutex
	waiting map[*awaited]struct{}
}

// awaited is what one of them waits for.
type awaited struct {
	ready func(*cluster.View) bool // called by the lookout, quick, and without effect
	come  chan struct{}            // closed when it has come
}

// add begins to look out for something. Whoever adds looks at the state afterwards, so that nothing is missed, and removes it in the end.
func (l *lookout) add(ready func(*cluster.View) bool) *awaited {
	a := &awaited{ready: ready, come: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[*awaited]struct{}{}
	}
	l.waiting[a] = struct{}{}
	return a
}

func (l *lookout) remove(a *awaited) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, a)
}

// tell wakes everyone for whom it has come.
func (l *lookout) tell(v *cluster.View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.waiting {
		if a.ready(v) {
			delete(l.waiting, a)
			close(a.come)
		}
	}
}

// look tells the lookout of every change, those that come close together at once.
func (d *daemon) look(ctx context.Context) error {
	for {
		changed := d.machine.changed.wait()
		d.lookout.tell(d.machine.view.Load())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// until waits until ready holds of the state, and returns the view of which it does. Otherwise it returns the newest view and false: give
// was closed or delivered, the daemon stops, or ctx has ended, which is the only error.
func (d *daemon) until(ctx context.Context, ready func(*cluster.View) bool, give <-chan struct{}) (*cluster.View, bool, error) {
	v := d.machine.view.Load()
	if ready(v) {
		return v, true, nil
	}
	a := d.lookout.add(ready)
	defer d.lookout.remove(a)
	if v = d.machine.view.Load(); ready(v) {
		return v, true, nil
	}
	select {
	case <-a.come:
		return d.machine.view.Load(), true, nil
	case <-give:
	case <-d.stopping:
	case <-ctx.Done():
		return d.machine.view.Load(), false, context.Cause(ctx)
	}
	return d.machine.view.Load(), false, nil
}
