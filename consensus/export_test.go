package consensus

import "time"

// WaitForSilence sets after how long a silence of the leader n stands for election.
func (n *Node) WaitForSilence(d time.Duration) error {
	c := n.raft.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = d, d
	return n.raft.ReloadConfig(c)
}

// HangDisk makes every write to the log of n wait until release is called.
func (n *Node) HangDisk() (release func()) {
	n.guard.mu.Lock()
	return n.guard.mu.Unlock
}
