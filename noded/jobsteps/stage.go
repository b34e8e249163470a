package jobsteps

import "github.com/rota-hpc/rota/noded/jobsteps/choose"

// stage says how far a step has come that has a number. phase says where the output of one goes that
// runs.
type stage int

const (
	// gone: it has ended, or it never began. A job remembers the key of its request alone.
	gone stage = iota
	// granted: it holds its shares. No node has started a part.
	granted
	// running: its parts run, and hold its shares.
	running
	// freed: its parts have ended, and its shares are given back. Its row is not written yet.
	freed
)

// stageEvent is an event that may move a step to another stage.
type stageEvent int

const (
	stepBegins stageEvent = iota
	givenBack             // before it began its client was gone, or its job had ended
	partsEnded
	rowWritten
)

// stages is the table of stages and events. An event that a row does not have leaves the stage as it
// is: a late client may have the parts end a second time.
var stages = map[stage]map[stageEvent]stage{
	granted: {stepBegins: running, givenBack: gone},
	running: {partsEnded: freed},
	freed:   {rowWritten: gone},
}

// after returns the stage after an event.
func (s stage) after(e stageEvent) stage {
	if next, ok := stages[s][e]; ok {
		return next
	}
	return s
}

// holds reports whether no other step may have the shares.
func (s stage) holds() bool { return s == granted || s == running }

// runs reports whether clients can attach to the step, and its job waits for it.
func (s stage) runs() bool { return s == running || s == freed }

// numbered is a step that has a number.
type numbered struct {
	stage  stage
	shares []choose.Share // that others may not have; none: it shares them
	step   *step          // nil while it is granted
}

// move moves a step to the stage after an event. The caller has the mutex.
func (j *job) move(n int, e stageEvent) {
	one := j.numbers[n]
	if one == nil {
		return
	}
	if one.stage = one.stage.after(e); one.stage == gone {
		delete(j.numbers, n)
	}
}

// step returns a step that runs, nil for another number. The caller has the mutex.
func (j *job) step(n int) *step {
	if one := j.numbers[n]; one != nil && one.stage.runs() {
		return one.step
	}
	return nil
}

// steps lists the steps that run. The caller has the mutex.
func (j *job) steps() []*step {
	var list []*step
	for _, one := range j.numbers {
		if one.stage.runs() {
			list = append(list, one.step)
		}
	}
	return list
}

// allHeld lists the shares that are held. The caller has the mutex.
func (j *job) allHeld() []choose.Share {
	var all []choose.Share
	for _, one := range j.numbers {
		if one.stage.holds() {
			all = append(all, one.shares...)
		}
	}
	return all
}
