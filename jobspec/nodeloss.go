package jobspec

import "fmt"

// NodeLoss says what becomes of a job whose node is silent: [NodeLossRequeue] or [NodeLossWait]. The zero
// value leaves it to the job's queue.
type NodeLoss uint8

// Values of [Job.OnNodeLost].
const (
	NodeLossRequeue NodeLoss = 1 // stopped at the end of its lease, and started elsewhere after that
	// never stopped by its lease, and not started elsewhere until the node returns or is confirmed dead
	NodeLossWait NodeLoss = 2
)

var nodeLosses = [...]string{NodeLossRequeue: "requeue", NodeLossWait: "wait"}

// ParseNodeLoss reads "requeue" or "wait"; "" is the zero value.
func ParseNodeLoss(text string) (NodeLoss, error) {
	for l, word := range nodeLosses {
		if word == text {
			return NodeLoss(l), nil
		}
	}
	return 0, fmt.Errorf(`unknown action for a lost node, %q: write "requeue" or "wait"`, text)
}

// String returns the word that stands for l in files, "" for the zero value.
func (l NodeLoss) String() string {
	if int(l) < len(nodeLosses) {
		return nodeLosses[l]
	}
	return fmt.Sprintf("NodeLoss(%d)", uint8(l))
}

// MarshalText implements encoding.TextMarshaler.
func (l NodeLoss) MarshalText() ([]byte, error) {
	if int(l) >= len(nodeLosses) {
		return nil, fmt.Errorf("%v has no word", l)
	}
	return []byte(l.String()), nil
}

// UnmarshalText is the reverse of MarshalText.
func (l *NodeLoss) UnmarshalText(text []byte) (err error) {
	*l, err = ParseNodeLoss(string(text))
	return err
}
