// Package logcache caches the newest entries of the log, within a limit of bytes.
package logcache

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Limits of cached entries and of entries in one request. Bytes are limited too, because one entry
// may have up to 33 MiB.
const (
	logsCached       = 64       // cached entries, for followers that are nearly up to date
	logsCachedBytes  = 16 << 20 // cached bytes; a larger entry is read from the disk
	EntriesPerAppend = 64       // entries in one request to a follower
	bytesPerAppend   = 4 << 20  // bytes in one request, unless its first entry is larger
)

// Cache keeps the newest entries of a log in memory. It replaces the library's cache, which limits
// only the number of entries. It is safe for concurrent use if the underlying log is.
type Cache struct {
	raft.LogStore // the log below the cache

	mu    sync.Mutex
	kept  []*raft.Log // sorted by index, without gaps
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
		c.kept[drop] = nil // release the entry, because the array behind the slice stays in use
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

// Shorten returns the first entries of a request, within the limit of bytes. The library continues
// after the last of them.
func Shorten(a *raft.AppendEntriesRequest) {
	size := 0
	for i, l := range a.Entries {
		if size += len(l.Data); size > bytesPerAppend && i > 0 {
			a.Entries = a.Entries[:i]
			return
		}
	}
}
