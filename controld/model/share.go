package model

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rota-hpc/rota/jobspec"
)

// A worker may ask for a part of one GPU: 1 to 999 thousandths of it. Of several GPUs it gets each
// as a whole. Workers on a shared GPU differ in amounts only: [Place].GPUs names the device, and
// the worker's request says how much of it the worker has. The part counts for the GPU's time and
// memory alike. A job that declares more memory than its share of it runs on no such GPU
// ([jobspec.GPU.LeastMemory]). So the declared memory of the jobs on a GPU fits into it whenever
// their shares do. One number is enough for placing and accounting.

// Share returns how many thousandths of one GPU a worker asks for, 0 if it gets its GPUs as a whole
// or needs none.
func (r *Request) Share() int64 {
	if IsShare(r.Active.GPUs) {
		return r.Active.GPUs
	}
	return 0
}

// Devices returns on how many GPUs a worker lies: the length of its [Place].GPUs.
func (r *Request) Devices() int { return int(RoundUp(r.Active.GPUs) / WholeGPU) }

// CheckShares refuses parts of several GPUs.
func CheckShares(g *jobspec.Group) error {
	for i := range g.Tasks {
		r := &g.Tasks[i].Resources
		if r.GPU == nil || r.GPU.Share == 0 {
			continue
		}
		if r.GPUs != 1 || r.GPU.Share < 0 || r.GPU.Share >= WholeGPU {
			return &SpecError{fmt.Sprintf("a share is 1 to %d thousandths of one GPU, not %d of %d", WholeGPU-1,
				r.GPU.Share, r.GPUs)}
		}
	}
	if r := GroupRequest(g); r.Active.GPUs > WholeGPU && r.Active.GPUs%WholeGPU != 0 {
		return &SpecError{fmt.Sprintf("the tasks of group %q ask for %s GPUs together: a worker has a part of one GPU, or "+
			"whole ones", g.Name, gpuText(r.Active.GPUs))}
	}
	return nil
}

// Devices is on how many GPUs a worker of a job lies.
func Devices(j *Job, worker int) int {
	r := j.RequestOf(worker)
	return r.Devices()
}

// IsShare reports whether an amount of GPUs, in thousandths, is a part of one GPU.
func IsShare(gpus int64) bool { return gpus > 0 && gpus < WholeGPU }

// RoundUp is an amount of GPUs, in thousandths, with a part of one counted as a whole one.
func RoundUp(gpus int64) int64 { return (gpus + WholeGPU - 1) / WholeGPU * WholeGPU }

// MulDiv is a*b/c of numbers that are not negative, without overflow in between; what does not fit
// is the largest number.
func MulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// GPUTime is how much time of one GPU holding so many thousandths for a time is, rounded down, in
// the unit of the time.
func GPUTime(ms, gpus int64) int64 { return ms/WholeGPU*gpus + ms%WholeGPU*gpus/WholeGPU }

// TimeOf is the reverse of [GPUTime]: for how long so many thousandths, which are not 0, have been
// held.
func TimeOf(gpuTime, gpus int64) int64 { return gpuTime/gpus*WholeGPU + gpuTime%gpus*WholeGPU/gpus }
