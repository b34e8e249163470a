package consensustest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rota-hpc/rota/consensus"
)

// EmptyDisk erases the disk of a member that is down, as if the disk had been replaced. The record
// outside of the directory stays.
func (c *Cluster) EmptyDisk(name string) {
	c.tb.Helper()
	c.down(name)
	c.must(os.RemoveAll(c.Dir(name)))
}

// KeepDisk copies the disk of a member that is down; OldDisk restores the last copy.
func (c *Cluster) KeepDisk(name string) {
	c.tb.Helper()
	c.down(name)
	c.must(errors.Join(os.RemoveAll(c.Dir(name)+".old"), os.CopyFS(c.Dir(name)+".old", os.DirFS(c.Dir(name)))))
}

// OldDisk discards what was written since KeepDisk.
func (c *Cluster) OldDisk(name string) {
	c.tb.Helper()
	c.down(name)
	c.must(errors.Join(os.RemoveAll(c.Dir(name)), os.CopyFS(c.Dir(name), os.DirFS(c.Dir(name)+".old"))))
}

// CloneDisk replaces the disk of a member that is down by a copy of another stopped member's disk.
func (c *Cluster) CloneDisk(name, of string) {
	c.tb.Helper()
	c.down(name)
	c.down(of)
	c.must(errors.Join(os.RemoveAll(c.Dir(name)), os.CopyFS(c.Dir(name), os.DirFS(c.Dir(of)))))
}

// Boot erases what the machine of a stopped member keeps in memory: its record.
func (c *Cluster) Boot(name string) {
	c.tb.Helper()
	c.down(name)
	if err := os.Remove(c.Dir(name) + ".record"); !errors.Is(err, fs.ErrNotExist) {
		c.must(err)
	}
}

// down fails the test if the member runs.
func (c *Cluster) down(name string) {
	c.tb.Helper()
	if c.Node(name) != nil {
		c.tb.Fatalf("%s runs", name)
	}
}

func (c *Cluster) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatal(err)
	}
}

// Reopen starts a member that is down, and returns the error if the start is refused.
func (c *Cluster) Reopen(name string) error {
	c.tb.Helper()
	c.down(name)
	return c.start(c.find(name), nil)
}

// Readmit makes the leader replace a member by the same member with its new log.
func (c *Cluster) Readmit(name string) {
	c.tb.Helper()
	c.WaitLeader()
	c.Eventually("return of "+name, func() bool { return c.readmit(name) })
}

// readmit takes one step of it, and reports whether the member votes.
func (c *Cluster) readmit(name string) bool {
	found := c.verified()
	if found == "" {
		return false
	}
	leader, self := c.Node(found), c.Node(name).Self()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	same := func(m consensus.Member) bool { return m.Name == name && m.Log == self.Log }
	named := func(m consensus.Member) bool { return m.Name == name && m.Log != self.Log }
	switch {
	case slices.ContainsFunc(leader.Members(), same):
		return true
	case slices.ContainsFunc(leader.Members(), named):
		_ = leader.Remove(ctx, name) // the next step tries again
	case !slices.ContainsFunc(leader.Learners(), same):
		_ = leader.AddLearner(ctx, self)
	case c.Node(name).Applied() >= leader.Applied():
		_ = leader.AddVoter(ctx, self)
	}
	return false
}
