package model

// MaxGPUsPerNode bounds a node's GPUs: which of them are free is one machine word.
const MaxGPUsPerNode = 64

// WholeGPU is one GPU in the unit of [Vector].GPUs.
const WholeGPU = 1000

func Healthy(n *Node) uint64 {
	var mask uint64
	for i, g := range n.GPUs {
		if g.Healthy {
			mask |= 1 << i
		}
	}
	return mask
}
