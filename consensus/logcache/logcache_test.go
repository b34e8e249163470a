package logcache

import (
	"testing"

	"github.com/hashicorp/raft"
)

// store appends an entry of some size.
func (c *Cache) store(t *testing.T, index uint64, size int) {
	t.Helper()
	if err := c.StoreLog(&raft.Log{Index: index, Term: 1, Type: raft.LogNoop, Data: make([]byte, size)}); err != nil {
		t.Fatal(err)
	}
}

func TestTheLogInMemoryIsBounded(t *testing.T) {
	c := &Cache{LogStore: raft.NewInmemStore()}
	for i := range uint64(logsCached + 3) {
		c.store(t, i+1, 1)
	}
	if len(c.kept) != logsCached || c.bytes != logsCached || c.cached(3) != nil || c.cached(4) == nil ||
		c.cached(logsCached+3) == nil || c.cached(logsCached+4) != nil {
		t.Errorf("%d entries of %d bytes, from %d on", len(c.kept), c.bytes, c.kept[0].Index)
	}
	c.store(t, logsCached+4, 16<<20-10)
	if len(c.kept) != 11 || c.bytes != 16<<20 {
		t.Errorf("%d entries of %d bytes beside a large one", len(c.kept), c.bytes)
	}
	c.store(t, logsCached+5, 16<<20+1)
	if len(c.kept) != 0 || c.bytes != 0 {
		t.Errorf("%d entries of %d bytes after one that is too large", len(c.kept), c.bytes)
	}
	c.store(t, logsCached+6, 7)
	for i := range uint64(logsCached + 6) { // from memory or from the disk
		var l raft.Log
		if err := c.GetLog(i+1, &l); err != nil || l.Index != i+1 {
			t.Errorf("entry %d: %d, %v", i+1, l.Index, err)
		}
	}
	if err := c.DeleteRange(1, 5); err != nil || c.cached(logsCached+6) != nil {
		t.Errorf("entries are kept in memory after a deletion: %v", err)
	}
	c.store(t, logsCached+7, 1)
	c.store(t, logsCached+20, 1) // behind a snapshot
	if len(c.kept) != 1 || c.bytes != 1 || c.cached(logsCached+8) != nil {
		t.Errorf("%d entries of %d bytes after a gap", len(c.kept), c.bytes)
	}
}

func TestARequestIsBounded(t *testing.T) {
	for _, test := range []struct {
		sizes []int
		want  int
	}{
		{nil, 0}, {[]int{1, 1}, 2}, {[]int{4 << 20, 1}, 1}, {[]int{4<<20 - 1, 1}, 2},
		{[]int{4<<20 - 1, 2}, 1}, {[]int{8 << 20}, 1}, {[]int{8 << 20, 1}, 1},
		{[]int{1, 8 << 20, 1}, 1},
	} {
		a := &raft.AppendEntriesRequest{}
		for _, size := range test.sizes {
			a.Entries = append(a.Entries, &raft.Log{Data: make([]byte, size)})
		}
		if Shorten(a); len(a.Entries) != test.want {
			t.Errorf("of entries of %v bytes %d are sent, want %d", test.sizes, len(a.Entries), test.want)
		}
	}
}
