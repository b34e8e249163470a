package trace

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
)

// Search is a search for a configuration that learns well. Its jobs differ in their configuration
// only, and are submitted together as the tasks of one array. It ends when the first task reaches
// the goal: then the array is cancelled.
type Search struct {
	Goal   int64 // thousandths of accuracy
	AtStep int64 // mini-batches after which tasks are compared, as at_step of a stop block
	Keep   int   // how many tasks go on then, as keep of a stop block; 0: all
}

// Learning says how well a job has learned after some of its work. F is Final, H is Half, W is the
// job's work and w is its work so far, all times in ms. The accuracy is
//
//	F w (W+H) / (W (w+H))
//
// thousandths: it grows ever more slowly, is a little more than half of F after H, and F after W.
type Learning struct {
	Final int64 // thousandths of accuracy once all work is done
	Half  int64 // ms of work
	Error int64 // thousandths by which the job's report at its search's step is too high
}

// maxSearchWork bounds the work of a job that learns, so that products of two times fit.
const maxSearchWork = 10 * 24 * hour

// Accuracy returns the thousandths of accuracy after some ms of a job's work.
func (c *Learning) Accuracy(work, done int64) int64 {
	done = min(max(0, done), work)
	return c.Final * ((work + c.Half) * done / work) / (done + c.Half)
}

// Reaches returns after how many ms of a job's work it reaches an accuracy, and false if it never
// does.
func (c *Learning) Reaches(work, accuracy int64) (int64, bool) {
	if c.Final < accuracy {
		return 0, false
	}
	lo, hi := int64(0), work // it has reached it at hi, and not before lo
	for lo < hi {
		if mid := (lo + hi) / 2; c.Accuracy(work, mid) >= accuracy {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return hi, true
}

// checkSearch returns the fault of a job's search or learning curve.
func (j *Job) checkSearch() error {
	switch {
	case (j.Search == nil) != (j.Learning == nil):
		return errors.New("jobs of a search need values for learning, and other jobs must not have them")
	case j.Search == nil:
		return nil
	case j.Search.Goal < 1 || j.Search.Goal > 1000 || j.Learning.Final < 0 || j.Learning.Final > 1000:
		return errors.New("an accuracy must be 0 to 1000 thousandths, and a goal more than 0")
	case j.Search.Keep < 0 || j.Search.Keep > jobspec.MaxElements || (j.Search.AtStep > 0) != (j.Search.Keep > 0):
		return errors.New("a search needs either both the number of kept tasks and the step of the comparison, or neither")
	case j.Learning.Half < 1 || j.Learning.Half > maxSearchWork || j.Work > maxSearchWork:
		return fmt.Errorf("the work of a job of a search, and its half-learning time, must be 1 ms to %d days",
			maxSearchWork/24/hour)
	}
	return nil
}
