// Package logcache keeps the newest entries of the log in memory, bounded by their bytes.
package logcache

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Limits of what is kept in memory of the log, and sent at once. They count bytes too, since one
// entry may have as many as 33 MiB.
const (
	logsCached       = 64       // entries kept for followers that are nearly up to date
	logsCachedBytes  = 16 << 20 // and bytes of them; a larger entry is read from the disk
	EntriesPerAppend = 64       // in one request to a follower
	bytesPerAppend   = 4 << 20  // and bytes of them, unless the first entry alone has more
)

// Cache keeps the newest entries of a log in memory. It takes the place of the library's, which counts
// entries only. It is safe for concurrent use if the log is.
type Cache struct {
	raft.LogStore // below the cache

	mu    sync.Mutex
	kept  []*raft.Log // in order of their indexes, without gaps
	bytes int
}

// GetLog implements raft.LogStore.
func (c *Cache) GetLog(index uint64, log *raft.Log) error {
	if l := c.cached(index); l != nil {
		*log = *l
		return nil
	}
	return c.LogStore.GetLog(index, log)
}

func (c *Cache) cached(index uint64) *raft.Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) == 0 || index < c.kept[0].Index || index > c.kept[len(c.kept)-1].Index {
		return nil
	}
	return c.kept[index-c.kept[0].Index]
}

// StoreLog implements raft.LogStore.
func (c *Cache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (c *Cache) StoreLogs(logs []*raft.Log) error {
	if err := c.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range logs {
		if n := len(c.kept); n > 0 && l.Index != c.kept[n-1].Index+1 {
			c.kept, c.bytes = nil, 0
		}
		c.kept, c.bytes = append(c.kept, l), c.bytes+len(l.Data)
	}
	drop := 0
	for ; len(c.kept)-drop > logsCached || c.bytes > logsCachedBytes; drop++ {
		c.bytes -= len(c.kept[drop].Data)
		c.kept[drop] = nil // the memory below the slice goes on to live
	}
	c.kept = c.kept[drop:]
	return nil
}

// DeleteRange implements raft.LogStore.
func (c *Cache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	c.kept, c.bytes = nil, 0
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}

// Shorten leaves as many entries in a request as it may have bytes. The library goes on behind the
// last one.
func Shorten(a *raft.AppendEntriesRequest) {
	size := 0
	for i, l := range a.Entries {
		if size += len(l.Data); size > bytesPerAppend && i > 0 {
			a.Entries = a.Entries[:i]
			return
		}
	}
}
