package elastic

// Tunables are the numbers that steer the sizes of elastic jobs. Each has a unit, a reason and its
// evidence.
type Tunables struct {
	// UnseenServiceMS, in ms of one GPU: a job needs so much at least, if none like it has
	// completed. Reason: a first guess; it doubles with what a job has had. Evidence:
	// cmd/lab/papers.md, "Elastic jobs with measured speeds".
	UnseenServiceMS int64
	// WorthPower, in power: what further workers do counts by this power when room is divided, how
	// much the job needs by the first. Reason: workers that do little for a short job are missed by
	// all others. Evidence: cmd/lab/papers.md, "Elastic jobs with measured speeds".
	WorthPower int
	// LeftPart, in parts: a job that has had what others like it had in all still needs one part of
	// that. Reason: it may run longer than they did. Evidence: a round number, chosen without
	// measurement.
	LeftPart int64
	// UnseenLoss, in millionths: each further worker costs all so much, as long as no speed was
	// measured. Reason: usual scaling of data-parallel training. Evidence: cmd/lab/papers.md,
	// "Elastic jobs with measured speeds".
	UnseenLoss int64
	// FasterPM, in thousandths: a size is worth more than a smaller one only if the job is faster by
	// this. Reason: measurements differ by about as much. Evidence: a round number, chosen without
	// measurement.
	FasterPM int64
	// ClusterPart, in parts of the cluster: one job grows to one part of the GPUs, or cores, at most.
	// It may always grow to the size of one node. Reason: leaves room to others. Evidence:
	// cmd/lab/papers.md, "Elastic jobs with measured speeds".
	ClusterPart int64
	// GainPM, in thousandths: a job must get faster by so much with more workers to keep them, if
	// the policy block does not say. Reason: tipping point of the paper. Evidence:
	// cmd/lab/papers.md, "Elastic jobs on Kubeflow".
	GainPM int64
	// UsualLoss, in millionths: the loss c by which each further worker slows all others, for a job
	// whose speed is known at one size only. Then n workers are n/(1+c(n-1)) times as fast as one.
	// Reason: usual scaling of data-parallel training. Evidence: a round number, chosen without
	// measurement.
	UsualLoss int64
	// RestartMS, in ms: a job stands still for so long when it is restarted, as long as that was
	// never measured. Reason: containers start in seconds, frameworks in tens of seconds. Evidence:
	// a round number, chosen without measurement.
	RestartMS int64
}

// tunables are the values in use. They never change.
var tunables = Tunables{
	UnseenServiceMS: 900_000,
	WorthPower:      5,
	LeftPart:        8,
	UnseenLoss:      31_250,
	FasterPM:        1020,
	ClusterPart:     4,
	GainPM:          50,
	UsualLoss:       62_500,
	RestartMS:       30_000,
}
