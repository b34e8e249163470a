package consensus

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

// Alive returns nil as soon as the library's main loop has answered a question, whether this member
// leads, follows, or knows no leader. If the loop hangs, for example on a disk, Alive waits until
// ctx ends and returns the cause of ctx. After the node has stopped, it returns ErrStopped. A
// leader answers after a quorum has confirmed it or after it has stepped down, which takes at most
// Config.LeaderLease.
func (n *Node) Alive(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() { answer <- n.raft.VerifyLeader().Error() }() // the call itself may wait for a loop that hangs
	answered, err := receive(ctx, n, answer)
	if errors.Is(answered, raft.ErrRaftShutdown) {
		return n.stopError()
	}
	return err
}
