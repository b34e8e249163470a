package consensus

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/entry"
)

// entries returns a log as a leader makes it, from one entry after first on.
func entries(c entry.Chain, first uint64, contents ...string) []*raft.Log {
	var logs []*raft.Log
	for i, text := range contents {
		l := &raft.Log{Index: first + uint64(i), Term: 4, Type: raft.LogCommand,
			Data: new(entry.Packer).Encode([][]byte{[]byte(text)})}
		c.Add(l)
		logs = append(logs, l)
	}
	return logs
}

// follow returns the chain of a follower that takes the logs, and the first that it refuses.
func follow(c entry.Chain, logs []*raft.Log) (entry.Chain, uint64) {
	for _, l := range logs {
		if !c.Add(l) {
			return c, l.Index
		}
	}
	return c, 0
}

func TestAnEntryBelongsBehindOneLog(t *testing.T) {
	empty := entry.Chain{Known: true}
	leader := entries(empty, 1, "a", "b", "c", "d")
	behind, refused := follow(empty, leader)
	if refused != 0 || behind.Index != 4 {
		t.Fatalf("a follower of the same log refuses entry %d, at %d", refused, behind.Index)
	}
	for name, other := range map[string][]*raft.Log{
		"content": entries(empty, 1, "a", "x", "c"),
		"term":    {leader[0], {Index: 2, Term: 5, Type: raft.LogCommand, Data: leader[1].Data}, {Index: 3, Term: 4}},
		"type":    {leader[0], {Index: 2, Term: 4, Type: raft.LogNoop, Data: leader[1].Data}, {Index: 3, Term: 4}},
		"no data": {leader[0], {Index: 2, Term: 4, Type: raft.LogNoop}, {Index: 3, Term: 4}},
	} {
		for _, l := range other[1:] {
			if name != "content" {
				l.Extensions = nil
			}
		}
		c, _ := follow(empty, other)
		if _, refused := follow(c, leader[3:]); refused != 4 {
			t.Errorf("another %s before it: entry 4 is taken", name)
		}
	}
	damaged := *leader[2]
	damaged.Data = entries(empty, 3, "C")[0].Data
	c, _ := follow(empty, leader[:2])
	if _, refused := follow(c, []*raft.Log{&damaged}); refused != 3 {
		t.Error("an entry with other content is taken")
	}
}

// A member that has the entries before in its snapshot only begins anew, and its followers take that.
func TestAChainBeginsAnewBehindASnapshot(t *testing.T) {
	leader := entries(entry.Chain{}, 7, "g", "h", "i")
	whole, _ := follow(entry.Chain{Known: true}, entries(entry.Chain{Known: true}, 1, "a", "b", "c", "d", "e", "f"))
	for name, c := range map[string]entry.Chain{"with the entries before": whole, "with a snapshot too": {},
		"that is empty": {Known: true}} {
		if c, refused := follow(c, leader); refused != 0 || c.Index != 9 {
			t.Errorf("a follower %s refuses entry %d", name, refused)
		}
	}
	later := entries(entry.Chain{Known: true}, 1, "a", "b", "c", "d", "e", "f", "g", "h")[7:]
	if _, refused := follow(whole, later); refused != 0 { // a gap, behind a snapshot
		t.Error("a follower whose log has a gap refuses the entry behind it")
	}
	c, _ := follow(whole, leader[:1])
	other := entries(entry.Chain{}, 7, "G", "h")
	if _, refused := follow(c, other[1:]); refused != 8 {
		t.Error("another entry 7 is not noticed")
	}
}

// emptyLog returns the guard of an empty log.
func emptyLog(t *testing.T) *guard {
	t.Helper()
	d, err := openDirectory(filepath.Join(t.TempDir(), "raft"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close() })
	return &guard{store: d.log, promises: d.promises, applied: func() uint64 { return 0 },
		differs: func(l *raft.Log) { t.Errorf("entry %d does not follow", l.Index) },
		fail:    func(op string, err error) { t.Errorf("%s: %v", op, err) }, stall: never}
}
