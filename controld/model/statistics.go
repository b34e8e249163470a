package model

// MoveTowards moves an estimate towards a value that was seen: up nine times as fast as down, which is where it rests when one of ten is above.
func (v Vector) MoveTowards(seen Vector) Vector {
	step := func(have, want int64) int64 {
		if want > have {
			return have + (want-have+7)/8
		}
		return have - (have-want)/72
	}
	return VectorOf(step(v.Cores, seen.Cores), step(int64(v.Memory), int64(seen.Memory)), step(v.GPUs, seen.GPUs))
}
