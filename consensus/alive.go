package consensus

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

// Alive returns nil once the library's main loop has answered a question, whether this member leads,
// follows, or knows no leader. While the loop hangs, such as on a disk that does not answer, it waits
// and returns the cause of ctx. After the end of the node it returns ErrStopped. A leader answers
// once it has asked a quorum or has given up leading, which takes it Config.LeaderLease.
func (n *Node) Alive(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() { answer <- n.raft.VerifyLeader().Error() }() // the call itself may wait for a loop that hangs
	answered, err := receive(ctx, n, answer)
	if errors.Is(answered, raft.ErrRaftShutdown) {
		return n.stopError()
	}
	return err
}
