package member

import (
	"context"
	"slices"
	"time"
)

// How often a member asks a controller for the keys of the gossip. A new key is only used to send once
// every member that is up had time to ask twice and more: see package leader.
const (
	keysEvery     = 15 * time.Second
	keysEveryFast = time.Second
)

// SetKeys has this member use other keys of the gossip from now on, and keeps them on disk. It sends with
// the first.
func (l *List) SetKeys(keys [][]byte) error {
	if err := l.cfg.Credential.SetGossipKeys(keys); err != nil {
		return err
	}
	return l.wire.setKeys(keys)
}

// followKeys asks the controllers for the keys of the gossip, again and again, and writes down where
// controllers are found.
func (l *List) followKeys(ctx context.Context) {
	every := keysEvery
	if l.cfg.Fast {
		every = keysEveryFast
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seeds []string
	for {
		l.fetchKeys(ctx)
		if now := l.controllerAddrs(); len(now) > 0 && !slices.Equal(now, seeds) {
			if err := l.cfg.Credential.RememberSeeds(now); err != nil {
				l.log.Warn("cannot save the addresses of the controllers", "error", err)
			}
			seeds = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// fetchKeys asks one controller after another until one has answered.
func (l *List) fetchKeys(ctx context.Context) {
	for _, addr := range slices.Compact(slices.Concat(l.controllerAddrs(), l.cfg.Join)) {
		if ctx.Err() != nil {
			return
		}
		keys, err := l.wire.keysFrom(addr)
		if err == nil {
			err = l.SetKeys(keys)
		}
		if err == nil {
			return
		}
		l.log.Debug("no gossip keys from a controller", "addr", addr, "error", err)
	}
}
