package fit

// pick chooses n of the free GPUs of a node, given by ascending index; nil if fewer are free. It
// takes them from the shortest unbroken run that is long enough. So long runs stay whole for jobs
// that need them, and neighbours, which tend to share a switch, stay together. If no run is long
// enough, it takes the lowest.
func pick(free []int, n int) []int {
	if n <= 0 || len(free) < n {
		return nil
	}
	best, length := 0, len(free)+1
	for start := 0; start < len(free); {
		end := start + 1
		for end < len(free) && free[end] == free[end-1]+1 {
			end++
		}
		if end-start >= n && end-start < length {
			best, length = start, end-start
		}
		start = end
	}
	return append([]int(nil), free[best:best+n]...)
}
