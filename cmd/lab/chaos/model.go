package main

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rota-hpc/rota/controld/model"
)

// initialName is what a register holds at first.
const initialName = "w-none"

// operation is a call on a register: the name of a job.
type operation struct {
	client   int
	register model.JobID
	write    bool
	value    string // written or read
	call     time.Duration
	done     time.Duration
	answered bool
}

// nameModel says that a read returns what was written last. Each register is checked alone.
var nameModel = porcupine.Model{
	Init: func() any { return initialName },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(operation); in.write {
			return true, in.value
		}
		return output.(string) == state.(string), state
	},
}

// checkLinearizable returns the registers whose history has no order in which each call takes
// effect between its begin and its end. It also returns those that it could not judge in time. A
// write without an answer may take effect at any time after its begin, or never; a read without one
// says nothing.
func checkLinearizable(history []operation, limit time.Duration) (wrong, unknown []model.JobID) {
	byRegister := map[model.JobID][]porcupine.Operation{}
	var end time.Duration
	for _, op := range history {
		end = max(end, op.done)
	}
	for _, op := range history {
		o := porcupine.Operation{ClientId: op.client, Input: op, Output: op.value, Call: int64(op.call),
			Return: int64(op.done)}
		switch {
		case op.answered:
		case op.write:
			o.Return = int64(end) + 1
		default:
			continue
		}
		byRegister[op.register] = append(byRegister[op.register], o)
	}
	for id, ops := range byRegister {
		switch porcupine.CheckOperationsTimeout(nameModel, ops, limit) {
		case porcupine.Illegal:
			wrong = append(wrong, id)
		case porcupine.Unknown:
			unknown = append(unknown, id)
		}
	}
	return wrong, unknown
}

// String describes o for the log of a run.
func (o operation) String() string {
	what, answer := "read", ""
	if o.write {
		what = "write"
	}
	if !o.answered {
		answer = ", not answered"
	}
	return fmt.Sprintf("client %d %ss %q of job %d from %v to %v%s", o.client, what, o.value, o.register,
		o.call.Round(time.Millisecond), o.done.Round(time.Millisecond), answer)
}
