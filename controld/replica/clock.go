package replica

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// logClock has the log's time, which goes on from leader to leader: also while there is none, and
// while a controller restarts. Each controller notes the offset between log time and its machine's
// CLOCK_BOOTTIME whenever it applies an entry. The leader stamps entries by its own note. So no
// wall clock decides. On a follower the log's time stands still at the last entry. Apply never lets
// it go back.
type logClock struct {
	boot func() time.Duration // CLOCK_BOOTTIME
	file string               // keeps the note over restarts of the daemon, not of the machine

	mu     sync.Mutex
	note   clockNote
	noted  bool
	latest time.Duration // on the boot clock: when note was confirmed
	leads  bool
	saved  clockNote
	saveAt time.Duration // on the boot clock: not before
}

// clockNote says where the log's time is.
type clockNote struct {
	Boot  string        `json:"boot_id"`
	Ahead model.Instant `json:"ahead_ms"` // of CLOCK_BOOTTIME
}

// A note is valid for noteFor. An entry that comes late, or is read again at the start, gives too
// small an offset and never one too large. After that time it may be the machine's clock that is
// fast.
const (
	noteFor   = time.Minute
	saveEvery = time.Second
)

// openLogClock returns the clock whose note is kept in dir.
func openLogClock(dir string) (*logClock, error) {
	boot, err := clock.BootID()
	if err != nil {
		return nil, fmt.Errorf("boot id of this machine: %w", err)
	}
	c := &logClock{boot: clock.Boot, file: filepath.Join(dir, "clock"), note: clockNote{Boot: boot}}
	var kept clockNote
	b, err := os.ReadFile(c.file)
	if err == nil && json.Unmarshal(b, &kept) == nil && kept.Boot == boot { // else the last entry tells, as at first
		c.note, c.saved, c.noted, c.latest = kept, kept, true, c.boot()
	}
	return c, nil
}

// entry notes that the log was at this instant no later than now.
func (c *logClock) entry(at model.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.boot()
	ahead := at - model.Instant(now.Milliseconds())
	if !c.leads && (!c.noted || ahead >= c.note.Ahead || now-c.latest >= noteFor) {
		c.note.Ahead, c.noted, c.latest = ahead, true, now
	}
	if c.note != c.saved && now >= c.saveAt {
		c.saveAt = now + saveEvery
		c.save()
	}
}

// save writes the note, or leaves it to a later entry: a disk that is full stops the log itself. It
// is not synced, because it holds good for this boot of the machine only.
func (c *logClock) save() {
	b, err := json.Marshal(c.note)
	if err != nil {
		return
	}
	if os.WriteFile(c.file+".new", b, 0o600) == nil && os.Rename(c.file+".new", c.file) == nil {
		c.saved = c.note
	}
}

// start lets the clock go when this controller becomes the leader, from base or from its note,
// whichever is later.
func (c *logClock) start(base model.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := base - model.Instant(c.boot().Milliseconds())
	if !c.noted || least > c.note.Ahead {
		c.note.Ahead, c.noted = least, true
	}
	c.leads = true
}

// stop makes it stand still again.
func (c *logClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads, c.latest = false, c.boot()
}

// now is the present instant, at least that of v.
func (c *logClock) now(v *state.View) model.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.leads {
		return v.At()
	}
	return max(v.At(), c.note.Ahead+model.Instant(c.boot().Milliseconds()))
}
