package model

import (
	"math/bits"

	"github.com/rota-hpc/rota/jobspec"
)

// LevelOwnRoom is the level of a job that left its room to one that did not want it any more; see
// [Job.Level].
const LevelOwnRoom = -1

// levelUnit is up to how much service level 0 goes, in milliseconds of one GPU. Every level after
// it goes up to twice as much as the one before. Runtimes of jobs differ by orders of magnitude,
// and a job that has run for long will most likely run for as long again.
const levelUnit = 900_000

// ServiceLevel returns how much service a waiting job has had by the attempts that are over: 0 for
// little. Jobs with less go first where policies say so. Trial-and-error jobs have level 0.
func (j *Job) ServiceLevel() int {
	switch {
	case j.OwnRoomFirst:
		return LevelOwnRoom
	case j.Class == jobspec.TE || j.Attempt == 0:
		return 0
	}
	return j.ServiceLevelAt(j.Attained())
}

// ServiceLevelAt returns the level of a job that has had so much service.
func (j *Job) ServiceLevelAt(attained int64) int {
	if wide := j.Width(); wide >= WideGPUs && attained/(wide/WholeGPU) < WideRunMS {
		return 0
	}
	return bits.Len64(uint64(max(0, attained)) / levelUnit)
}

// Width returns how many thousandths of a GPU all workers of a job hold together.
func (j *Job) Width() int64 {
	var gpus int64
	for i := range j.Workers {
		gpus += j.RequestOf(i).Active.GPUs
	}
	return gpus
}

// WideGPUs is the number of thousandths of a GPU from which a gang is wide. Room for it is hard to
// find, so it stays at level 0 until it has had its room for WideRunMS.
const (
	WideGPUs  = 16 * WholeGPU
	WideRunMS = 4 * 3600 * 1000
)
