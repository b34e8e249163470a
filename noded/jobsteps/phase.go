package jobsteps

// phase says where the output of a step goes.
type phase int

const (
	// attached: a client is connected, and output is passed on.
	attached phase = iota
	// leaving: a client is connected, and its job has ended. No other client is awaited after it.
	leaving
	// waiting: the client is gone. The parts are not read, so their shims keep the output.
	waiting
	// draining: no client comes back. The output is dropped.
	draining
	// reading: a client has come after all. It gets the output that the shims still have; nothing of
	// it is kept for a later client.
	reading
)

// happening is an event that may move a step to another phase.
type happening int

const (
	clientCame   happening = iota // the first client, or one that comes back
	clientLost                    // its connection broke
	clientTold                    // it has read how the step ended
	patienceOver                  // none came back within clientPatience
	jobEnded
	neverBegan // a restarted daemon found a step that had not begun on all its nodes
)

// moves is the table of phases and events. An event that a row does not have leaves the phase as it
// is. The goroutine of a step ends in draining, once all its parts have ended.
var moves = map[phase]map[happening]phase{
	attached: {clientLost: waiting, clientTold: draining, jobEnded: leaving},
	leaving:  {clientLost: draining, clientTold: draining},
	waiting:  {clientCame: attached, patienceOver: draining, jobEnded: draining, neverBegan: draining},
	draining: {clientCame: reading},
	reading:  {clientLost: draining, clientTold: draining},
}

// after returns the phase after an event.
func (p phase) after(h happening) phase {
	if next, ok := moves[p][h]; ok {
		return next
	}
	return p
}

// reads reports whether the output of the parts is read.
func (p phase) reads() bool { return p != waiting }

// keeps reports whether shims keep output that a later client may read again.
func (p phase) keeps() bool { return p != draining && p != reading }
